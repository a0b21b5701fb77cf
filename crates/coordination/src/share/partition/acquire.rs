//! Acquisition of records for a member, out of those read from the log.

use std::sync::Arc;

use tailrace_types::{Offset, TimestampMs};

use super::in_flight::{GroupTerms, InFlight, Lock, RUNS_PER_RECORD_LOCK, RecordState, SharePartition};

/// How the number of records is limited (KIP-1206).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireMode {
    /// Whole batches of the log are acquired. The limit may be exceeded up to the end of a batch.
    BatchOptimized,
    /// The limit is never exceeded.
    RecordLimit,
}

/// The member, the limits, and the mode of an acquisition.
#[derive(Clone, Debug)]
pub struct AcquireTerms {
    /// The member.
    pub member: Arc<str>,
    /// Maximum number of records, see [`AcquireMode`].
    pub records_max: u64,
    /// Adjacent acquired batches are joined until they have this many records.
    pub batch_size: u64,
    /// The meaning of `records_max`.
    pub mode: AcquireMode,
}

/// A batch of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchedBatch {
    /// Its first offset.
    pub first: Offset,
    /// Its last offset, inclusive.
    pub last: Offset,
    /// False if the batch must not be delivered: a control batch, one without records, or an aborted one if
    /// only committed records are delivered.
    pub visible: bool,
}

/// The result of reading the log.
#[derive(Clone, Copy, Debug)]
pub struct Fetched<'a> {
    /// The offset at which the read started, from [`SharePartition::next_fetch`].
    pub from: Offset,
    /// The batches found, ascending. Offsets between them have no records any more.
    pub batches: &'a [FetchedBatch],
}

/// A batch of records that the member has acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquiredBatch {
    /// First offset.
    pub first: Offset,
    /// Last offset, inclusive.
    pub last: Offset,
    /// Their number of deliveries, including this one.
    pub delivery_count: i16,
}

/// A stretch of the read offsets: a batch, or a gap.
#[derive(Clone, Copy)]
struct Stretch {
    first: i64,
    last: i64,
    visible: bool,
}

/// An acquisition in progress.
struct Taking<'a> {
    terms: &'a AcquireTerms,
    group: &'a GroupTerms,
    until: TimestampMs,
    /// The number of records that may still be taken.
    left: u64,
    taken: Vec<AcquiredBatch>,
    /// True if no more records are to be taken.
    done: bool,
}

impl Taking<'_> {
    fn lock(&self) -> RecordState {
        RecordState::Acquired(Lock { member: Arc::clone(&self.terms.member), until: self.until })
    }

    fn take(&mut self, first: i64, last: i64, delivery_count: i16) {
        let taken = last.abs_diff(first) + 1;
        // Whole batches may exceed the limit.
        let may_exceed = self.terms.mode == AcquireMode::BatchOptimized;
        assert!(taken <= self.left || may_exceed, "{taken} records are taken, and {} may be", self.left);
        assert!(delivery_count > 0, "a delivery with the number {delivery_count}");
        self.left = self.left.saturating_sub(taken);
        if let Some(before) = self.taken.last_mut() {
            let count = before.last.get().abs_diff(before.first.get()) + 1;
            let is_small = self.terms.mode == AcquireMode::RecordLimit || count < self.terms.batch_size;
            let continues = before.last.get() + 1 == first && before.delivery_count == delivery_count;
            if continues && is_small {
                before.last = Offset(last);
                return;
            }
        }
        self.taken.push(AcquiredBatch { first: Offset(first), last: Offset(last), delivery_count });
    }

    /// Returns the last offset to take of `first..=last`, at most `most` records.
    fn cut(&self, first: i64, last: i64, most: u64) -> i64 {
        let most = match self.terms.mode {
            AcquireMode::RecordLimit => most.min(self.left),
            AcquireMode::BatchOptimized => most,
        };
        // A limit beyond all offsets is no limit.
        last.min(first.saturating_add(i64::try_from(most).unwrap_or(i64::MAX)) - 1)
    }
}

impl SharePartition {
    /// Returns the offset at which to read next: the first record that may be acquired. `None` if there is
    /// none until a member acknowledges or releases something.
    pub fn next_fetch(&self, terms: &GroupTerms) -> Option<Offset> {
        let available = self.runs.iter().find(|run| run.value.state == RecordState::Available);
        match available {
            Some(run) => Some(Offset(run.first)),
            None => (self.room(terms) > 0).then_some(Offset(self.end)),
        }
    }

    /// Returns the runs of offsets that could be acquired now, ascending, each as its first offset and one
    /// past its last. If fresh records could be acquired, the last run has no end.
    pub fn acquirable(&self, terms: &GroupTerms) -> Vec<(Offset, Offset)> {
        let available = self.runs.iter().filter(|run| run.value.state == RecordState::Available);
        let mut runs: Vec<_> = available.map(|run| (Offset(run.first), Offset(run.last + 1))).collect();
        if self.room(terms) > 0 {
            runs.push((Offset(self.end), Offset(i64::MAX)));
        }
        runs
    }

    /// Returns the number of fresh records that may still be acquired.
    fn room(&self, terms: &GroupTerms) -> u64 {
        let locks = u64::from(terms.record_locks_max);
        if self.runs.len() as u64 >= locks.saturating_mul(RUNS_PER_RECORD_LOCK) {
            return 0;
        }
        locks.saturating_sub(self.in_flight())
    }

