//! A group of any kind, and the operations that all kinds have.

use std::sync::Arc;

use super::classic::ClassicGroup;
use super::consumer::ConsumerGroup;
use super::error::GroupError;
use super::offsets::Committer;
use super::share::ShareGroup;
use super::state::{GroupKind, GroupState, OffsetsExpire};
use crate::coordinator::CoordinatorRecord;

/// One group.
#[derive(Debug)]
pub(crate) enum Group {
    Classic(ClassicGroup),
    Consumer(ConsumerGroup),
    Share(ShareGroup),
}

impl Group {
    pub(crate) fn kind(&self) -> GroupKind {
        match self {
            Self::Classic(_) => GroupKind::Classic,
            Self::Consumer(_) => GroupKind::Consumer,
            Self::Share(_) => GroupKind::Share,
        }
    }

    pub(crate) fn state(&self) -> GroupState {
        match self {
            Self::Classic(group) => group.state(),
            Self::Consumer(group) => group.state(),
            Self::Share(group) => group.state(),
        }
    }

    /// Reports whether it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.state() == GroupState::Empty
    }

    /// Returns the type of its members, as in lists.
    pub(crate) fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(group) => group.protocol_type().unwrap_or_default(),
            Self::Consumer(_) => "consumer",
            Self::Share(_) => "share",
        }
    }

    /// Checks whether `committer` may commit offsets now.
    pub(crate) fn check_commit(&self, id: &Arc<str>, committer: &Committer) -> Result<(), GroupError> {
        match self {
            Self::Classic(group) => group.check_commit(id, committer),
            Self::Consumer(group) => group.check_commit(id, committer),
            Self::Share(_) => Err(GroupError::GroupNotFound { group: Arc::clone(id), kind: "consumer " }),
        }
    }

    /// Checks whether a member with this id, in this epoch, may read the offsets. Tools and old clients send
    /// neither.
    pub(crate) fn check_fetch(
        &self,
        id: &Arc<str>,
        member: Option<&str>,
        epoch: i32,
    ) -> Result<(), GroupError> {
        match self {
            Self::Classic(_) => Ok(()),
            Self::Consumer(group) => group.check_fetch(id, member, epoch),
            // It has no offsets, like a group that does not exist.
            Self::Share(_) => Ok(()),
        }
    }

    /// Checks whether offsets may be deleted. Those of topics that its members read may not: see
    /// [`Group::may_read`].
    pub(crate) fn check_offset_delete(&self, id: &Arc<str>) -> Result<(), GroupError> {
        match self {
            Self::Classic(group) => group.check_offset_delete(id),
            Self::Consumer(_) => Ok(()),
            Self::Share(_) => Err(GroupError::GroupNotFound { group: Arc::clone(id), kind: "consumer " }),
        }
    }

    /// Reports whether members read the topic, or might.
    pub(crate) fn may_read(&self, topic: &str) -> bool {
        match self {
            Self::Classic(group) => group.may_read(topic),
            Self::Consumer(group) => group.reads(topic),
            Self::Share(_) => false,
        }
    }

    pub(crate) fn offsets_expire(&self) -> OffsetsExpire {
        match self {
            Self::Classic(group) => group.offsets_expire(),
            Self::Consumer(group) => group.offsets_expire(),
            Self::Share(_) => OffsetsExpire::Never,
        }
    }

    /// Returns the tombstones of an empty group. Those of its offsets are not included.
    pub(crate) fn tombstones(&self, id: &Arc<str>) -> Vec<CoordinatorRecord> {
        match self {
            Self::Classic(_) => ClassicGroup::tombstones(id),
            Self::Consumer(group) => group.tombstones(id),
            Self::Share(group) => group.tombstones(id),
        }
    }
}
