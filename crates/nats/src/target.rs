//! The router's targets: a client's subscription, a topic that captures a subject, or another node's
//! interest.

use std::sync::Arc;

use bytes::Bytes;

use crate::burst::Crossing;
use crate::capture::Binding;
use crate::routes::NodeInterest;
use crate::subscription::ClientSubscription;

/// The target of a pattern.
pub(crate) enum Target {
    Client(ClientSubscription),
    Topic(Arc<Binding>),
    Node(NodeInterest),
    /// Messages cross to another account.
    Account(Arc<dyn Crossing>),
}

/// The local clients for whom another node's message is meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here<'a> {
    /// Whether plain subscribers get it.
    pub(super) plain: bool,
    /// The groups of which one member gets it.
    pub(super) queues: &'a [Bytes],
}

impl Here<'_> {
    pub(super) fn wants(&self, queue: &[u8]) -> bool {
        self.queues.iter().any(|name| **name == *queue)
    }
}
