//! The unacknowledged batches of one partition, in order.

use std::collections::VecDeque;
use std::time::Instant;

use super::accumulator::Batch;

/// A queue that sends batches in order, several in flight. After a failure it sends nothing until all batches
/// in flight are answered, so that the failed ones go out first, and in order.
#[derive(Debug, Default)]
pub(super) struct PartitionQueue {
    /// Batches not in flight, by number.
    waiting: VecDeque<Batch>,
    /// Numbers of batches in flight, ascending.
    in_flight: VecDeque<u64>,
    recovering: bool,
}

impl PartitionQueue {
    /// Adds a new batch.
    pub(super) fn add(&mut self, batch: Batch) {
        self.waiting.push_back(batch);
    }

    /// Size of the batch that may be sent next.
    pub(super) fn ready_bytes(&self) -> Option<usize> {
        let blocked = self.recovering && !self.in_flight.is_empty();
        self.waiting.front().filter(|_| !blocked).map(|batch| batch.bytes.len())
    }

    /// Takes the next batch for sending.
    pub(super) fn take(&mut self) -> Option<Batch> {
        self.ready_bytes()?;
        self.recovering = false;
        let batch = self.waiting.pop_front()?;
        self.in_flight.push_back(batch.number);
        Some(batch)
    }

    /// Reports whether no earlier batch is unacknowledged. If so, a server's error about order is about this
    /// batch.
    pub(super) fn is_first(&self, number: u64) -> bool {
        let before = |other: Option<u64>| other.is_none_or(|other| other >= number);
        before(self.in_flight.front().copied()) && before(self.waiting.front().map(|batch| batch.number))
    }

    /// Removes a batch from those in flight. Call it when the answer is final.
    pub(super) fn done(&mut self, number: u64) {
        self.in_flight.retain(|&other| other != number);
    }

    /// Returns a batch in flight to the queue, to be sent again.
    pub(super) fn back(&mut self, batch: Batch) {
        self.done(batch.number);
        self.recovering = true;
        let at = self.waiting.partition_point(|other| other.number < batch.number);
        self.waiting.insert(at, batch);
    }

    /// Reports whether the queue is done.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Starts the timeout of the next batch, as if it had been sent. Returns false if no batch waits.
    pub(super) fn count_first(&mut self) -> bool {
        let Some(batch) = self.waiting.front_mut() else { return false };
        batch.first_sent.get_or_insert_with(Instant::now);
        true
    }

    /// When the oldest waiting batch was first sent. `None` if none was.
    pub(super) fn oldest_sent(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|batch| batch.first_sent).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u64) -> Batch {
        Batch::for_test(number)
    }

    fn sent(queue: &mut PartitionQueue) -> Batch {
        queue.take().expect("a batch is ready")
    }

    #[test]
    fn several_are_in_flight_in_order() {
        let mut queue = PartitionQueue::default();
        (0..3).for_each(|number| queue.add(batch(number)));
        assert_eq!([sent(&mut queue).number, sent(&mut queue).number, sent(&mut queue).number], [0, 1, 2]);
        assert_eq!(queue.ready_bytes(), None);
        (0..3).for_each(|number| queue.done(number));
        assert!(queue.is_empty());
    }

    #[test]
    fn after_a_failure_all_in_flight_come_back_before_the_first_goes_out_again() {
        let mut queue = PartitionQueue::default();
        (0..4).for_each(|number| queue.add(batch(number)));
        let (zero, one, two) = (sent(&mut queue), sent(&mut queue), sent(&mut queue));
        queue.back(zero);
        assert_eq!(queue.ready_bytes(), None, "two are in flight");
        assert!(!queue.is_first(1), "what the server says about 1 is due to 0");
        queue.back(two);
        queue.back(one);
        let order: Vec<u64> = std::iter::from_fn(|| queue.take()).map(|batch| batch.number).collect();
        assert_eq!(order, [0, 1, 2, 3]);
    }

    #[test]
    fn the_first_open_batch_is_told_from_the_others() {
        let mut queue = PartitionQueue::default();
        (0..2).for_each(|number| queue.add(batch(number)));
        let (_zero, _one) = (sent(&mut queue), sent(&mut queue));
        assert!(queue.is_first(0));
        assert!(!queue.is_first(1));
        queue.done(0);
        assert!(queue.is_first(1));
    }
}
