//! Assignors by name.

use super::task::{AssignmentTask, Partitions};
use super::{range, simple, uniform};

/// An assignor of consumer groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConsumerAssignor {
    /// All members get equal shares, and keep their partitions where possible.
    Uniform,
    /// Each topic is divided into ranges, so that a member gets the same partition numbers of all topics.
    Range,
}

impl ConsumerAssignor {
    /// Returns the assignor of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "range" => Some(Self::Range),
            _ => None,
        }
    }

    /// Returns each member's assignment, in the order of the task's members.
    pub(crate) fn assign(self, task: &AssignmentTask<'_>) -> Vec<Partitions> {
        match self {
            Self::Uniform => uniform::assign(task),
            Self::Range => range::assign(task),
        }
    }
}

/// Returns the assignment of each member of a share group, in the order of the members. Members may share
/// partitions.
pub(crate) fn assign_shares(task: &AssignmentTask<'_>) -> Vec<Partitions> {
    simple::assign(task)
}
