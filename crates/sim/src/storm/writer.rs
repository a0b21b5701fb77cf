//! Offers batches to one node, one after the other.

use std::sync::{Arc, Mutex, PoisonError};

use tailrace_env::random;
use tailrace_env::time::{self, Duration};
use tailrace_node::relay::{self, Batch, NotStored, Stored};
use tailrace_node::{Caller, Node};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{Offset, PartitionId};

use super::history::{BatchFate, BatchName, History};
use super::site::TOPIC;

/// Writers on each node, so that several batches go in one request.
pub(super) const WRITERS: u32 = 3;

pub(super) struct Writer {
    /// Its next batch.
    next: BatchName,
    history: Arc<Mutex<History>>,
}

impl Writer {
    pub(super) fn new(node: usize, start: u32, writer: u32, history: Arc<Mutex<History>>) -> Self {
        Self { next: BatchName { node, start, writer, number: 0 }, history }
    }

    pub(super) async fn run(mut self, node: Arc<Node>) {
        while !lock(&self.history).has_ended(self.next.node) {
            self.write(&node, self.next).await;
            self.next.number += 1;
            time::sleep(Duration::from_micros(random::u64() % 30_000)).await;
        }
    }

    async fn write(&self, node: &Arc<Node>, name: BatchName) {
        let Some(topic) = node.topics().by_name(TOPIC) else { return };
        let mut builder = BatchBuilder::new(BatchOptions::default());
        let value = name.to_string();
        builder.push(node.now(), None, Some(value.as_bytes()), &[]).expect("it is small");
        lock(&self.history).offered(name);
        let history = Arc::clone(&self.history);
        let told =
            move || -> relay::Told { Box::new(move |outcome| lock(&history).told(name, fate_of(outcome))) };
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
                lock(&self.history).told(name, fate_of(outcome.map(|()| stored.first())));
            }
            Err(failure) => lock(&self.history).told(name, fate_of(Err(failure))),
        }
    }
}

fn fate_of(outcome: Result<Offset, NotStored>) -> BatchFate {
    match outcome {
        Ok(offset) => BatchFate::Stored(offset),
        Err(NotStored::Unanswered(_) | NotStored::Halted | NotStored::NotLeader | NotStored::Panicked) => {
            BatchFate::Unknown
        }
        Err(_) => BatchFate::Refused,
    }
}

fn lock(history: &Mutex<History>) -> std::sync::MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}
