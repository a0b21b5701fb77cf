//! Events of a group coordinator, and its replies.

use std::sync::Arc;

use super::classic::{ClassicDescription, ClassicEvent, ClassicReply};
use super::consumer::{ConsumerEvent, ConsumerReply};
use super::error::GroupError;
use super::offsets::{OffsetsEvent, OffsetsReply};
use super::share::{ShareEvent, ShareReply, ShareWork};
use super::state::{GroupKind, GroupState};
use crate::coordinator::Token;

/// An event. Every event has a token for its reply. Events of one group have its id.
#[derive(Debug)]
pub enum GroupEvent {
    /// A request of the classic protocol.
    Classic {
        /// Identifies the request.
        token: Token,
        /// The group's id.
        group: Arc<str>,
        /// The request.
        event: ClassicEvent,
    },
    /// A request of the consumer protocol (KIP-848).
    Consumer {
        /// Identifies the request.
        token: Token,
        /// The group's id.
        group: Arc<str>,
        /// The request.
        event: ConsumerEvent,
    },
    /// A request of the share protocol (KIP-932).
    Share {
        /// Identifies the request.
        token: Token,
        /// The group's id.
        group: Arc<str>,
        /// The request.
        event: ShareEvent,
    },
    /// A request about offsets.
    Offsets {
        /// Identifies the request.
        token: Token,
        /// The group's id.
        group: Arc<str>,
        /// The request.
        event: OffsetsEvent,
    },
    /// Lists groups.
    List {
        /// Identifies the request.
        token: Token,
        /// The groups to list.
        filter: GroupFilter,
    },
    /// Describes groups to clients that know classic groups only (DescribeGroups).
    Describe {
        /// Identifies the request.
        token: Token,
        /// The groups' ids.
        groups: Vec<Arc<str>>,
    },
    /// Deletes empty groups with all their offsets. A share group is deleted once its states are gone
    /// ([`ShareEvent::DeleteStates`]).
    Delete {
        /// Identifies the request.
        token: Token,
        /// The groups' ids.
        groups: Vec<Arc<str>>,
    },
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupReply {
    /// To [`GroupEvent::Classic`].
    Classic(ClassicReply),
    /// To [`GroupEvent::Consumer`].
    Consumer(ConsumerReply),
    /// To [`GroupEvent::Share`].
    Share(ShareReply),
    /// To [`GroupEvent::Offsets`].
    Offsets(OffsetsReply),
    /// To [`GroupEvent::List`], ordered by id.
    List(Vec<GroupSummary>),
    /// To [`GroupEvent::Describe`], in the order of the request.
    Describe(Vec<Result<ClassicDescription, GroupError>>),
    /// To [`GroupEvent::Delete`], in the order of the request.
    Delete(Vec<Result<(), GroupError>>),
}

/// Work to be done elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupWork {
    /// For a share group.
    Share(ShareWork),
}

/// A filter of groups. An empty list does not restrict. As in Kafka, names are compared ignoring case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// Names of states.
    pub states: Vec<String>,
    /// Names of kinds.
    pub kinds: Vec<String>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// Its id.
    pub group: Arc<str>,
    /// The protocol type of its members, empty if there never were any.
    pub protocol_type: String,
    /// Its state.
    pub state: GroupState,
    /// Its kind.
    pub kind: GroupKind,
}
