//! A member of a classic group.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_types::TimestampMs;

use crate::coordinator::Token;
use crate::groups::ClientIdentity;

/// A member.
#[derive(Clone, Debug)]
pub(in crate::groups) struct ClassicMember {
    /// Its static identity (KIP-345).
    pub(in crate::groups) instance: Option<Arc<str>>,
    pub(in crate::groups) client: ClientIdentity,
    pub(in crate::groups) rebalance_timeout_ms: i32,
    pub(in crate::groups) session_timeout_ms: i32,
    /// Its assignment protocols, in order of preference, each with its subscription.
    pub(in crate::groups) protocols: Vec<(Arc<str>, Bytes)>,
    pub(in crate::groups) assignment: Bytes,
    /// Its pending JoinGroup request.
    pub(super) joining: Option<Token>,
    /// Its pending SyncGroup request.
    pub(super) syncing: Option<Token>,
    /// True until its first generation is complete. It may be removed even while it waits, because it has no
    /// id to send heartbeats with.
    pub(super) is_new: bool,
    /// The time at which its session ends.
    pub(super) alive_until: TimestampMs,
}

impl ClassicMember {
    /// Returns its subscription in a protocol. Empty if it does not support the protocol.
    pub(in crate::groups) fn subscription(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| &**name == protocol);
        found.map(|(_, subscription)| subscription.clone()).unwrap_or_default()
    }

    /// Returns the total size of its subscriptions, in bytes.
    pub(super) fn subscription_bytes(&self) -> usize {
        self.protocols.iter().map(|(_, subscription)| subscription.len()).sum()
    }

    /// Reports whether a request has the same protocols as the member.
    pub(super) fn says(&self, protocols: &[(String, Bytes)]) -> bool {
        let pairs = self.protocols.iter().zip(protocols);
        self.protocols.len() == protocols.len()
            && pairs.into_iter().all(|(known, said)| *known.0 == said.0 && known.1 == said.1)
    }

    /// Reports whether it may send nothing for now, because it waits for a reply.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }
}
