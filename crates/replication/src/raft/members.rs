//! Who belongs to a group.

use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

use tailrace_types::ReplicaId;

/// The members of a group as of the last change that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// They vote, and a majority of them commits.
    pub voters: Vec<ReplicaId>,
    /// They are sent everything and do not count.
    pub learners: Vec<ReplicaId>,
}

/// A change of the members. One at a time; the next one only when it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A new replica that catches up first.
    AddLearner(ReplicaId),
    /// A learner that has caught up.
    Promote(ReplicaId),
    /// It is gone for good: its id is never used again.
    Remove(ReplicaId),
}

impl MemberChange {
    pub(super) fn to_raft(self) -> ConfChangeV2 {
        let (kind, id) = match self {
            Self::AddLearner(id) => (ConfChangeType::AddLearnerNode, id),
            Self::Promote(id) => (ConfChangeType::AddNode, id),
            Self::Remove(id) => (ConfChangeType::RemoveNode, id),
        };
        let mut single = ConfChangeSingle::default();
        single.set_change_type(kind);
        single.node_id = id.0;
        let mut change = ConfChangeV2::default();
        change.set_changes(vec![single].into());
        change
    }
}

impl Members {
    pub(super) fn of(state: &ConfState) -> Self {
        let ids = |list: &[u64]| list.iter().copied().map(ReplicaId).collect();
        Self { voters: ids(&state.voters), learners: ids(&state.learners) }
    }

    pub(super) fn to_raft(&self) -> ConfState {
        let ids = |list: &[ReplicaId]| list.iter().map(|id| id.0).collect();
        ConfState { voters: ids(&self.voters), learners: ids(&self.learners), ..ConfState::default() }
    }
}
