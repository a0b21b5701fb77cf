//! What all connections of one node share.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tailrace_env::sync::watch;
use tailrace_tls::PeerTls;
use tailrace_types::NodeId;

use super::link::Link;
use super::metrics::PeerMetrics;
use super::presence::Presence;
use super::quiet::Quiet;
use super::types::{Identity, PeerNode, PeerOptions, PeerReceiver};

/// The links, by the id of the node they lead to.
pub(super) type Links = BTreeMap<NodeId, Arc<Link>>;

/// What all connections share.
pub(super) struct Shared {
    pub(super) options: PeerOptions,
    pub(super) identity: ArcSwap<Identity>,
    pub(super) tls: Option<Arc<PeerTls>>,
    pub(super) metrics: PeerMetrics,
    pub(super) presence: Arc<Presence>,
    pub(super) quiet: Quiet,
    pub(super) links: ArcSwap<Links>,
    pub(super) wanted: Mutex<WantedLinks>,
    pub(super) stopping: watch::Sender<bool>,
    pub(super) spawner: tailrace_env::task::Spawner,
}

/// The wanted links.
#[derive(Default)]
pub(super) struct WantedLinks {
    pub(super) nodes: Vec<PeerNode>,
    pub(super) receiver: Option<Arc<dyn PeerReceiver>>,
}

impl Shared {
    /// Waits until the links are stopped.
    pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
        // The sender lives as long as this.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Reports a sign of life from another node, which is dialled at once.
    pub(super) fn nudge(&self, node: NodeId) {
        if let Some(link) = self.links.load().get(&node) {
            link.nudge();
        }
    }
}
