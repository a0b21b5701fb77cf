//! Appends the markers of a transaction for the node that coordinates it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_replication::{AppendError, ProducerError};

use super::Answers;
use crate::ask::{AppendMarkers, Over};
use crate::caller::Caller;
use crate::coordinators::{append_any_marker, committed};
use crate::node::Node;
use crate::partitions::AppendFailure;

impl Answers for AppendMarkers {
    async fn answer(self, node: &Arc<Node>, caller: &Caller) -> Over {
        let marker = self.marker();
        if self.producer < 0 || self.epoch < 0 {
            return Over::default();
        }
        let (mut over, mut appended) = (BTreeSet::new(), Vec::new());
        for named in self.partitions {
            let topic = node.topics().by_name(&named.0);
            let Some(Ok(handle)) = topic.as_ref().map(|topic| topic.here(named.1)) else { continue };
            match append_any_marker(node, caller, handle, marker).await {
                Ok(awaited) => appended.push((named, Arc::clone(handle), awaited)),
                Err(failure) if is_of_an_earlier_producer(&failure) => drop(over.insert(named)),
                // The coordinator asks for this partition again.
                Err(_) => {}
            }
        }
        for (named, handle, awaited) in appended {
            if committed(&handle, awaited).await {
                over.insert(named);
            }
        }
        Over(over)
    }
}

fn is_of_an_earlier_producer(failure: &AppendFailure) -> bool {
    matches!(failure, AppendFailure::Refused(AppendError::Producer(ProducerError::StaleEpoch { .. })))
}
