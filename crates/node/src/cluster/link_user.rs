//! The other user of the links between nodes.

use std::sync::Arc;

use tailrace_metadata::MetadataImage;
use tailrace_types::NodeId;

use tailrace_peers::{NatsReceiver, Peers};

/// A front that sends its live messages to its peers on other nodes over this node's links.
///
/// No method may wait, because the tasks of the links call them.
pub trait LinkUser: Send + Sync {
    /// Hands over the links. Called at most once, at start, if the node is in a cluster.
    fn connect(&self, peers: Peers);

    /// Takes over which nodes exist. `own` is this one.
    fn follow_nodes(&self, image: &MetadataImage, own: NodeId);

    /// The link to another node is up.
    fn link_up(&self, node: NodeId);

    /// The link to another node is down.
    fn link_down(&self, node: NodeId);

    /// Returns the receiver for what arrives over a link from another node, for as long as that link lasts.
    fn linked_by(self: Arc<Self>, node: NodeId) -> Box<dyn NatsReceiver>;
}
