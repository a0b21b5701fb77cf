//! The assignors by name.

use super::task::{AssignmentTask, Partitions};
use super::{range, simple, uniform};

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
