//! NATS between the nodes of a cluster: the nodes' interest, and the messages sent to them.
//!
//! - `interest` announces this node's interest to the others. `inbound` receives theirs, and their messages.
//! - `waiting` queues messages behind one for very many subscribers.
//! - `outbound` decides which nodes get a message. `wire` encodes. `addresses` lists the other nodes for
//!   clients.
//!
//! Every node has a link to every other one (`tailrace_peers`), so a message makes one hop at most and cannot
//! come back. Interest and messages share one queue per link, so a requester's inbox is known where its
//! request arrives. The interest of other nodes is in the same matcher as the subscriptions of clients, so
//! one lookup finds all, and a node without peers has no extra work. Out of scope: capture for topics, which
//! happens where a message is published.

mod addresses;
mod inbound;
mod interest;
mod metrics;
mod outbound;
mod waiting;
mod wire;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tailrace_env::task;
use tailrace_env::time::WallTime;

use parking_lot::Mutex;
use tailrace_config::BrokerConfig;
use tailrace_types::{NodeId, Tally, usize_of};

pub(super) use self::addresses::{Addresses, Told};
pub(super) use self::inbound::Inbound;
pub(super) use self::interest::Key;
use self::interest::OwnInterest;
pub(super) use self::metrics::RouteMetrics;
pub(super) use self::outbound::{Matches, NodePicker};
use tailrace_peers::Peers;

/// Limits on another node's interest.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteLimits {
    /// Most patterns, counted per queue group.
    interest_max: usize,
    /// Most bytes of all patterns.
    interest_bytes_max: usize,
}

/// The routes to the other nodes.
pub(super) struct Routes {
    limits: RouteLimits,
    metrics: RouteMetrics,
    peers: Arc<OnceLock<Peers>>,
    /// This node's interest. `None` in a standalone server.
    own: Option<Arc<OwnInterest<OnceLock<Peers>>>>,
    nodes: Mutex<BTreeMap<NodeId, Arc<RemoteNode>>>,
}

/// Another node, as long as one of its links lasts.
#[derive(Debug)]
pub(crate) struct RemoteNode {
    pub(super) id: NodeId,
    pub(super) since: WallTime,
    /// Whether its link has ended. The router may still have its interest, which no longer counts.
    gone: AtomicBool,
    pub(super) interest: Tally,
    pub(super) messages_in: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) messages_out: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) dropped: AtomicU64,
}

/// Another node's interest, as the router stores it.
#[derive(Debug)]
pub(crate) struct NodeInterest {
    pub(super) node: Arc<RemoteNode>,
    pub(super) queue: Option<Arc<[u8]>>,
    /// Number of patterns with this target. Without any, only lookups that started earlier find it.
    pub(super) patterns: Tally,
    /// Whether the node has withdrawn all of its interest, including this one. The router is about to remove
    /// it.
    forgotten: Arc<AtomicBool>,
}

impl NodeInterest {
    /// Creates a target. All interest that the node announces shares `forgotten` until the node withdraws it.
    fn new(node: &Arc<RemoteNode>, queue: Option<Arc<[u8]>>, forgotten: &Arc<AtomicBool>) -> Self {
        let patterns = Tally::of("subjects of one queue group, or plain, for which a node has subscribers");
        Self { node: Arc::clone(node), queue, patterns, forgotten: Arc::clone(forgotten) }
    }

    /// Reports whether the node has no subscribers left.
    pub(super) fn is_over(&self) -> bool {
        self.node.is_gone() || self.forgotten.load(Ordering::Relaxed) || self.patterns.get() == 0
    }
}

impl RemoteNode {
    fn new(id: NodeId) -> Self {
        Self {
            id,
            since: WallTime::now(),
            gone: AtomicBool::new(false),
            interest: Tally::of("subjects for which a node has subscribers"),
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

    /// Sets the links to the other nodes.
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

    /// Counts another local subscriber, to which messages can already be delivered. Returns the key for
    /// [`Routes::unsubscribed`].
    pub(super) fn subscribed(
        &self,
        account: Option<&Arc<str>>,
        pattern: &[u8],
        queue: Option<&Arc<[u8]>>,
    ) -> Option<Arc<Key>> {
        self.own.as_ref().map(|own| own.add(account, pattern, queue))
    }

    /// Announces interest in other accounts than the global one, too. Call this once every node of the
    /// cluster understands that.
    pub(super) fn announce_accounts(&self) {
        if let Some(own) = &self.own {
            own.announce_accounts();
        }
    }

    /// Reports whether all nodes understand messages that go to another subject than their own.
    pub(super) fn knows_letters(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.has_accounts())
    }

    pub(super) fn unsubscribed(&self, key: Option<&Arc<Key>>) {
        if let (Some(own), Some(key)) = (&self.own, key) {
            own.remove(key);
        }
    }

    /// Announces this node's interest on a new link.
    pub(super) fn link_up(&self, node: NodeId) {
        if let (Some(own), Some(peers)) = (&self.own, self.peers()) {
            let feed = own.begin(node);
            task::spawn(interest::feed(Arc::clone(own), peers.clone(), node, feed));
        }
    }

    /// Ends the announcements on a link that is down.
    pub(super) fn link_down(&self, node: NodeId) {
        if let Some(own) = &self.own {
            own.end(node);
        }
    }

    /// Adds another node, whose link to this one is up.
    pub(super) fn node_came(&self, id: NodeId) -> Arc<RemoteNode> {
        let node = Arc::new(RemoteNode::new(id));
        if let Some(before) = self.nodes.lock().insert(id, Arc::clone(&node)) {
            before.gone.store(true, Ordering::Relaxed);
        }
        node
    }

    fn node_gone(&self, node: &Arc<RemoteNode>) {
        node.gone.store(true, Ordering::Relaxed);
        let mut nodes = self.nodes.lock();
        if nodes.get(&node.id).is_some_and(|known| Arc::ptr_eq(known, node)) {
            nodes.remove(&node.id);
        }
    }

    /// Returns the nodes whose links to this one are up.
    pub(super) fn known_nodes(&self) -> Vec<Arc<RemoteNode>> {
        self.nodes.lock().values().cloned().collect()
    }

    /// Number of patterns that this node has announced. 0 in a standalone server.
    pub(super) fn told(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.len())
    }
}
