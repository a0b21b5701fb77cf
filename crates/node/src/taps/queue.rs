//! Ranges of one partition that wait to be read for a sink, and the bound for all partitions together.

use std::collections::VecDeque;
use std::sync::{OnceLock, PoisonError};

use tailrace_types::{LeaderEpoch, Offset, Tally};

use crate::sync::{Mutex, MutexGuard};

/// Minimum number of bytes that a range counts: at least what its place in the queue takes.
const RANGE_BYTES_MIN: u64 = 256;

/// Neighbouring ranges are joined up to this size, so that many small batches are read at once, ...
const JOINED_BYTES_MAX: u64 = 256 * 1024;

/// ... and up to this part of what may wait, because whole ranges are skipped.
const JOINED_PART: u64 = 16;

/// Maximum part of what may wait that an undecided transaction may hold back: it may stay open for long, and
/// other partitions need room as well.
const HELD_PART: u64 = 4;

/// Consecutive whole batches of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TapRange {
    /// The epoch in which it was appended. Under another leader, other records may be at the same offsets.
    pub(crate) epoch: LeaderEpoch,
    pub(crate) from: Offset,
    /// One past the last offset.
    pub(crate) to: Offset,
    /// Its share of the budget.
    pub(crate) bytes: u64,
}

impl TapRange {
    /// Makes the range of one batch.
    ///
    /// # Panics
    /// If the range is empty.
    pub(crate) fn new(epoch: LeaderEpoch, from: Offset, to: Offset, bytes: usize) -> Self {
        assert!(from < to, "a batch from {from} to {to}");
        Self { epoch, from, to, bytes: (bytes as u64).max(RANGE_BYTES_MIN) }
    }

    pub(crate) fn records(&self) -> u64 {
        self.to.get().abs_diff(self.from.get())
    }
}

/// Bytes of all partitions that wait for one sink.
#[derive(Debug)]
pub struct TapBudget {
    waiting: Tally,
    max: u64,
}

impl TapBudget {
    /// At most `max` bytes wait. Beyond that, ranges are skipped, the oldest first.
    pub fn new(max: u64) -> Self {
        Self { waiting: Tally::of("bytes that wait for a sink"), max }
    }

    /// Returns the bytes that wait now.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.get()
    }

    fn take(&self, bytes: u64) {
        self.waiting.add(bytes);
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.waiting.take_off(bytes);
    }

    fn joined_max(&self) -> u64 {
        JOINED_BYTES_MAX.min(self.max / JOINED_PART)
    }

    fn is_exceeded(&self) -> bool {
        self.waiting() > self.max
    }

    fn held_max(&self) -> u64 {
        self.max / HELD_PART
    }
}

/// The queue of one partition for one sink. Filled under the partition's lock, drained by one task at a time.
#[derive(Debug, Default)]
pub(crate) struct TapQueue(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    ranges: VecDeque<TapRange>,
    /// Bytes of all ranges.
    bytes: u64,
    /// A task serves this queue.
    running: bool,
}

impl Queue {
    fn take_off(&mut self, bytes: u64) {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.expect("a queue has as many bytes as its ranges");
    }
}

/// The queues of one partition, one per sink. Empty until a sink wants something there.
#[derive(Debug, Default)]
pub(crate) struct TapQueues(OnceLock<Box<[TapQueue]>>);

impl TapQueue {
    /// Adds what was just appended. Returns the number of records that are skipped for it: the oldest of this
    /// partition, if the budget is exhausted. `held`: an undecided transaction precedes it.
    pub(crate) fn push(&self, range: TapRange, budget: &TapBudget, held: bool) -> u64 {
        let mut queue = self.lock();
        budget.take(range.bytes);
        queue.bytes += range.bytes;
        match queue.ranges.back_mut() {
            Some(last)
                if (last.epoch, last.to) == (range.epoch, range.from)
                    && last.bytes + range.bytes <= budget.joined_max() =>
            {
                last.to = range.to;
                last.bytes += range.bytes;
            }
            _ => queue.ranges.push_back(range),
        }
        let mut skipped = 0;
        while (budget.is_exceeded() || (held && queue.bytes > budget.held_max()))
            && let Some(oldest) = queue.ranges.pop_front()
        {
            queue.take_off(oldest.bytes);
            budget.release(oldest.bytes);
            skipped += oldest.records();
        }
        skipped
    }

