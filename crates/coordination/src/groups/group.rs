//! A group of any kind, and what all kinds are asked.

use std::sync::Arc;

use tailrace_types::TimestampMs;

use super::classic::ClassicGroup;
use super::consumer::ConsumerGroup;
use super::error::GroupError;
use super::offsets::Committer;
use super::share::ShareGroup;
use crate::coordinator::CoordinatorRecord;

/// Which protocol a group follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// JoinGroup and SyncGroup, or no members at all: a "simple" consumer that only commits offsets.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848).
    Consumer,
    /// ShareGroupHeartbeat (KIP-932).
    Share,
}

impl GroupKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Classic, Self::Consumer, Self::Share];

    /// Kafka's name of it, in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
        }
    }
}

/// What a group is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupState {
    /// It has no members.
    Empty,
    /// Classic: waiting for members to join.
    PreparingRebalance,
    /// Classic: waiting for the leader's assignment.
    CompletingRebalance,
    /// Consumer: the assignment is being computed.
    Assigning,
    /// Consumer: members are on their way to their assignment.
    Reconciling,
    /// Everybody has what they shall have.
    Stable,
    /// There is no such group.
    Dead,
}

impl GroupState {
    /// Kafka's name of it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// From when on the retention of a group's offsets is counted (KIP-211). Offsets of topics that the group reads never
/// expire, nor those that a transaction is about to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetsExpire {
    /// Not at all.
    Never,
    /// Each from its commit.
    SinceCommit,
    /// All from one time.
    Since(TimestampMs),
}

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

    /// True if it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.state() == GroupState::Empty
    }

    /// What kind of thing its members are, as in lists.
    pub(crate) fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(group) => group.protocol_type().unwrap_or_default(),
            Self::Consumer(_) => "consumer",
            Self::Share(_) => "share",
        }
    }

    /// May `committer` commit offsets now?
    pub(crate) fn check_commit(&self, id: &Arc<str>, committer: &Committer) -> Result<(), GroupError> {
        match self {
            Self::Classic(group) => group.check_commit(id, committer),
            Self::Consumer(group) => group.check_commit(id, committer),
            Self::Share(_) => Err(GroupError::GroupNotFound { group: Arc::clone(id), kind: "consumer " }),
        }
    }

    /// May a member with this id, in this epoch, see the offsets? Both are absent for tools and old clients.
    pub(crate) fn check_fetch(
        &self,
        id: &Arc<str>,
        member: Option<&str>,
        epoch: i32,
    ) -> Result<(), GroupError> {
        match self {
            Self::Classic(_) => Ok(()),
            Self::Consumer(group) => group.check_fetch(id, member, epoch),
            Self::Share(_) => Err(GroupError::GroupNotFound { group: Arc::clone(id), kind: "consumer " }),
        }
    }

    /// May some of its offsets be deleted? Those of topics that it reads may not in any case: see [`Group::may_read`].
    pub(crate) fn check_offset_delete(&self, id: &Arc<str>) -> Result<(), GroupError> {
        match self {
            Self::Classic(group) => group.check_offset_delete(id),
            Self::Consumer(_) => Ok(()),
            Self::Share(_) => Err(GroupError::GroupNotFound { group: Arc::clone(id), kind: "consumer " }),
        }
    }

    /// True if members read the topic, or if nobody can tell.
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

    /// The records that make it unknown, once it is empty. Its offsets are not among them.
    pub(crate) fn tombstones(&self, id: &Arc<str>) -> Vec<CoordinatorRecord> {
        match self {
            Self::Classic(_) => super::classic::tombstones(id),
            Self::Consumer(group) => group.tombstones(id),
            Self::Share(group) => group.tombstones(id),
        }
    }
}
