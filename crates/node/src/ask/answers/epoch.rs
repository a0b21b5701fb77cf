//! Answers with the epoch of this node's replica of the metadata log.

use std::sync::Arc;

use super::Answers;
use crate::ask::EpochOf;
use crate::caller::Caller;
use crate::node::Node;

impl Answers for EpochOf {
    async fn answer(self, node: &Arc<Node>, _: &Caller) -> Option<i32> {
        let handle = node.controller.handle();
        let epoch = handle.look(move |core| {
            let replica = core.as_replica()?;
            (replica.id().0 == self.replica && replica.halted().is_none()).then(|| replica.epoch().get())
        });
        epoch.await.flatten()
    }
}
