//! Offers batches to one node, one after the other.

use std::sync::Arc;

use tailrace_env::random;
use tailrace_env::time::{self, Duration};
use tailrace_node::relay::{self, Batch, NotStored, Stored};
use tailrace_node::{Caller, Node};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{Offset, PartitionId};

use crate::storm::history::{BatchFate, BatchName, SharedHistory};
use crate::storm::site::TOPIC;

/// Writers on each node, so that several batches go in one request.
pub(in crate::storm) const WRITERS: u32 = 3;

pub(in crate::storm) struct Writer {
    /// The next batch to offer.
    next: BatchName,
    history: SharedHistory,
}

impl Writer {
    pub(in crate::storm) fn new(node: usize, start: u32, writer: u32, history: SharedHistory) -> Self {
        Self { next: BatchName { node, start, writer, number: 0 }, history }
    }

    pub(in crate::storm) async fn run(mut self, node: Arc<Node>) {
        while !self.history.lock().has_ended(self.next.node) {
            self.write(&node, self.next).await;
            self.next.number += 1;
            time::sleep(Duration::from_micros(random::u64() % 60_000)).await;
        }
    }

    async fn write(&self, node: &Arc<Node>, name: BatchName) {
        let Some(topic) = node.topics().by_name(TOPIC) else { return };
        let mut builder = BatchBuilder::new(BatchOptions::default());
        let value = name.to_string();
        builder.push(node.now(), None, Some(value.as_bytes()), &[]).expect("the record fits into the batch");
        self.history.lock().offered(name);
        let history = self.history.clone();
        let told =
            move || -> relay::Told { Box::new(move |outcome| history.lock().told(name, fate_of(outcome))) };
        let batch = Batch { topic: &topic, partition: PartitionId(0), builder, now: node.now() };
        let patience = Duration::from_millis(20 + random::u64() % 1_000);
        match relay::store(node, &Caller::internal().within(patience), batch, told).await {
            Ok(Stored::UnderWay(done)) => {
                // It ends when its sender is dropped.
                let _ = done.await;
            }
            Ok(Stored::Here(stored)) => {
                let outcome = match stored.committing() {
                    Some(committing) => committing.committed().await,
                    None => Ok(()),
                };
                self.history.lock().told(name, fate_of(outcome.map(|()| stored.first())));
            }
            Err(failure) => self.history.lock().told(name, fate_of(Err(failure))),
        }
    }
}

fn fate_of(outcome: Result<Offset, NotStored>) -> BatchFate {
    match outcome {
        Ok(offset) => BatchFate::Stored(offset),
        Err(
            NotStored::Unanswered(_)
            | NotStored::LogFailed(_)
            | NotStored::Halted
            | NotStored::NotLeader
            | NotStored::Panicked,
        ) => BatchFate::Unknown,
        Err(_) => BatchFate::Refused,
    }
}
