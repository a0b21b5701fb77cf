//! What the router finds for a subject: a client's subscription, a topic that captures it, or another node's interest.

use std::sync::Arc;

use crate::capture::Binding;
use crate::routes::NodeInterest;
use crate::subscription::ClientSubscription;

/// What a pattern leads to.
pub(crate) enum Target {
    Client(ClientSubscription),
    Topic(Arc<Binding>),
    Node(NodeInterest),
}
