//! Messages that wait for acknowledgements, their deadlines, and the order in which they are delivered again.
//!
//! A message has 24 bytes here, and 16 in the heap of deadlines. Messages come in the order of their
//! sequences, so a sorted queue holds them: one that is done leaves a gap, and gaps are closed when they are
//! the majority. Heap and redelivery queue are lazy in the same way: what does not fit the message's state is
//! skipped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::ranges::Range;

/// 42 bits of milliseconds reach to the year 2109.
const DEADLINE_BITS: u32 = 42;
const DEADLINE_MAX: u64 = (1 << DEADLINE_BITS) - 1;
/// Counts of deliveries stop here.
pub(super) const DELIVERIES_MAX: u32 = (1 << 18) - 1;
/// Gaps and stale entries that are always allowed.
const SLACK: usize = 32;
/// Steps of a search for neighbours.
const STEPS_MAX: usize = 64;
/// An empty queue that is larger gives its memory back.
const IDLE_CAPACITY: usize = 64;

/// What a pending message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// An acknowledgement, until its deadline.
    Delivered,
    /// The end of a delay that a client has asked for.
    Delayed,
    /// To be delivered again.
    Queued,
}

/// A pending message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) seq: u64,
    /// The number of its first delivery.
    pub(super) consumer_seq: u64,
    pub(super) deliveries: u32,
    pub(super) deadline_ms: u64,
    pub(super) stage: Stage,
}

/// A [`Held`] in 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Packed {
    seq: u64,
    consumer_seq: u64,
    /// From the top: 42 bits deadline, 18 bits deliveries, 1 bit "is done", 1 bit "not in the snapshot", 2
    /// bits stage.
    bits: u64,
}

impl Packed {
    const DONE: u64 = 8;
    const NEW: u64 = 4;

    fn pack(held: &Held, is_new: bool) -> Self {
        let deadline = held.deadline_ms.min(DEADLINE_MAX) << (64 - DEADLINE_BITS);
        let deliveries = u64::from(held.deliveries.min(DELIVERIES_MAX)) << 4;
        let stage = match held.stage {
            Stage::Delivered => 0,
            Stage::Delayed => 1,
            Stage::Queued => 2,
        };
        let new = if is_new { Self::NEW } else { 0 };
        Self { seq: held.seq, consumer_seq: held.consumer_seq, bits: deadline | deliveries | new | stage }
    }

    fn held(self) -> Held {
        let stage = match self.bits & 3 {
            0 => Stage::Delivered,
            1 => Stage::Delayed,
            _ => Stage::Queued,
        };
        let deliveries = u32::try_from(self.bits >> 4 & u64::from(DELIVERIES_MAX)).unwrap_or(DELIVERIES_MAX);
        let deadline_ms = self.bits >> (64 - DEADLINE_BITS);
        Held { seq: self.seq, consumer_seq: self.consumer_seq, deliveries, deadline_ms, stage }
    }

    fn is_done(self) -> bool {
        self.bits & Self::DONE != 0
    }
}

/// All pending messages of a consumer.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    /// Ascending. The first one is never done.
    entries: VecDeque<Packed>,
    live: usize,
    redelivered: usize,
    deadlines: BinaryHeap<Reverse<(u64, u64)>>,
    queue: VecDeque<u64>,
    queued: usize,
}

impl Pending {
    pub(super) fn len(&self) -> usize {
        self.live
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns how many were delivered more than once.
    pub(super) fn redelivered(&self) -> usize {
        self.redelivered
    }

    /// Returns how many are to be delivered again.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    pub(super) fn first(&self) -> Option<Held> {
        self.entries.front().map(|entry| entry.held())
    }

    pub(super) fn get(&self, seq: u64) -> Option<Held> {
        self.find(seq).map(|at| self.entries[at].held())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Held> + '_ {
        self.entries.iter().filter(|entry| !entry.is_done()).map(|entry| entry.held())
    }

