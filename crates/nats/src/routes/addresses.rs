//! Where clients find the other nodes: `connect_urls` of INFO.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tailrace_metadata::MetadataImage;
use tailrace_types::NodeId;

/// Addresses that clients are told at most: INFO is one line.
const ADDRESSES_MAX: usize = 64;

/// The cluster, as clients are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its name; empty of a node that is alone.
    pub(crate) cluster: String,
    /// Where this node is reached, if it is told.
    pub(crate) own: Option<String>,
    /// The others that are there, by number.
    pub(crate) others: Vec<String>,
}

impl Told {
    /// This node first, as nats-server has it; without it once it is about to stop.
    pub(crate) fn connect_urls(&self, leaving: bool) -> Vec<String> {
        let own = self.own.iter().filter(|_| !leaving);
        own.chain(&self.others).take(ADDRESSES_MAX).cloned().collect()
    }
}

/// What clients are told now.
#[derive(Debug, Default)]
pub(crate) struct Addresses(ArcSwap<Told>);

impl Addresses {
    pub(crate) fn told(&self) -> Arc<Told> {
        self.0.load_full()
    }

    /// Takes over changed metadata. True if clients are to be told of it.
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
