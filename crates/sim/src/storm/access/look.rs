//! What a node knows of users and rules at some moment.

use std::sync::{Arc, Weak};

use tailrace_metadata::AccessImage;
use tailrace_node::Node;
use tailrace_types::TimestampMs;

/// The users and rules of a node at some moment.
pub(in crate::storm) struct Look {
    node: Weak<Node>,
    pub(in crate::storm) access: AccessImage,
    /// The time by the clients' clock. Tokens live for a day, and clocks are wrong by less.
    pub(in crate::storm) now: TimestampMs,
}

impl Look {
    pub(super) fn of(node: &Arc<Node>) -> Self {
        let (access, now) = (node.image().access().clone(), node.now());
        Self { node: Arc::downgrade(node), access, now }
    }

    /// Returns the users and rules if a node had the same ones twice, and did not start in between.
    pub(in crate::storm) fn settled(before: Option<&Self>, after: Option<Self>) -> Option<Self> {
        before.zip(after).and_then(|(before, after)| after.is_as(before).then_some(after))
    }

    /// Reports whether it is the same node as before, and was not started again.
    pub(in crate::storm) fn is_of(&self, before: &Self) -> bool {
        Weak::ptr_eq(&self.node, &before.node)
    }

    fn is_as(&self, before: &Self) -> bool {
        self.is_of(before) && self.access.version() == before.access.version()
    }
}