    /// True if the caller has to start a task that drains the queue.
    pub(crate) fn begin(&self) -> bool {
        let mut queue = self.lock();
        let begins = !queue.running && !queue.ranges.is_empty();
        queue.running |= begins;
        begins
    }

    /// Takes the oldest range. Its bytes have to be released when it is done. On `None` the task ends.
    pub(crate) fn next(&self) -> Option<TapRange> {
        let mut queue = self.lock();
        let next = queue.ranges.pop_front();
        queue.take_off(next.map_or(0, |range| range.bytes));
        queue.running = next.is_some();
        if next.is_none() {
            queue.ranges = VecDeque::new();
        }
        next
    }

    /// Records that the task has ended before the queue was empty.
    pub(crate) fn end(&self) {
        self.lock().running = false;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A panic under this lock means that the queue was already wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TapQueues {
    /// Returns the queue of the sink with this number, of `sinks`.
    pub(super) fn of(&self, number: usize, sinks: usize) -> &TapQueue {
        let queues = || (0..sinks).map(|_| TapQueue::default()).collect();
        &self.0.get_or_init(queues)[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: i64, to: i64, bytes: usize) -> TapRange {
        TapRange::new(LeaderEpoch(1), Offset(from), Offset(to), bytes)
    }

    #[test]
    fn ranges_of_two_epochs_are_not_joined() {
        let (queue, budget) = (TapQueue::default(), TapBudget::new(1 << 30));
        let later = TapRange { epoch: LeaderEpoch(2), ..range(2, 3, 1000) };
        queue.push(range(0, 2, 1000), &budget, false);
        queue.push(later, &budget, false);
        assert_eq!([queue.next(), queue.next()], [Some(range(0, 2, 1000)), Some(later)]);
    }

    #[test]
    fn neighbours_are_joined_and_come_out_in_order() {
        let (queue, budget) = (TapQueue::default(), TapBudget::new(1 << 30));
        for (from, to) in [(0, 2), (2, 5), (7, 8)] {
            assert_eq!(queue.push(range(from, to, 1000), &budget, false), 0);
        }
        assert_eq!(queue.next(), Some(range(0, 5, 2000)));
        assert_eq!(queue.next(), Some(range(7, 8, 1000)));
        assert_eq!(queue.next(), None);
        assert_eq!(budget.waiting(), 3000);
    }

    #[test]
    fn one_task_at_a_time() {
        let (queue, budget) = (TapQueue::default(), TapBudget::new(1 << 30));
        assert!(!queue.begin());
        queue.push(range(0, 1, 1), &budget, false);
        assert!(queue.begin());
        assert!(!queue.begin());
        assert!(queue.next().is_some());
        queue.push(range(1, 2, 1), &budget, false);
        assert!(!queue.begin());
        assert!(queue.next().is_some());
        assert!(queue.next().is_none());
        queue.push(range(2, 3, 1), &budget, false);
        assert!(queue.begin());
    }

    #[test]
    fn the_oldest_is_skipped_when_too_much_waits() {
        let (queue, budget) = (TapQueue::default(), TapBudget::new(600_000));
        assert_eq!(queue.push(range(0, 10, 200_000), &budget, false), 0);
        assert_eq!(queue.push(range(10, 20, 200_000), &budget, false), 0);
        assert_eq!(queue.push(range(20, 30, 200_000), &budget, false), 0);
        assert_eq!(queue.push(range(30, 37, 200_000), &budget, false), 10);
        assert_eq!(queue.next(), Some(range(10, 20, 200_000)));
        // A range that is too large by itself is skipped with all before it.
        assert_eq!(queue.push(range(37, 38, 700_000), &budget, false), 18);
        assert_eq!(queue.next(), None);
        assert_eq!(budget.waiting(), 200_000);
    }

    #[test]
    fn an_open_transaction_does_not_take_the_room_of_other_partitions() {
        let (held, other, budget) = (TapQueue::default(), TapQueue::default(), TapBudget::new(800_000));
        assert_eq!(held.push(range(0, 10, 150_000), &budget, true), 0);
        assert_eq!(held.push(range(10, 20, 150_000), &budget, true), 10);
        for n in 0..4 {
            assert_eq!(other.push(range(n, n + 1, 150_000), &budget, false), 0);
        }
        assert_eq!(held.next(), Some(range(10, 20, 150_000)));
        budget.release(150_000);
        assert_eq!(held.push(range(20, 30, 60_000), &budget, true), 0);
    }

    #[test]
    #[should_panic(expected = "300 go of 256 bytes that wait for a sink")]
    fn no_more_is_released_than_waits() {
        let (queue, budget) = (TapQueue::default(), TapBudget::new(1 << 30));
        queue.push(range(0, 1, 1), &budget, false);
        budget.release(300);
    }

    #[test]
    #[should_panic(expected = "a queue has as many bytes as its ranges")]
    fn a_queue_has_the_bytes_of_its_ranges() {
        let (queue, budget) = (TapQueue::default(), TapBudget::new(1 << 30));
        queue.push(range(0, 1, 1), &budget, false);
        queue.lock().bytes = 10;
        queue.next();
    }
}

#[cfg(all(test, shuttle))]
mod models {
    use std::sync::Arc;

    use super::*;
    use crate::sync::explore;
    use shuttle::thread::{self, JoinHandle};

    /// One partition with one sink.
    struct Model {
        queue: TapQueue,
        budget: TapBudget,
        /// The offset of the next batch. The mutex stands for the partition's lock.
        end: Mutex<i64>,
        delivered: Mutex<Vec<TapRange>>,
        readers: Mutex<Vec<JoinHandle<()>>>,
    }

    /// As `Taps::appended`, under the partition's lock.
    fn append(model: &Arc<Model>) {
        let mut end = model.end.lock().unwrap();
        let range = TapRange::new(LeaderEpoch(1), Offset(*end), Offset(*end + 1), 1 << 20);
        *end += 1;
        assert_eq!(model.queue.push(range, &model.budget, false), 0, "there is room for all");
        if model.queue.begin() {
            let reader = Arc::clone(model);
            model.readers.lock().unwrap().push(thread::spawn(move || read(&reader)));
        }
    }

    /// As the task that reads for a sink.
    fn read(model: &Model) {
        while let Some(range) = model.queue.next() {
            model.delivered.lock().unwrap().push(range);
            model.budget.release(range.bytes);
        }
    }

    #[test]
    fn every_range_is_delivered_once_and_in_order() {
        explore(|| {
            let model = Arc::new(Model {
                queue: TapQueue::default(),
                budget: TapBudget::new(1 << 30),
                end: Mutex::new(0),
                delivered: Mutex::new(Vec::new()),
                readers: Mutex::new(Vec::new()),
            });
            let appenders = (0..2).map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || (0..2).for_each(|_| append(&model)))
            });
            for appender in appenders.collect::<Vec<_>>() {
                appender.join().unwrap();
            }
            loop {
                let Some(reader) = model.readers.lock().unwrap().pop() else { break };
                reader.join().unwrap();
            }
            let delivered = model.delivered.lock().unwrap().clone();
            let offsets: Vec<_> = delivered.iter().flat_map(|range| range.from.0..range.to.0).collect();
            assert_eq!(offsets, [0, 1, 2, 3]);
            assert_eq!(model.budget.waiting(), 0);
        });
    }
}
