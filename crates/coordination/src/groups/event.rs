//! What can happen to a coordinator of groups, and what it answers.

use std::sync::Arc;

use super::classic::{ClassicDescription, ClassicEvent, ClassicReply};
use super::consumer::{ConsumerEvent, ConsumerReply};
use super::error::GroupError;
use super::offsets::{OffsetsEvent, OffsetsReply};
use super::share::{ShareEvent, ShareReply, ShareWork};
use super::state::{GroupKind, GroupState};
use crate::coordinator::Token;

/// An event. All that concern one group carry its id, and all that are answered a token.
#[derive(Debug)]
pub enum GroupEvent {
    /// A request of the classic protocol.
    Classic {
        /// Who asks.
        token: Token,
        /// The group's id.
        group: Arc<str>,
        /// What is asked.
        event: ClassicEvent,
    },
    /// A request of the consumer protocol (KIP-848).
    Consumer {
        /// Who asks.
        token: Token,
        /// The group's id.
        group: Arc<str>,
        /// What is asked.
        event: ConsumerEvent,
    },
    /// A request of the share protocol (KIP-932).
    Share {
        /// Who asks.
        token: Token,
        /// The group's id.
        group: Arc<str>,
        /// What is asked.
        event: ShareEvent,
    },
    /// A request about offsets.
    Offsets {
        /// Who asks.
        token: Token,
        /// The group's id.
        group: Arc<str>,
        /// What is asked.
        event: OffsetsEvent,
    },
    /// Which groups there are.
    List {
        /// Who asks.
        token: Token,
        /// Which of them.
        filter: GroupFilter,
    },
    /// Describes groups to those who know of classic groups only (DescribeGroups).
    Describe {
        /// Who asks.
        token: Token,
        /// The groups' ids.
        groups: Vec<Arc<str>>,
    },
    /// Deletes empty groups with all their offsets. A share group goes once its states are gone ([`ShareEvent::DeleteStates`]).
    Delete {
        /// Who asks.
        token: Token,
        /// The groups' ids.
        groups: Vec<Arc<str>>,
    },
}

/// An answer.
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
    /// To [`GroupEvent::List`], by id.
    List(Vec<GroupSummary>),
    /// To [`GroupEvent::Describe`], in its order.
    Describe(Vec<Result<ClassicDescription, GroupError>>),
    /// To [`GroupEvent::Delete`], in its order.
    Delete(Vec<Result<(), GroupError>>),
}

/// Work for others.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupWork {
    /// On behalf of a share group.
    Share(ShareWork),
}

/// Which groups are wanted. An empty list is no restriction. Names are compared without regard to case, as Kafka does.
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
