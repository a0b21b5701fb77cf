//! Who somebody is.

use std::sync::Arc;

use tailrace_types::NodeId;

/// Who somebody is, as far as that was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Nobody had to say who he is.
    Anonymous,
    /// Known by this name.
    User(Arc<str>),
    /// A node of the cluster, by the handshake of its link.
    Node(NodeId),
    /// This node itself.
    Internal,
}
