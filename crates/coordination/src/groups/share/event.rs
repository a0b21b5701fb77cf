//! Requests of the share protocol, their answers, what a group wants done, and what else can happen to it.

use std::sync::Arc;

use tailrace_types::TopicId;

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
    /// States that were asked for are there ([`ShareWork::InitializeStates`]), or were made by an administrator who set offsets.
    StatesInitialized(Vec<(TopicId, Vec<i32>)>),
    /// States of whole topics are being deleted by an administrator: the topics are not assigned until they have states
    /// again. Refused while the group has members.
    StatesDeleted(Vec<TopicId>),
    /// An administrator sets offsets: the group must have no members. One that does not exist is made, without members, if `make` says so.
    Opened {
        /// Whether it is made.
        make: bool,
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
    /// To [`ShareEvent::StatesInitialized`], [`ShareEvent::StatesDeleted`] and [`ShareEvent::Opened`].
    StatesChanged(Result<(), GroupError>),
    /// To [`ShareEvent::InitializedStates`].
    InitializedStates(Result<Partitions, GroupError>),
}

/// What a share group wants done elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareWork {
    /// The share coordinator shall make states (`ShareRequest::Initialize`, without a start) and tell the group by
    /// [`ShareEvent::StatesInitialized`]. What it does not tell of is asked for again after
    /// `group.share.initialize.retry.interval.ms`.
    InitializeStates {
        /// The group.
        group: Arc<str>,
        /// The epoch of the states.
        state_epoch: i32,
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
    /// The group is gone, and so shall its states be (`ShareRequest::GroupDeleted`).
    DeleteStates {
        /// The group.
        group: Arc<str>,
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
