//! What this node knows about others from their messages: that they are up, and their addresses.

use std::collections::HashMap;
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;
use tailrace_types::NodeId;

/// When each other node was last heard from. Empty in a standalone server.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    at: Mutex<HashMap<NodeId, Instant>>,
    /// Addresses that nodes announce themselves. The metadata may not have them yet, and updating it may need
    /// a majority.
    addresses: Mutex<HashMap<NodeId, String>>,
}

impl Heard {
    /// Records that a message of the node has just arrived.
    pub(super) fn note(&self, node: NodeId) {
        self.at.lock().insert(node, Instant::now());
    }

    /// Returns how long a node has been silent. `None` if it was never heard from.
    pub(crate) fn silence(&self, node: NodeId) -> Option<Duration> {
        self.at.lock().get(&node).map(Instant::elapsed)
    }

    /// Returns how long all nodes have been silent. `None` if none was ever heard from.
    pub(crate) fn silence_of_all(&self) -> Option<Duration> {
        self.at.lock().values().map(Instant::elapsed).min()
    }

    /// Returns all nodes that were heard from.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        self.at.lock().keys().copied().collect()
    }

    /// Records the address that a node announces. True if it is new.
    pub(super) fn note_address(&self, node: NodeId, address: String) -> bool {
        let before = self.addresses.lock().insert(node, address.clone());
        before.as_ref() != Some(&address)
    }

    /// Returns the address that a node announced.
    pub(super) fn address(&self, node: NodeId) -> Option<String> {
        self.addresses.lock().get(&node).cloned()
    }
}
