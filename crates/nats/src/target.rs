//! What the router finds for a subject: a client's subscription, a topic that captures it, or another node's interest.

use std::sync::Arc;

use bytes::Bytes;

use crate::capture::Binding;
use crate::routes::NodeInterest;
use crate::subscription::ClientSubscription;

/// What a pattern leads to.
pub(crate) enum Target {
    Client(ClientSubscription),
    Topic(Arc<Binding>),
    Node(NodeInterest),
}

/// Whom a message of another node is for, among the clients of this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here<'a> {
    /// Plain subscribers get it.
    pub(super) plain: bool,
    /// So does a member of each of these groups.
    pub(super) queues: &'a [Bytes],
}

impl Here<'_> {
    pub(super) fn wants(&self, queue: &[u8]) -> bool {
        self.queues.iter().any(|name| **name == *queue)
    }
}
