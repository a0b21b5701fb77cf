//! What is known of other nodes by what arrives from them: that they are there, and where.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tailrace_env::time::{Duration, Instant};

use tailrace_types::NodeId;

/// Of all other nodes. Empty in a node that is alone.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    at: Mutex<HashMap<NodeId, Instant>>,
    /// Where nodes say that they are. The metadata may not know yet, and a majority may be needed to tell them.
    addresses: Mutex<HashMap<NodeId, String>>,
}

impl Heard {
    /// A node was heard of just now.
    pub(super) fn note(&self, node: NodeId) {
        lock(&self.at).insert(node, Instant::now());
    }

    /// How long a node has been silent, if it was heard of at all.
    pub(crate) fn silence(&self, node: NodeId) -> Option<Duration> {
        lock(&self.at).get(&node).map(Instant::elapsed)
    }

    /// All that were heard of.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        lock(&self.at).keys().copied().collect()
    }

    /// A node says where it is. True if it was not known to be there.
    pub(super) fn note_address(&self, node: NodeId, address: String) -> bool {
        let before = lock(&self.addresses).insert(node, address.clone());
        before.as_ref() != Some(&address)
    }

    /// Where a node has said that it is.
    pub(super) fn address(&self, node: NodeId) -> Option<String> {
        lock(&self.addresses).get(&node).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
