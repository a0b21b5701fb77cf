//! The authenticated identity behind a request.

use std::sync::Arc;

use tailrace_types::NodeId;

/// An identity, as far as it was authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Not authenticated, because no credentials are required.
    Anonymous,
    /// A user of this name.
    User(Arc<str>),
    /// A node of the cluster, authenticated by the handshake of its link.
    Node(NodeId),
    /// This node itself.
    Internal,
}
