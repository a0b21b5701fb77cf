//! One member of a classic group.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_types::TimestampMs;

use crate::coordinator::Token;
use crate::groups::ClientIdentity;

/// One member.
#[derive(Clone, Debug)]
pub(in crate::groups) struct ClassicMember {
    /// Its static identity (KIP-345).
    pub(in crate::groups) instance: Option<Arc<str>>,
    pub(in crate::groups) client: ClientIdentity,
    pub(in crate::groups) rebalance_timeout_ms: i32,
    pub(in crate::groups) session_timeout_ms: i32,
    /// The protocols that it knows, the one it likes best first, each with its subscription.
    pub(in crate::groups) protocols: Vec<(Arc<str>, Bytes)>,
    pub(in crate::groups) assignment: Bytes,
    /// Who waits for the generation to come together.
    pub(super) joining: Option<Token>,
    /// Who waits for the assignment.
    pub(super) syncing: Option<Token>,
    /// True until its first generation has come together: it may be forgotten though it waits, since it has no id to
    /// send heartbeats with.
    pub(super) is_new: bool,
    /// When its session ends.
    pub(super) alive_until: TimestampMs,
}

impl ClassicMember {
    /// Its subscription in a protocol, empty if it does not know it.
    pub(in crate::groups) fn subscription(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| &**name == protocol);
        found.map(|(_, subscription)| subscription.clone()).unwrap_or_default()
    }

    /// Bytes of all its subscriptions.
    pub(super) fn subscription_bytes(&self) -> usize {
        self.protocols.iter().map(|(_, subscription)| subscription.len()).sum()
    }

    /// Whether a request brings what the member has already said.
    pub(super) fn says(&self, protocols: &[(String, Bytes)]) -> bool {
        let pairs = self.protocols.iter().zip(protocols);
        self.protocols.len() == protocols.len()
            && pairs.into_iter().all(|(known, said)| *known.0 == said.0 && known.1 == said.1)
    }

    /// Whether it may be silent now: it waits for an answer.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }
}
