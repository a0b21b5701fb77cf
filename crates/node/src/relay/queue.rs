//! The batches that wait for the leader of one partition, in order, and the producer that this node is to the
//! partition.

use std::collections::{HashMap, VecDeque};
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tailrace_config::BrokerConfig;
use tailrace_env::sync::oneshot;
use tailrace_records::BatchBuilder;
use tailrace_types::{Offset, ProducerId, RaftGroup, Tally};

use super::failure::NotStored;
use super::wire::BATCHES_MAX;
use crate::streams::Published;

/// Maximum bytes of batches in one request, unless a single batch has more.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Partitions whose producers are remembered. Beyond that, idle ones are forgotten, and get new producers.
const IDLE_MAX: usize = 4096;

/// A producer whose sequences get near their end is replaced.
const SEQUENCE_MAX: i32 = i32::MAX / 2;

/// One batch.
pub(super) struct Item {
    pub(super) builder: BatchBuilder,
    pub(super) deadline: Instant,
    pub(super) waiter: Waiter,
}

impl Item {
    pub(super) fn is_judged(&self) -> bool {
        self.waiter.teller.is_judged()
    }
}

/// Receives the first offset of a batch once it is committed, or why it is not. Must not block.
pub type Told = Box<dyn FnOnce(Result<Offset, NotStored>) + Send>;

/// Receives what became of each message of a batch, once that is committed, or why none was judged. Must not
/// block.
pub type ToldEach = Box<dyn FnOnce(Result<Vec<Published>, NotStored>) + Send>;

/// Who is told.
pub(super) enum Teller {
    /// Of a batch that is stored as it is.
    Batch(Told),
    /// Of messages that the leader of a stream judges.
    Each(ToldEach),
}

impl Teller {
    fn is_judged(&self) -> bool {
        matches!(self, Self::Each(_))
    }

    pub(super) fn fail(self, failure: NotStored) {
        match self {
            Self::Batch(told) => told(Err(failure)),
            Self::Each(told) => told(Err(failure)),
        }
    }
}

/// A waiter for a batch.
pub(super) struct Waiter {
    pub(super) teller: Teller,
    /// The batch's share of the bound.
    pub(super) bytes: u64,
    /// Dropped once the waiter has been told.
    _done: oneshot::Sender<()>,
}

/// This node as a producer of one partition. Every batch that it writes gets the next sequence, so the
/// partition recognises a retried batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) id: ProducerId,
    pub(super) next_sequence: i32,
    /// The number of its next request to a judge.
    pub(super) next_request: u64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Item>,
    /// True while a task serves this partition.
    running: bool,
    producer: Option<Producer>,
}

/// The queues of all partitions, bounded together.
pub(crate) struct Relay {
    queues: Mutex<HashMap<RaftGroup, Queue>>,
    waiting_bytes: Tally,
    bytes_max: u64,
    /// How long a batch is offered to the leader of its partition, if the caller has no deadline.
    timeout: Duration,
    /// The sink that already knows relayed batches, because they come from it.
    pub(crate) known_to: Option<&'static str>,
    /// Number of retried requests.
    pub(crate) retries: Counter,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("waiting_bytes", &self.waiting_bytes).finish_non_exhaustive()
    }
}

/// A batch that was queued.
pub(super) struct Queued {
    /// The caller has to start the partition's task.
    pub(super) starts: bool,
    /// Resolves once its waiter has been told.
    pub(super) done: oneshot::Receiver<()>,
}

impl Relay {
    /// `known_to`: the sink that already knows relayed batches.
    pub(crate) fn new(config: &BrokerConfig, known_to: Option<&'static str>, retries: Counter) -> Self {
        Self {
            queues: Mutex::default(),
            waiting_bytes: Tally::of("bytes that wait for the leaders of their partitions"),
            bytes_max: config.tailrace_nats_capture_forward_bytes_max,
            timeout: Duration::from_millis(config.tailrace_nats_capture_forward_timeout_ms),
            known_to,
            retries,
        }
    }

