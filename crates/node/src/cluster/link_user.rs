//! Who else uses the links between nodes.

use std::sync::Arc;

use tailrace_metadata::MetadataImage;
use tailrace_types::NodeId;

use tailrace_peers::{NatsReceiver, Peers};

/// What speaks to its like on other nodes over the links of this one: live messages of a front.
///
/// Nothing here may wait: it is called by the tasks of the links.
pub trait LinkUser: Send + Sync {
    /// From now on there are other nodes. Called at most once, at start.
    fn connect(&self, peers: Peers);

    /// Takes over which nodes there are; `own` is this one.
    fn follow_nodes(&self, image: &MetadataImage, own: NodeId);

    /// The link to another node is up.
    fn link_up(&self, node: NodeId);

    /// The link to another node is down.
    fn link_down(&self, node: NodeId);

    /// Who takes what another node's link brings, for as long as that link lasts.
    fn linked_by(self: Arc<Self>, node: NodeId) -> Box<dyn NatsReceiver>;
}
