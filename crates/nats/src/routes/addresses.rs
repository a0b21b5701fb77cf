//! Client addresses of the other nodes, for `connect_urls` in INFO.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tailrace_metadata::MetadataImage;
use tailrace_types::NodeId;

/// Most addresses that clients are told, because INFO is one line.
const ADDRESSES_MAX: usize = 64;

/// The cluster as clients are told about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// The cluster's name. Empty in a standalone server.
    pub(crate) cluster: String,
    /// The address of this node, if it is known.
    pub(crate) own: Option<String>,
    /// The addresses of the other live nodes, ordered by node id.
    pub(crate) others: Vec<String>,
}

impl Told {
    /// Returns the addresses, this node's first, as in nats-server. Without it once the node is about to
    /// stop.
    pub(crate) fn connect_urls(&self, leaving: bool) -> Vec<String> {
        let own = self.own.iter().filter(|_| !leaving);
        own.chain(&self.others).take(ADDRESSES_MAX).cloned().collect()
    }
}

/// What clients are told at the moment.
#[derive(Debug, Default)]
pub(crate) struct Addresses(ArcSwap<Told>);

impl Addresses {
    pub(crate) fn told(&self) -> Arc<Told> {
        self.0.load_full()
    }

    /// Applies changed metadata. Reports whether clients have to be told.
    pub(crate) fn follow(&self, image: &MetadataImage, own: NodeId) -> bool {
        let told = told(image, own);
        if *self.0.load_full() == told {
            return false;
        }
        self.0.store(Arc::new(told));
        true
    }
}

fn told(image: &MetadataImage, own: NodeId) -> Told {
    let cluster = image.cluster_id().unwrap_or_default().to_owned();
    if image.broker().tailrace_nats_no_advertise {
        return Told { cluster, ..Told::default() };
    }
    let nodes = image.nodes().filter(|node| !node.fenced);
    let (mut here, mut others) = (None, Vec::new());
    for node in nodes {
        let Some(address) = node.registration.nats.clone() else { continue };
        if node.registration.node == own {
            here = Some(address);
        } else {
            others.push(address);
        }
    }
    Told { cluster, own: here, others }
}