    /// How long messages are offered to the leader of their partition, if the caller has no deadline.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Queues a batch, which waits until `deadline` at most.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn push(
        &self,
        group: RaftGroup,
        builder: BatchBuilder,
        deadline: Option<Instant>,
        waiter: impl FnOnce() -> Teller,
    ) -> Result<Queued, NotStored> {
        let bytes = builder.bytes_estimate() as u64;
        let has_room = |waiting: u64| waiting == 0 || waiting + bytes <= self.bytes_max;
        if !self.waiting_bytes.add_if(bytes, has_room) {
            return Err(NotStored::QueueFull);
        }
        let deadline = deadline.unwrap_or_else(|| Instant::now() + self.timeout);
        let (sender, done) = oneshot::channel();
        let waiter = Waiter { teller: waiter(), bytes, _done: sender };
        let item = Item { builder, deadline, waiter };
        let mut queues = self.queues.lock();
        let queue = queues.entry(group).or_default();
        queue.waiting.push_back(item);
        Ok(Queued { starts: !std::mem::replace(&mut queue.running, true), done })
    }

    /// Takes the next batches, either those to be judged or the others, and their producer if there is one.
    /// On `None` the task ends.
    pub(super) fn take(&self, group: RaftGroup) -> Option<(Vec<Item>, Option<Producer>)> {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(&group)?;
        let (mut items, mut bytes) = (Vec::<Item>::new(), 0);
        while let Some(next) = queue.waiting.front() {
            let size = next.builder.bytes_estimate();
            let is_other = items.first().is_some_and(|first| first.is_judged() != next.is_judged());
            let is_full =
                items.len() == BATCHES_MAX || (!items.is_empty() && bytes + size > REQUEST_BYTES_MAX);
            if is_other || is_full {
                break;
            }
            bytes += size;
            items.extend(queue.waiting.pop_front());
        }
        if items.is_empty() {
            queue.running = false;
            queue.waiting = VecDeque::new();
            if queues.len() > IDLE_MAX {
                queues.retain(|_, queue| queue.running);
            }
            return None;
        }
        let producer = queue.producer.filter(|producer| producer.next_sequence < SEQUENCE_MAX);
        Some((items, producer))
    }

    /// Sets the producer of the next batches. `None` for a new one.
    pub(super) fn set_producer(&self, group: RaftGroup, producer: Option<Producer>) {
        if let Some(queue) = self.queues.lock().get_mut(&group) {
            queue.producer = producer;
        }
    }

    /// Tracks batches that are being relayed.
    pub(super) fn under_way(&self, group: RaftGroup, bytes: u64) -> UnderWay<'_> {
        UnderWay { relay: self, group, bytes, is_done: false }
    }

    /// Records that no task serves this partition any longer: the next batch starts one, with a producer of
    /// its own.
    fn abandon(&self, group: RaftGroup) {
        if let Some(queue) = self.queues.lock().get_mut(&group) {
            (queue.running, queue.producer) = (false, None);
        }
    }
}

/// Batches that are being relayed. Dropping it frees their bytes. If it is dropped before its end, by a
/// panic, the next batch of the partition starts another task.
pub(super) struct UnderWay<'a> {
    relay: &'a Relay,
    group: RaftGroup,
    bytes: u64,
    is_done: bool,
}

impl UnderWay<'_> {
    pub(super) fn end(mut self) {
        self.is_done = true;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.relay.waiting_bytes.take_off(self.bytes);
        if !self.is_done {
            self.relay.abandon(self.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tailrace_config::DynamicConfigs;
    use tailrace_records::BatchOptions;
    use tailrace_types::{PartitionId, TopicId};

    use super::*;

    #[test]
    fn batches_whose_task_is_lost_give_their_room_back_and_the_next_one_starts_another_task() {
        tailrace_runtime::install();
        let config = BrokerConfig::resolve(&BTreeMap::new(), &DynamicConfigs::default()).unwrap();
        let relay = Relay::new(&config, None, Counter::default());
        let group = RaftGroup { topic: TopicId([1; 16]), partition: PartitionId(0) };
        let push = || {
            let builder = BatchBuilder::new(BatchOptions::default());
            relay
                .push(group, builder, None, || Teller::Batch(Box::new(|_| {})))
                .expect("there is room")
                .starts
        };
        assert!(push() && !push());
        let (items, _) = relay.take(group).unwrap();
        let bytes: u64 = items.iter().map(|item| item.waiter.bytes).sum();
        assert_eq!((items.len(), relay.waiting_bytes.get()), (2, bytes));
        drop(relay.under_way(group, bytes));
        assert_eq!(relay.waiting_bytes.get(), 0);
        assert!(push(), "no task serves it any longer");
        let (items, _) = relay.take(group).unwrap();
        relay.under_way(group, items[0].waiter.bytes).end();
        assert!(!push(), "its task continues");
    }
}
