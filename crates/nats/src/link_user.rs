//! The front as a user of the links to other nodes, and as what has users of its own.

use std::sync::Arc;

use tailrace_metadata::{ACCESS_LEVEL, MetadataImage};
use tailrace_types::NodeId;

use crate::front::NatsFront;
use crate::routes::Inbound;
use tailrace_node::access::OwnUsers;
use tailrace_node::cluster::LinkUser;
use tailrace_peers::{NatsReceiver, Peers};

impl LinkUser for NatsFront {
    fn connect(&self, peers: Peers) {
        self.accounts().routes().connect(peers);
    }

    /// Tells the clients if the addresses to which they may connect have changed.
    fn follow_nodes(&self, image: &MetadataImage, own: NodeId) {
        if image.features().cluster_level() >= ACCESS_LEVEL {
            self.accounts().routes().announce_accounts();
        }
        if self.addresses.follow(image, own) {
            for client in self.clients() {
                client.out.signal(|signals| signals.info = true);
            }
        }
    }

    fn link_up(&self, node: NodeId) {
        self.accounts().routes().link_up(node);
    }

    fn link_down(&self, node: NodeId) {
        self.accounts().routes().link_down(node);
    }

    fn linked_by(self: Arc<Self>, node: NodeId) -> Box<dyn NatsReceiver> {
        let node = self.accounts().routes().node_came(node);
        Box::new(Inbound::new(self, node))
    }
}

impl OwnUsers for NatsFront {
    fn has_user(&self, name: &str) -> bool {
        self.auth().has_user(name)
    }
}
