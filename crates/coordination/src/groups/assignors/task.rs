//! The input of an assignor.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_types::TopicId;

/// Partitions by topic, ascending and without duplicates. No topic has an empty list.
pub type Partitions = BTreeMap<TopicId, Vec<i32>>;

/// Partitions and the members to assign them to.
#[derive(Debug)]
pub(crate) struct AssignmentTask<'a> {
    /// The partitions that can be assigned, ascending, of topics that at least one member reads.
    pub(crate) topics: &'a Partitions,
    /// The members, ascending by id.
    pub(crate) members: Vec<AssignmentMember<'a>>,
}

/// A member, as an assignor sees it.
#[derive(Debug)]
pub(crate) struct AssignmentMember<'a> {
    /// Its id.
    pub(crate) id: &'a str,
    /// Its static identity (instance id), which outlives its member id.
    pub(crate) instance: Option<&'a str>,
    /// The topics that it reads, ascending. Members with the same subscription share one list.
    pub(crate) topics: Arc<[TopicId]>,
    /// Its current target assignment.
    pub(crate) current: Option<&'a Partitions>,
}

impl AssignmentTask<'_> {
    /// Reports whether all members read the same topics.
    pub(super) fn is_homogeneous(&self) -> bool {
        self.members
            .windows(2)
            .all(|pair| Arc::ptr_eq(&pair[0].topics, &pair[1].topics) || pair[0].topics == pair[1].topics)
    }
}
