//! NATS between the nodes of a cluster: who has subscribers for what, and messages on their way to them.
//!
//! - `interest`: what this node has subscribers for, told to the others. `inbound`: what they tell, and their messages.
//! - `waiting`: messages behind one that is on its way to very many.
//! - `outbound`: which nodes get a message. `wire`: the bytes. `addresses`: where clients find the other nodes.
//!
//! Every node has a link to every other one (`tailrace_peers`), so a message makes one hop at most and cannot come back. Interest
//! and messages share one queue for each link: a requester's inbox is known where its request arrives. What another node has
//! subscribers for lies in the same matcher as the subscriptions of clients, so one lookup finds all, and a node without
//! peers does nothing for this. Deliberately not here: capture for topics, which happens where a message is published.

mod addresses;
mod inbound;
mod interest;
mod metrics;
mod outbound;
mod waiting;
mod wire;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tailrace_env::task;
use tailrace_env::time::WallTime;

use tailrace_config::BrokerConfig;
use tailrace_types::{NodeId, Tally, usize_of};

pub(super) use self::addresses::{Addresses, Told};
pub(super) use self::inbound::Inbound;
pub(super) use self::interest::Key;
use self::interest::OwnInterest;
pub(super) use self::metrics::RouteMetrics;
pub(super) use self::outbound::{Matches, NodePicker};
use tailrace_peers::Peers;

/// Bounds of what another node's subscribers may take here.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteLimits {
    /// Patterns, each with its queue group.
    interest_max: usize,
    /// Bytes of them.
    interest_bytes_max: usize,
}

/// The routes to the other nodes.
pub(super) struct Routes {
    limits: RouteLimits,
    metrics: RouteMetrics,
    peers: Arc<OnceLock<Peers>>,
    /// Absent of a node that is alone: it keeps no table.
    own: Option<Arc<OwnInterest<OnceLock<Peers>>>>,
    nodes: Mutex<BTreeMap<NodeId, Arc<RemoteNode>>>,
}

/// Another node, for as long as one link of its lasts.
#[derive(Debug)]
pub(crate) struct RemoteNode {
    pub(super) id: NodeId,
    pub(super) since: WallTime,
    /// Its link has ended: what is still in the router for it counts no more.
    gone: AtomicBool,
    pub(super) interest: Tally,
    pub(super) messages_in: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) messages_out: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) dropped: AtomicU64,
}

/// What another node has subscribers for, as the router keeps it.
#[derive(Debug)]
pub(crate) struct NodeInterest {
    pub(super) node: Arc<RemoteNode>,
    pub(super) queue: Option<Arc<[u8]>>,
    /// Patterns that lead to it. Without any it is found by those alone who looked before.
    pub(super) patterns: Tally,
    /// The node has taken back all that it had said, this too: what is still in the router is about to be removed.
    forgotten: Arc<AtomicBool>,
}

impl NodeInterest {
    /// `forgotten` is shared by all that the node says until it takes that back.
    fn new(node: &Arc<RemoteNode>, queue: Option<Arc<[u8]>>, forgotten: &Arc<AtomicBool>) -> Self {
        let patterns = Tally::of("subjects of one queue group, or plain, that a node has subscribers for");
        Self { node: Arc::clone(node), queue, patterns, forgotten: Arc::clone(forgotten) }
    }

    /// True if nobody there is subscribed any more.
    fn is_over(&self) -> bool {
        self.node.is_gone() || self.forgotten.load(Ordering::Relaxed) || self.patterns.get() == 0
    }
}

impl RemoteNode {
    fn new(id: NodeId) -> Self {
        Self {
            id,
            since: WallTime::now(),
            gone: AtomicBool::new(false),
            interest: Tally::of("subjects that a node has subscribers for"),
            messages_in: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            messages_out: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

impl Routes {
    pub(super) fn new(config: &BrokerConfig) -> Self {
        let bytes = |bytes: u64| usize_of(bytes);
        let limits = RouteLimits {
            interest_max: bytes(config.tailrace_nats_cluster_interest_max.into()),
            interest_bytes_max: bytes(config.tailrace_nats_cluster_interest_bytes_max),
        };
        let peers = Arc::new(OnceLock::new());
        let own = config.cluster_address().map(|_| Arc::new(OwnInterest::new(Arc::clone(&peers))));
        Self { limits, metrics: RouteMetrics::default(), peers, own, nodes: Mutex::default() }
    }

    pub(super) fn limits(&self) -> &RouteLimits {
        &self.limits
    }

    pub(super) fn metrics(&self) -> &RouteMetrics {
        &self.metrics
    }

    /// From now on there are others.
    pub(super) fn connect(&self, peers: Peers) {
        // Called once, at start.
        let _ = self.peers.set(peers);
    }

    pub(super) fn peers(&self) -> Option<&Peers> {
        self.peers.get()
    }

    fn is_up(&self, node: NodeId) -> bool {
        self.peers().is_some_and(|peers| peers.is_up(node))
    }

    /// Takes note of one more subscriber here, who can be delivered to already. What comes back is for [`Routes::unsubscribed`].
    pub(super) fn subscribed(&self, pattern: &[u8], queue: Option<&Arc<[u8]>>) -> Option<Arc<Key>> {
        self.own.as_ref().map(|own| own.add(pattern, queue))
    }

    pub(super) fn unsubscribed(&self, key: Option<&Arc<Key>>) {
        if let (Some(own), Some(key)) = (&self.own, key) {
            own.remove(key);
        }
    }

    /// The link to a node is up: it is told what this one has subscribers for.
    pub(super) fn link_up(&self, node: NodeId) {
        if let (Some(own), Some(peers)) = (&self.own, self.peers()) {
            let feed = own.begin(node);
            task::spawn(interest::feed(Arc::clone(own), peers.clone(), node, feed));
        }
    }

    /// The link to a node is down.
    pub(super) fn link_down(&self, node: NodeId) {
        if let Some(own) = &self.own {
            own.end(node);
        }
    }

    /// Another node's link to this one has begun.
    pub(super) fn node_came(&self, id: NodeId) -> Arc<RemoteNode> {
        let node = Arc::new(RemoteNode::new(id));
        if let Some(before) = self.nodes().insert(id, Arc::clone(&node)) {
            before.gone.store(true, Ordering::Relaxed);
        }
        node
    }

    fn node_gone(&self, node: &Arc<RemoteNode>) {
        node.gone.store(true, Ordering::Relaxed);
        let mut nodes = self.nodes();
        if nodes.get(&node.id).is_some_and(|known| Arc::ptr_eq(known, node)) {
            nodes.remove(&node.id);
        }
    }

    /// The nodes whose links to this one are up.
    pub(super) fn known_nodes(&self) -> Vec<Arc<RemoteNode>> {
        self.nodes().values().cloned().collect()
    }

    /// Patterns that this node has told others of; 0 of a node that is alone.
    pub(super) fn told(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.len())
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, Arc<RemoteNode>>> {
        // Nothing under this lock can panic half-way.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