    /// Returns those with a number of deliveries that is not in the last snapshot.
    pub(super) fn iter_new(&self) -> impl Iterator<Item = Held> + Clone + '_ {
        let new = |entry: &&Packed| !entry.is_done() && entry.bits & Packed::NEW != 0;
        self.entries.iter().filter(new).map(|entry| entry.held())
    }

    /// Notes that a snapshot has them all.
    pub(super) fn mark_old(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.bits &= !Packed::NEW);
    }

    fn find(&self, seq: u64) -> Option<usize> {
        let at = self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        (!self.entries[at].is_done()).then_some(at)
    }

    /// Adds a message.
    ///
    /// # Panics
    /// If its sequence is not above all that were added since the last [`Pending::clear`].
    pub(super) fn push(&mut self, held: Held) {
        let held = Held { deadline_ms: held.deadline_ms.min(DEADLINE_MAX), ..held };
        if let Some(last) = self.entries.back() {
            assert!(last.seq < held.seq, "{} is added after {}", held.seq, last.seq);
        }
        self.entries.push_back(Packed::pack(&held, true));
        self.live += 1;
        self.count(&held, true);
        self.arm(&held);
    }

    /// Adds `held` to the counters, or takes it off.
    fn count(&mut self, held: &Held, is_added: bool) {
        let redelivered = usize::from(held.deliveries > 1);
        let queued = usize::from(held.stage == Stage::Queued);
        if is_added {
            self.redelivered += redelivered;
            self.queued += queued;
        } else {
            self.redelivered -= redelivered;
            self.queued -= queued;
        }
    }

    fn arm(&mut self, held: &Held) {
        if held.stage == Stage::Queued {
            self.queue.push_back(held.seq);
            if self.queue.len() > 2 * self.queued + SLACK {
                self.rebuild_queue();
            }
            return;
        }
        self.deadlines.push(Reverse((held.deadline_ms, held.seq)));
        if self.deadlines.len() > 2 * self.live + SLACK {
            let armed = self.iter().filter(|held| held.stage != Stage::Queued);
            self.deadlines = armed.map(|held| Reverse((held.deadline_ms, held.seq))).collect();
        }
    }

    /// Drops entries that are not queued any more.
    fn rebuild_queue(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|seq| self.is_queued(*seq));
        self.queue = queue;
    }

    fn is_queued(&self, seq: u64) -> bool {
        self.get(seq).is_some_and(|held| held.stage == Stage::Queued)
    }

    /// Replaces a pending message's state. Nothing if it is not pending.
    pub(super) fn set(&mut self, held: Held) {
        let Some(at) = self.find(held.seq) else { return };
        let held = Held { deadline_ms: held.deadline_ms.min(DEADLINE_MAX), ..held };
        let before = self.entries[at].held();
        let unsaved = self.entries[at].bits & Packed::NEW != 0;
        let is_new = unsaved || before.deliveries != held.deliveries || held.stage == Stage::Delayed;
        self.entries[at] = Packed::pack(&held, is_new);
        self.count(&before, false);
        self.count(&held, true);
        if before.stage == Stage::Queued && held.stage != Stage::Queued {
            self.unqueue(held.seq);
        }
        let moved = before.deadline_ms != held.deadline_ms || before.stage != held.stage;
        if moved {
            self.arm(&held);
        }
    }

    /// Takes a message out of the queue. It is the first one, but for a delay that a client asks for late.
    fn unqueue(&mut self, seq: u64) {
        if self.queue.front() == Some(&seq) {
            self.queue.pop_front();
        } else {
            self.queue.retain(|queued| *queued != seq);
        }
    }

    /// Removes a message that is done.
    pub(super) fn remove(&mut self, seq: u64) -> Option<Held> {
        let at = self.find(seq)?;
        let held = self.entries[at].held();
        self.entries[at].bits |= Packed::DONE;
        self.live -= 1;
        self.count(&held, false);
        while self.entries.front().is_some_and(|entry| entry.is_done()) {
            self.entries.pop_front();
        }
        while self.entries.back().is_some_and(|entry| entry.is_done()) {
            self.entries.pop_back();
        }
        if self.entries.len() > 2 * self.live + SLACK {
            self.entries.retain(|entry| !entry.is_done());
        }
        if self.live == 0 {
            self.clear();
        }
        Some(held)
    }

    /// Forgets everything, and keeps memory for a few.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.deadlines.clear();
        self.queue.clear();
        if self.entries.capacity() > IDLE_CAPACITY {
            self.entries = VecDeque::new();
        }
        if self.deadlines.capacity() > IDLE_CAPACITY {
            self.deadlines = BinaryHeap::new();
        }
        if self.queue.capacity() > IDLE_CAPACITY {
            self.queue = VecDeque::new();
        }
        (self.live, self.redelivered, self.queued) = (0, 0, 0);
    }

    /// Returns sequences around this one that are certainly not pending: as far as its pending neighbours, or
    /// as far as a few steps lead. `position` is where they end if nothing comes behind.
    pub(super) fn gap(&self, seq: u64, position: u64) -> Range {
        let at = self.entries.partition_point(|entry| entry.seq < seq);
        let mut first = seq;
        for step in 1..=STEPS_MAX.min(at) {
            let entry = self.entries[at - step];
            first = entry.seq;
            if !entry.is_done() {
                first += 1;
                break;
            }
        }
        let mut last = position.max(seq);
        for step in 0..STEPS_MAX.min(self.entries.len() - at) {
            let entry = self.entries[at + step];
            last = entry.seq;
            if entry.seq != seq && !entry.is_done() {
                last -= 1;
                break;
            }
            if at + step + 1 == self.entries.len() {
                last = position.max(seq);
            }
        }
        Range { first, last: last.max(seq) }
    }

    /// Returns the earliest deadline.
    pub(super) fn next_deadline(&mut self) -> Option<u64> {
        while let Some(&Reverse((deadline_ms, seq))) = self.deadlines.peek() {
            if self.is_armed(deadline_ms, seq) {
                return Some(deadline_ms);
            }
            self.deadlines.pop();
        }
        None
    }

    fn is_armed(&self, deadline_ms: u64, seq: u64) -> bool {
        self.get(seq).is_some_and(|held| held.deadline_ms == deadline_ms && held.stage != Stage::Queued)
    }

    /// Returns those whose deadline has passed, in the order of their sequences. The caller must queue or
    /// remove each of them.
    pub(super) fn expired(&mut self, now_ms: u64) -> Vec<u64> {
        let mut expired = Vec::new();
        while self.next_deadline().is_some_and(|deadline_ms| deadline_ms <= now_ms) {
            if let Some(Reverse((_, seq))) = self.deadlines.pop() {
                expired.push(seq);
            }
        }
        expired.sort_unstable();
        // The same message can stand twice with the same deadline.
        expired.dedup();
        expired
    }

    /// Returns the message to deliver again next, and leaves it where it is.
    pub(super) fn next_queued(&mut self) -> Option<Held> {
        while let Some(&seq) = self.queue.front() {
            match self.get(seq) {
                Some(held) if held.stage == Stage::Queued => return Some(held),
                _ => self.queue.pop_front(),
            };
        }
        None
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Packed>()
            + self.deadlines.capacity() * size_of::<(u64, u64)>()
            + self.queue.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(seq: u64) -> Held {
        Held { seq, consumer_seq: seq, deliveries: 1, deadline_ms: 1_000 + seq, stage: Stage::Delivered }
    }

    fn of(seqs: impl IntoIterator<Item = u64>) -> Pending {
        let mut pending = Pending::default();
        seqs.into_iter().for_each(|seq| pending.push(held(seq)));
        pending
    }

    #[test]
    fn an_entry_comes_back_as_it_was() {
        for stage in [Stage::Delivered, Stage::Delayed, Stage::Queued] {
            let entry = Held { seq: u64::MAX, consumer_seq: 9, deliveries: 77, deadline_ms: 1 << 41, stage };
            assert_eq!(Packed::pack(&entry, true).held(), entry);
        }
        let large = Held { deliveries: u32::MAX, deadline_ms: u64::MAX, ..held(1) };
        let packed = Packed::pack(&large, false);
        assert_eq!(packed.held().deliveries, DELIVERIES_MAX);
        assert!(!packed.is_done());
    }

    #[test]
    fn the_gap_around_a_message_ends_at_its_neighbours() {
        let mut pending = of([3, 5, 9, 12]);
        assert_eq!(pending.gap(5, 20), Range { first: 4, last: 8 });
        assert_eq!(pending.gap(12, 20), Range { first: 10, last: 20 });
        assert_eq!(pending.gap(3, 20), Range { first: 3, last: 4 });
        pending.remove(9);
        assert_eq!(pending.gap(9, 20), Range { first: 6, last: 11 });
        assert_eq!(pending.gap(5, 20), Range { first: 4, last: 11 });
    }

    #[test]
    fn stale_deadlines_and_queue_entries_do_not_pile_up() {
        let mut pending = of(1..=10);
        for round in 0..10_000 {
            let seq = round % 10 + 1;
            pending.set(Held { stage: Stage::Queued, ..held(seq) });
            pending.set(Held { stage: Stage::Delayed, deadline_ms: 5_000 + round, ..held(seq) });
        }
        assert!(pending.bytes() < 8 * 1024, "{} bytes", pending.bytes());
        assert_eq!(pending.expired(100_000), (1..=10).collect::<Vec<_>>());
    }

    #[test]
    fn a_thousand_pending_messages_have_about_forty_bytes_each() {
        let mut pending = of(1..=1024);
        assert!(pending.bytes() <= 1024 * 40, "{} bytes", pending.bytes());
        for seq in 1..=1024 {
            assert!(pending.remove(seq).is_some());
        }
        assert!(pending.bytes() <= IDLE_CAPACITY * 40, "{} bytes when idle", pending.bytes());
    }
}
