//! Who of a group reads what, computed on the server's side: `uniform` and `range` for consumer groups (KIP-848), `simple` for
//! share groups (KIP-932).
//!
//! An assignor is a function of the members, their subscriptions and what they have now. It costs about as much as its
//! input and output are long (times a logarithm): thousands of members are meant to be assigned in milliseconds.
//!
//! Deliberately not here: racks. Replicas of one node are all in one place.

mod board;
mod range;
mod simple;
mod uniform;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_types::TopicId;

/// Partitions by topic; ascending, none twice, no topic without any.
pub type Partitions = BTreeMap<TopicId, Vec<i32>>;

/// What shall be assigned to whom.
#[derive(Debug)]
pub(crate) struct AssignmentTask<'a> {
    /// The partitions that can be assigned, of topics that at least one member reads, ascending.
    pub(crate) topics: &'a Partitions,
    /// The members, ascending by id.
    pub(crate) members: Vec<AssignmentMember<'a>>,
}

/// A member as an assignor sees it.
#[derive(Debug)]
pub(crate) struct AssignmentMember<'a> {
    /// Its id.
    pub(crate) id: &'a str,
    /// Its static identity, which outlives its id.
    pub(crate) instance: Option<&'a str>,
    /// The topics that it reads, ascending. Members with the same subscription share it.
    pub(crate) topics: Arc<[TopicId]>,
    /// What it shall have so far.
    pub(crate) current: Option<&'a Partitions>,
}

impl AssignmentTask<'_> {
    /// True if all members read the same topics.
    fn is_homogeneous(&self) -> bool {
        self.members
            .windows(2)
            .all(|pair| Arc::ptr_eq(&pair[0].topics, &pair[1].topics) || pair[0].topics == pair[1].topics)
    }
}

/// An assignor of consumer groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConsumerAssignor {
    /// Everybody gets equally much, and keeps what it has where that is possible.
    Uniform,
    /// Each topic is cut into ranges, so that equally numbered partitions of topics come together.
    Range,
}

impl ConsumerAssignor {
    /// The one of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "range" => Some(Self::Range),
            _ => None,
        }
    }

    /// What each member of the task shall have, in the order of the members.
    pub(crate) fn assign(self, task: &AssignmentTask<'_>) -> Vec<Partitions> {
        match self {
            Self::Uniform => uniform::assign(task),
            Self::Range => range::assign(task),
        }
    }
}

/// What each member of a share group shall have, in the order of the members. Members may share partitions.
pub(crate) fn assign_shares(task: &AssignmentTask<'_>) -> Vec<Partitions> {
    simple::assign(task)
}
