//! The events that wait for the topic of the audit log. Nothing here waits or writes: `audit_topic` takes the
//! events and stores them.
//!
//! As with the file, events of clients may take half of the room, so that changes by administrators find
//! some.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_env::sync::Notify;

use super::metrics::AccessMetrics;

/// Most events that wait.
const EVENTS_MAX: usize = 4_096;

/// Most bytes that wait. Most events have 300 bytes, and the largest change some 50 KiB.
const BYTES_MAX: usize = 4 << 20;

/// Most events of one batch.
const BATCH_EVENTS: usize = 256;

/// Most bytes of one batch, unless it has a single event.
const BATCH_BYTES: usize = 256 << 10;

/// An event on its way to the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Who caused it: the key of the record.
    pub(super) principal: String,
    /// The event: the value of the record.
    pub(super) json: String,
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.principal.len() + self.json.len()
    }
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Waiting>,
    bytes: usize,
    /// Events that were taken and are neither written nor lost yet.
    taken: u64,
    closed: bool,
}

/// The queue.
pub(super) struct AuditQueue {
    queue: Mutex<Queue>,
    /// Signals that an event has come.
    filled: Notify,
    /// Signals that no event waits.
    emptied: Notify,
    metrics: Arc<AccessMetrics>,
}

impl AuditQueue {
    pub(super) fn new(metrics: &Arc<AccessMetrics>) -> Self {
        let (filled, emptied) = (Notify::new(), Notify::new());
        Self { queue: Mutex::default(), filled, emptied, metrics: Arc::clone(metrics) }
    }

    /// Queues an event. Counts it as lost if there is no room. Never waits.
    pub(super) fn offer(&self, event: Waiting, is_change: bool) {
        let share = if is_change { 1 } else { 2 };
        let mut queue = self.queue.lock();
        let bytes = queue.bytes + event.bytes();
        if queue.closed || queue.events.len() >= EVENTS_MAX / share || bytes > BYTES_MAX / share {
            drop(queue);
            self.metrics.audited_in_topic("lost", 1);
            return;
        }
        queue.bytes = bytes;
        queue.events.push_back(event);
        drop(queue);
        self.filled.notify_one();
    }

    /// Waits for events, and takes those of one batch. Only one task may call this, and it must call
    /// [`AuditQueue::ended`] before it calls this again.
    pub(super) async fn take(&self) -> Vec<Waiting> {
        loop {
            let batch = self.try_take();
            if !batch.is_empty() {
                return batch;
            }
            self.filled.notified().await;
        }
    }

    fn try_take(&self) -> Vec<Waiting> {
        let mut queue = self.queue.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(size) = queue.events.front().map(Waiting::bytes) {
            bytes += size;
            if batch.len() >= BATCH_EVENTS || (bytes > BATCH_BYTES && !batch.is_empty()) {
                break;
            }
            queue.bytes -= size;
            batch.extend(queue.events.pop_front());
        }
        queue.taken = batch.len() as u64;
        batch
    }

    /// Counts what became of the taken events: `written` or `lost`.
    pub(super) fn ended(&self, result: &'static str) {
        let mut queue = self.queue.lock();
        let taken = std::mem::take(&mut queue.taken);
        let is_empty = queue.events.is_empty();
        drop(queue);
        self.metrics.audited_in_topic(result, taken);
        if is_empty {
            self.emptied.notify_one();
        }
    }

    /// Waits until all events are written or lost. Others may come meanwhile.
    pub(super) async fn drained(&self) {
        while !self.is_drained() {
            self.emptied.notified().await;
        }
    }

    fn is_drained(&self) -> bool {
        let queue = self.queue.lock();
        queue.events.is_empty() && queue.taken == 0
    }

    /// Counts what waits as lost, and so everything that comes later.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.bytes = 0;
        let waiting = std::mem::take(&mut queue.events);
        let left = waiting.len() as u64 + std::mem::take(&mut queue.taken);
        drop(queue);
        if left > 0 {
            tracing::warn!(events = left, "events of the audit log did not get into its topic");
            self.metrics.audited_in_topic("lost", left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: usize, bytes: usize) -> Waiting {
        Waiting { principal: "User:a".to_owned(), json: number.to_string() + &"x".repeat(bytes) }
    }

    fn queue() -> (AuditQueue, Arc<AccessMetrics>) {
        let metrics: Arc<AccessMetrics> = Arc::default();
        (AuditQueue::new(&metrics), metrics)
    }

    #[tokio::test]
    async fn events_of_clients_take_half_of_the_places_and_changes_the_rest_and_more_are_counted_as_lost() {
        let (queue, metrics) = queue();
        for number in 0..10_000 {
            queue.offer(event(number, 10), false);
        }
        assert_eq!(metrics.count_in_topic("lost"), 10_000 - EVENTS_MAX as u64 / 2);
        for number in 0..10_000 {
            queue.offer(event(number, 10), true);
        }
        assert_eq!(metrics.count_in_topic("lost"), 20_000 - EVENTS_MAX as u64);
        let mut taken = 0;
        while !queue.is_drained() {
            let batch = queue.take().await;
            assert!((1..=BATCH_EVENTS).contains(&batch.len()));
            taken += batch.len();
            queue.ended("written");
        }
        assert_eq!((taken, metrics.count_in_topic("written")), (EVENTS_MAX, EVENTS_MAX as u64));
    }

    #[tokio::test]
    async fn the_bytes_that_wait_are_bounded_and_so_are_those_of_a_batch() {
        let (queue, metrics) = queue();
        for number in 0..200 {
            queue.offer(event(number, 50_000), true);
        }
        let most = BYTES_MAX / (50_000 + 6);
        assert_eq!(metrics.count_in_topic("lost"), 200 - most as u64);
        let first = queue.take().await;
        assert_eq!(first.len(), 5);
        assert_eq!(first[0], event(0, 50_000));
        queue.ended("lost");
        // An event that is larger than a batch is taken alone.
        let (queue, _) = self::queue();
        queue.offer(event(1, 2 * BATCH_BYTES), true);
        queue.offer(event(2, 1), true);
        assert_eq!(queue.take().await.len(), 1);
        queue.ended("written");
        assert_eq!(queue.take().await, [event(2, 1)]);
    }

    #[tokio::test]
    async fn what_is_left_at_the_end_and_what_comes_later_counts_as_lost() {
        let (queue, metrics) = queue();
        queue.offer(event(1, 10), false);
        assert_eq!(queue.take().await.len(), 1);
        queue.offer(event(2, 10), false);
        assert!(!queue.is_drained());
        queue.close();
        queue.offer(event(3, 10), true);
        assert_eq!(metrics.count_in_topic("lost"), 3);
        queue.drained().await;
    }
}
