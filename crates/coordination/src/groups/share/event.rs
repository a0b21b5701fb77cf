//! Requests of the share protocol, their answers, what a group wants done, and what else can happen to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_types::TopicId;

use super::states::StateDeletion;
use crate::groups::assignors::Partitions;
use crate::groups::error::GroupError;
use crate::groups::member::{ClientIdentity, HeartbeatAnswer};
use crate::groups::state::GroupState;
use crate::groups::topics::NamedPartitions;

/// A request of the share protocol, or news of the states of a group's share-partitions.
#[derive(Debug)]
pub enum ShareEvent {
    /// A member joins, stays, or goes (ShareGroupHeartbeat).
    Heartbeat(ShareHeartbeat),
    /// Everything about the group (ShareGroupDescribe).
    Describe,
    /// States that were asked for are there ([`ShareWork::InitializeStates`], [`ShareEvent::Open`]). Those of an earlier generation do not
    /// count: they are asked for again, or nobody wants them any more.
    StatesInitialized {
        /// In which generation they were asked for.
        generation: i64,
        /// The partitions, by topic.
        topics: Vec<(TopicId, Vec<i32>)>,
    },
    /// An administrator deletes the states of these topics, of all if there are none here: from here on they count no more, and the topics
    /// are not assigned until they have states again. Refused while the group has members. What is answered has to be deleted from the
    /// share coordinators, then told by [`ShareEvent::StatesDeleted`].
    DeleteStates {
        /// `None`: all.
        topics: Option<Vec<TopicId>>,
    },
    /// States of these topics are gone from the share coordinators ([`ShareEvent::DeleteStates`], [`ShareWork::DeleteStates`]).
    StatesDeleted {
        /// Up to which generation.
        upto: i64,
        /// All partitions of these topics.
        topics: Vec<TopicId>,
    },
    /// An administrator sets offsets: the group must have no members. One that does not exist is made, without members, if `make` says so.
    /// Partitions without a state are asked for: who sets the offsets makes them, and tells by [`ShareEvent::StatesInitialized`].
    Open {
        /// Whether it is made.
        make: bool,
        /// Whose offsets are to be set.
        topics: Vec<(TopicId, Vec<i32>)>,
    },
    /// The partitions of the group that have a state.
    InitializedStates,
}

/// An answer to one.
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
    /// Which of the partitions have no state yet.
    pub missing: BTreeSet<(TopicId, i32)>,
    /// Topics whose offsets cannot be set yet: their states are being deleted.
    pub deleting: Vec<TopicId>,
}

/// What a share group wants done elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareWork {
    /// The share coordinator shall make states (`ShareRequest::Initialize`) and tell the group by
    /// [`ShareEvent::StatesInitialized`]. What it does not tell of is asked for again after
    /// `group.share.initialize.retry.interval.ms`.
    InitializeStates {
        /// The group.
        group: Arc<str>,
        /// The generation of the states.
        generation: i64,
        /// The partitions, by topic.
        topics: Vec<(TopicId, Vec<i32>)>,
    },
    /// A member was removed because it was silent: what it holds shall be released.
    ReleaseMember {
        /// The group.
        group: Arc<str>,
        /// The member.
        member: Arc<str>,
    },
    /// The share coordinator shall delete states (`ShareRequest::Delete`): somebody began that, and did not tell that it is done. Then the
    /// group is told by [`ShareEvent::StatesDeleted`].
    DeleteStates {
        /// The group.
        group: Arc<str>,
        /// Which.
        deletion: StateDeletion,
    },
}

/// A heartbeat. What is `None` has not changed since the last one.
#[derive(Clone, Debug, Default)]
pub struct ShareHeartbeat {
    /// Where the member comes from.
    pub client: ClientIdentity,
    /// The member's id, which it has made itself.
    pub member: Arc<str>,
    /// Its epoch; 0 to join, -1 to leave.
    pub epoch: i32,
    /// Where it is.
    pub rack: Option<String>,
    /// Names of topics that it subscribes to.
    pub topics: Option<Vec<String>>,
}

/// What a share group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShareTimer {
    /// The time for the next assignment.
    Assign,
    /// A sign of life of a member.
    Session(Arc<str>),
}

/// A share group as ShareGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareDescription {
    /// What it is doing.
    pub state: GroupState,
    /// The group's epoch.
    pub epoch: i32,
    /// The epoch of its target assignment.
    pub assignment_epoch: i32,
    /// Its members, by id.
    pub members: Vec<ShareMemberDescription>,
}

/// A member as ShareGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareMemberDescription {
    /// Its id.
    pub member: Arc<str>,
    /// Where it is.
    pub rack: Option<String>,
    /// Its epoch.
    pub epoch: i32,
    /// Where it comes from.
    pub client: ClientIdentity,
    /// Names of topics that it subscribes to.
    pub topics: Vec<String>,
    /// What it fetches from.
    pub assignment: Vec<NamedPartitions>,
}
