//! Requests of the consumer protocol, their answers, and what else can happen to a consumer group.

use std::sync::Arc;

use tailrace_types::TopicId;

use crate::groups::error::GroupError;
use crate::groups::member::{ClientIdentity, HeartbeatAnswer};
use crate::groups::state::GroupState;
use crate::groups::topics::NamedPartitions;

/// A request of the consumer protocol.
#[derive(Debug)]
pub enum ConsumerEvent {
    /// A member joins, stays, or goes (ConsumerGroupHeartbeat).
    Heartbeat(Box<ConsumerHeartbeat>),
    /// Everything about the group (ConsumerGroupDescribe).
    Describe,
}

/// An answer to one.
#[derive(Clone, Debug, PartialEq)]
pub enum ConsumerReply {
    /// To [`ConsumerEvent::Heartbeat`].
    Heartbeat(Result<HeartbeatAnswer, GroupError>),
    /// To [`ConsumerEvent::Describe`].
    Describe(Result<ConsumerDescription, GroupError>),
}

/// A heartbeat. What is `None` has not changed since the last one.
#[derive(Clone, Debug, Default)]
pub struct ConsumerHeartbeat {
    /// Where the member comes from.
    pub client: ClientIdentity,
    /// The member's id. A member of an old client that has none yet gets a fresh one before it comes here.
    pub member: Arc<str>,
    /// Its epoch; 0 to join, -1 to leave, -2 to leave and come back as the same static member.
    pub epoch: i32,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// Where it is.
    pub rack: Option<String>,
    /// How long it may take to give partitions back, in milliseconds.
    pub rebalance_timeout_ms: Option<i32>,
    /// Names of topics that it subscribes to.
    pub topics: Option<Vec<String>>,
    /// Regular expression that it subscribes with; the empty one takes that back.
    pub expression: Option<String>,
    /// The assignor that it would like.
    pub assignor: Option<String>,
    /// The partitions that it has.
    pub owned: Option<Vec<(TopicId, Vec<i32>)>>,
}

/// What a consumer group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConsumerTimer {
    /// The time for the next assignment.
    Assign,
    /// A sign of life of a member.
    Session(Arc<str>),
    /// A member to give partitions back.
    Rebalance(Arc<str>),
    /// A classic member to join again.
    Join(Arc<str>),
    /// A classic member to ask for its assignment.
    Sync(Arc<str>),
}

/// A consumer group as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerDescription {
    /// What it is doing.
    pub state: GroupState,
    /// The group's epoch.
    pub epoch: i32,
    /// The epoch of its target assignment.
    pub assignment_epoch: i32,
    /// The assignor that it uses.
    pub assignor: String,
    /// Its members, by id.
    pub members: Vec<ConsumerMemberDescription>,
}

/// A member as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerMemberDescription {
    /// Its id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<String>,
    /// Where it is.
    pub rack: Option<String>,
    /// Its epoch.
    pub epoch: i32,
    /// Where it comes from.
    pub client: ClientIdentity,
    /// Names of topics that it subscribes to.
    pub topics: Vec<String>,
    /// Regular expression that it subscribes with.
    pub expression: Option<String>,
    /// What it has.
    pub assignment: Vec<NamedPartitions>,
    /// What it shall have.
    pub target: Vec<NamedPartitions>,
    /// True if it uses the classic protocol.
    pub is_classic: bool,
}
