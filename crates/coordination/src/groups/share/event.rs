//! Requests of the share protocol, their replies, the work of a share group, and its timers.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_types::TopicId;

use super::states::StateDeletion;
use crate::groups::assignors::Partitions;
use crate::groups::error::GroupError;
use crate::groups::member::{ClientIdentity, HeartbeatAnswer};
use crate::groups::state::GroupState;
use crate::groups::topics::NamedPartitions;

/// A request of the share protocol, or a change of the states of a group's share-partitions.
#[derive(Debug)]
pub enum ShareEvent {
    /// A member joins, stays, or leaves (ShareGroupHeartbeat).
    Heartbeat(ShareHeartbeat),
    /// Describes the group (ShareGroupDescribe).
    Describe,
    /// Requested states have been initialized ([`ShareWork::InitializeStates`], [`ShareEvent::Open`]). States
    /// of an earlier generation are ignored: the group asks for them again, or no longer needs them.
    StatesInitialized {
        /// The generation in which they were requested.
        generation: i64,
        /// The partitions, by topic.
        topics: Vec<(TopicId, Vec<i32>)>,
    },
    /// An administrator deletes the states of some topics. From now on the states do not count, and the
    /// topics are not assigned until they have new states. Refused while the group has members. The caller
    /// must delete the returned states at the share coordinators, and then send
    /// [`ShareEvent::StatesDeleted`].
    DeleteStates {
        /// The topics. `None` for all.
        topics: Option<Vec<TopicId>>,
    },
    /// The states of these topics have been deleted at the share coordinators ([`ShareEvent::DeleteStates`],
    /// [`ShareWork::DeleteStates`]).
    StatesDeleted {
        /// The last generation whose states were deleted.
        upto: i64,
        /// The topics, with all of their partitions.
        topics: Vec<TopicId>,
    },
    /// An administrator sets offsets. The group must have no members. If it does not exist and `make` is
    /// true, it is created without members. Partitions without a state are marked as requested: the caller
    /// initializes them with the new offsets, and sends [`ShareEvent::StatesInitialized`].
    Open {
        /// Whether to create a missing group.
        make: bool,
        /// The partitions whose offsets are to be set.
        topics: Vec<(TopicId, Vec<i32>)>,
    },
    /// Returns the partitions of the group that have a state.
    InitializedStates,
}

/// A reply to a [`ShareEvent`].
#[derive(Clone, Debug, PartialEq)]
pub enum ShareReply {
    /// To [`ShareEvent::Heartbeat`].
    Heartbeat(Result<HeartbeatAnswer, GroupError>),
    /// To [`ShareEvent::Describe`].
    Describe(Result<ShareDescription, GroupError>),
    /// To [`ShareEvent::StatesInitialized`] and [`ShareEvent::StatesDeleted`].
    StatesChanged(Result<(), GroupError>),
    /// To [`ShareEvent::DeleteStates`].
    DeleteStates(Result<StateDeletion, GroupError>),
    /// To [`ShareEvent::Open`].
    Open(Result<OpenedStates, GroupError>),
    /// To [`ShareEvent::InitializedStates`].
    InitializedStates(Result<Partitions, GroupError>),
}

/// A group whose offsets may be set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedStates {
    /// The generation of its states.
    pub generation: i64,
    /// The partitions that have no state yet.
    pub missing: BTreeSet<(TopicId, i32)>,
    /// Topics whose offsets cannot be set yet, because their states are being deleted.
    pub deleting: Vec<TopicId>,
}

/// Work that a share group needs done elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareWork {
    /// Initialize states at the share coordinator (`ShareRequest::Initialize`), and send
    /// [`ShareEvent::StatesInitialized`]. States that are not reported are requested again after
    /// `group.share.initialize.retry.interval.ms`.
    InitializeStates {
        /// The group.
        group: Arc<str>,
        /// The generation of the states.
        generation: i64,
        /// The partitions, by topic.
        topics: Vec<(TopicId, Vec<i32>)>,
    },
    /// Release the records held by a member that was removed because its session ended.
    ReleaseMember {
        /// The group.
        group: Arc<str>,
        /// The member.
        member: Arc<str>,
    },
    /// Delete states at the share coordinator (`ShareRequest::Delete`), and send
    /// [`ShareEvent::StatesDeleted`]. The deletion was started earlier and never confirmed.
    DeleteStates {
        /// The group.
        group: Arc<str>,
        /// The states to delete.
        deletion: StateDeletion,
    },
}

/// A heartbeat. Fields that are `None` have not changed since the last one.
#[derive(Clone, Debug, Default)]
pub struct ShareHeartbeat {
    /// The member's client.
    pub client: ClientIdentity,
    /// The member's id, which the client generates.
    pub member: Arc<str>,
    /// Its epoch. 0 to join, -1 to leave.
    pub epoch: i32,
    /// Its rack.
    pub rack: Option<String>,
    /// Names of the topics that it subscribes to.
    pub topics: Option<Vec<String>>,
}

/// A timer of a share group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShareTimer {
    /// The time for the next assignment.
    Assign,
    /// A member's session.
    Session(Arc<str>),
}

/// A share group, as ShareGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareDescription {
    /// Its state.
    pub state: GroupState,
    /// The group's epoch.
    pub epoch: i32,
    /// The epoch of its target assignment.
    pub assignment_epoch: i32,
    /// Its members, by id.
    pub members: Vec<ShareMemberDescription>,
}

/// A member, as ShareGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareMemberDescription {
    /// Its id.
    pub member: Arc<str>,
    /// Its rack.
    pub rack: Option<String>,
    /// Its epoch.
    pub epoch: i32,
    /// The member's client.
    pub client: ClientIdentity,
    /// Names of the topics that it subscribes to.
    pub topics: Vec<String>,
    /// The partitions that it fetches from.
    pub assignment: Vec<NamedPartitions>,
}