    /// Acquires records for a member, out of those read from the log, in the order of their offsets. Batches
    /// that are not visible, and offsets without a record, are archived on the way.
    ///
    /// Records that were delivered often are acquired alone or a few at a time, so that a record that makes
    /// consumers fail does not take its neighbors with it. From half of the delivery limit on (but not before
    /// the second delivery), each delivery halves the number of records. At the last delivery it is one.
    ///
    /// Afterwards, the last offset that was acquired or skipped is below [`SharePartition::end`]. An empty
    /// result may still mean progress: then [`SharePartition::next_fetch`] has moved.
    ///
    /// # Panics
    /// If the read started beyond [`SharePartition::end`].
    pub fn acquire(
        &mut self,
        terms: &AcquireTerms,
        group: &GroupTerms,
        fetched: Fetched<'_>,
        now: TimestampMs,
    ) -> Vec<AcquiredBatch> {
        self.tick(now, group);
        let until = TimestampMs(now.0.saturating_add(group.lock_duration_ms.max(1)));
        let left = terms.records_max;
        let mut taking = Taking { terms, group, until, left, taken: Vec::new(), done: left == 0 };
        let mut next = fetched.from.get().max(self.start);
        assert!(
            next <= self.end,
            "records from {next} on were read, but those from {} on are fresh",
            self.end
        );
        for batch in fetched.batches {
            let (first, last) = (batch.first.get(), batch.last.get());
            if last < next {
                continue;
            }
            if first > next {
                self.pass(Stretch { first: next, last: first - 1, visible: false }, &mut taking);
            }
            self.pass(Stretch { first: first.max(next), last, visible: batch.visible }, &mut taking);
            if taking.done {
                break;
            }
            next = last + 1;
        }
        if !taking.taken.is_empty() {
            self.first_expiry = Some(self.first_expiry.map_or(until, |expiry| expiry.min(until)));
        }
        self.settle();
        taking.taken
    }

    fn pass(&mut self, stretch: Stretch, taking: &mut Taking<'_>) {
        if taking.done {
            return;
        }
        let Stretch { first, last, visible } = stretch;
        let known_last = last.min(self.end - 1);
        if !visible {
            let archive = |run: &InFlight| (run.state == RecordState::Available).then(|| run.archived());
            self.runs.change(first, known_last, archive);
            if last >= self.end {
                let archived = InFlight { state: RecordState::Archived, delivery_count: 0, unsaved: true };
                self.append(last, archived);
            }
            return;
        }
        self.take_known(first, known_last, taking);
        if last >= self.end && !taking.done {
            self.take_fresh(last, taking);
        }
        taking.done |= taking.left == 0;
    }

    fn append(&mut self, last: i64, value: InFlight) {
        self.runs.set(self.end, last, value);
        self.end = last + 1;
    }

    /// Takes the available records in `first..=last`, all of it before the end.
    fn take_known(&mut self, first: i64, last: i64, taking: &mut Taking<'_>) {
        let available: Vec<(i64, i64, InFlight)> = self
            .runs
            .within(first, last)
            .filter(|run| run.value.state == RecordState::Available)
            .map(|run| (run.first, run.last, run.value.clone()))
            .collect();
        let limit = taking.group.delivery_count_limit;
        for (first, last, run) in available {
            if taking.done || (taking.terms.mode == AcquireMode::RecordLimit && taking.left == 0) {
                return;
            }
            if run.delivery_count >= limit {
                // The limit has been lowered in the meantime.
                self.runs.set(first, last, run.archived());
                continue;
            }
            let few = few_of(run.delivery_count, limit, last.abs_diff(first) + 1);
            if few.is_some() && !taking.taken.is_empty() {
                taking.done = true;
                return;
            }
            let last = taking.cut(first, last, few.unwrap_or(u64::MAX));
            let delivery_count = run.delivery_count + 1;
            self.runs.set(first, last, InFlight { state: taking.lock(), delivery_count, ..run });
            taking.take(first, last, delivery_count);
            taking.done |= few.is_some();
        }
    }

    /// Takes fresh records up to `last`, or as many of them as the limits allow, and is done then.
    fn take_fresh(&mut self, last: i64, taking: &mut Taking<'_>) {
        let room = self.room(taking.group);
        let first = self.end;
        let taken_last = match taking.terms.mode {
            AcquireMode::RecordLimit => taking.cut(first, last, room),
            AcquireMode::BatchOptimized => last,
        };
        taking.done |= room == 0 || taken_last < last;
        if room == 0 || taken_last < first {
            return;
        }
        let (fresh, may_exceed) =
            (taken_last.abs_diff(first) + 1, taking.terms.mode == AcquireMode::BatchOptimized);
        assert!(fresh <= room || may_exceed, "{fresh} more records in flight, and there is room for {room}");
        self.append(taken_last, InFlight { state: taking.lock(), delivery_count: 1, unsaved: false });
        taking.take(first, taken_last, 1);
    }
}

/// Returns how many records of a run are acquired at once, after this many deliveries. `None` for all.
fn few_of(delivery_count: i16, limit: i16, count: u64) -> Option<u64> {
    let from = ((limit + 1) / 2).max(2);
    if delivery_count < from {
        return None;
    }
    if delivery_count + 1 >= limit {
        return Some(1);
    }
    let halvings = u32::from((delivery_count - from + 1).unsigned_abs());
    Some(count.checked_shr(halvings).unwrap_or(0).max(1))
}
