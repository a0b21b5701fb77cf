//! Requests of the consumer protocol, their replies, and the timers of a consumer group.

use std::fmt;
use std::sync::Arc;

use tailrace_types::TopicId;

use crate::groups::error::GroupError;
use crate::groups::member::{ClientIdentity, HeartbeatAnswer};
use crate::groups::state::GroupState;
use crate::groups::topics::NamedPartitions;

/// A request of the consumer protocol.
#[derive(Debug)]
pub enum ConsumerEvent {
    /// A member joins, stays, or leaves (ConsumerGroupHeartbeat).
    Heartbeat(Box<ConsumerHeartbeat>),
    /// Describes the group (ConsumerGroupDescribe).
    Describe,
}

/// A reply to a [`ConsumerEvent`].
#[derive(Clone, Debug, PartialEq)]
pub enum ConsumerReply {
    /// To [`ConsumerEvent::Heartbeat`].
    Heartbeat(Result<HeartbeatAnswer, GroupError>),
    /// To [`ConsumerEvent::Describe`].
    Describe(Result<ConsumerDescription, GroupError>),
}

/// A heartbeat. Fields that are `None` have not changed since the last one.
#[derive(Clone, Debug, Default)]
pub struct ConsumerHeartbeat {
    /// The member's client.
    pub client: ClientIdentity,
    /// The member's id. For an old client without an id, the caller fills in a fresh one.
    pub member: Arc<str>,
    /// Its epoch. 0 to join, -1 to leave, -2 to leave and come back as the same static member.
    pub epoch: i32,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// Its rack.
    pub rack: Option<String>,
    /// Rebalance timeout in milliseconds: how long the member may take to give partitions back.
    pub rebalance_timeout_ms: Option<i32>,
    /// Names of the topics that it subscribes to.
    pub topics: Option<Vec<String>>,
    /// The regular expression that it subscribes with. An empty one removes the subscription.
    pub expression: Option<String>,
    /// The assignor that it prefers.
    pub assignor: Option<String>,
    /// The partitions that it owns.
    pub owned: Option<Vec<(TopicId, Vec<i32>)>>,
    /// The topics that a regular expression may match on its behalf.
    pub seen: SeenTopics,
}

/// Reports whether a member may know of a topic.
type Sees = dyn Fn(&str) -> bool + Send + Sync;

/// The topics that a member may know of: by default, all.
#[derive(Clone, Default)]
pub struct SeenTopics(Option<Arc<Sees>>);

impl SeenTopics {
    /// Makes one that has all topics.
    pub fn all() -> Self {
        Self(None)
    }

    /// Makes one that has the topics for which `has` returns true.
    pub fn those(has: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(has)))
    }

    /// Reports whether the topic is among them.
    pub fn has(&self, topic: &str) -> bool {
        self.0.as_ref().is_none_or(|has| has(topic))
    }
}

impl fmt::Debug for SeenTopics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_none() { "SeenTopics(all)" } else { "SeenTopics(some)" })
    }
}

/// A timer of a consumer group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConsumerTimer {
    /// The time for the next assignment.
    Assign,
    /// A member's session.
    Session(Arc<str>),
    /// The time for a member to give partitions back.
    Rebalance(Arc<str>),
    /// The time for a classic member to join again.
    Join(Arc<str>),
    /// The time for a classic member to ask for its assignment.
    Sync(Arc<str>),
}

/// A consumer group, as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerDescription {
    /// Its state.
    pub state: GroupState,
    /// The group's epoch.
    pub epoch: i32,
    /// The epoch of its target assignment.
    pub assignment_epoch: i32,
    /// Its assignor.
    pub assignor: String,
    /// Its members, by id.
    pub members: Vec<ConsumerMemberDescription>,
}

/// A member, as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerMemberDescription {
    /// Its id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// Its epoch.
    pub epoch: i32,
    /// The member's client.
    pub client: ClientIdentity,
    /// Names of the topics that it subscribes to.
    pub topics: Vec<String>,
    /// The regular expression that it subscribes with.
    pub expression: Option<String>,
    /// Its current assignment.
    pub assignment: Vec<NamedPartitions>,
    /// Its target assignment.
    pub target: Vec<NamedPartitions>,
    /// True if it uses the classic protocol.
    pub is_classic: bool,
}
