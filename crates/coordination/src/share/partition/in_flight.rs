//! The state of each offset, and its changes without a request: locks expire, members leave, the start offset
//! moves.

use std::sync::Arc;

use tailrace_types::{Offset, TimestampMs};

use crate::share::intervals::{Intervals, Run};

/// Maximum number of runs of one share-partition, as a multiple of the records that may be in flight. Beyond
/// it nothing fresh is acquired. It bounds what consumers can make the server store (with at most about 25
/// bytes per run in one record) by acknowledging every other record while one of the first stays acquired.
pub(super) const RUNS_PER_RECORD_LOCK: u64 = 2;

/// The group's current settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupTerms {
    /// Maximum number of records of one partition in flight: neither final nor fresh.
    pub record_locks_max: u32,
    /// Maximum number of deliveries of a record.
    pub delivery_count_limit: i16,
    /// How long a member holds an acquired record, in milliseconds.
    pub lock_duration_ms: i64,
    /// Whether members may renew their locks (KIP-1222).
    pub renewal_allowed: bool,
}

/// The member that holds acquired records, and the expiry of its lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) member: Arc<str>,
    pub(super) until: TimestampMs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordState {
    Available,
    Acquired(Lock),
    Acknowledged,
    Archived,
}

impl RecordState {
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Acknowledged | Self::Archived)
    }
}

/// The state of a run of offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) state: RecordState,
    /// Number of deliveries, including the current one if they are acquired.
    pub(super) delivery_count: i16,
    /// True if the stored state differs.
    pub(super) unsaved: bool,
}

impl InFlight {
    /// Returns the state after a release: available again, unless the delivery limit is reached.
    pub(super) fn released(&self, delivery_count_limit: i16) -> Self {
        let exhausted = self.delivery_count >= delivery_count_limit;
        let state = if exhausted { RecordState::Archived } else { RecordState::Available };
        Self { state, delivery_count: self.delivery_count, unsaved: true }
    }

    pub(super) fn archived(&self) -> Self {
        Self { state: RecordState::Archived, delivery_count: self.delivery_count, unsaved: true }
    }
}

/// The records of one partition in flight to the consumers of one share group. See the module's
/// documentation.
#[derive(Clone, Debug)]
pub struct SharePartition {
    /// Everything before this offset is final.
    pub(super) start: i64,
    /// Everything from this offset on is fresh. All offsets between the two are in `runs`.
    pub(super) end: i64,
    pub(super) runs: Intervals<InFlight>,
    /// No lock expires earlier.
    pub(super) first_expiry: Option<TimestampMs>,
    /// True if the start offset has moved since it was last stored.
    pub(super) start_unsaved: bool,
}

impl SharePartition {
    /// Makes a share-partition that starts at `start`, which has yet to be stored.
    pub fn new(start: Offset) -> Self {
        let runs = Intervals::default();
        Self { start: start.get(), end: start.get(), runs, first_expiry: None, start_unsaved: true }
    }

    /// Returns the first offset that is not final.
    pub fn start(&self) -> Offset {
        Offset(self.start)
    }

    /// Returns the first fresh offset: it was never delivered, nor found to be without a record.
    pub fn end(&self) -> Offset {
        Offset(self.end)
    }

    /// Returns the number of offsets that are neither final nor fresh.
    pub fn in_flight(&self) -> u64 {
        self.runs.iter().filter(|run| !run.value.state.is_final()).map(|run| run.count()).sum()
    }

    /// Returns the number of final offsets after the start offset: their delivery is complete (KIP-1226).
    pub fn delivery_complete_count(&self) -> u64 {
        self.runs.iter().filter(|run| run.value.state.is_final()).map(|run| run.count()).sum()
    }

    /// Reports whether no member holds a record.
    pub fn is_idle(&self) -> bool {
        !self.runs.iter().any(|run| matches!(run.value.state, RecordState::Acquired(_)))
    }

    /// Returns the time at which [`SharePartition::tick`] must be called next. It may be too early, but never
    /// too late.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.first_expiry
    }

    /// Releases records whose lock has expired. Returns true if there were any.
    pub fn tick(&mut self, now: TimestampMs, terms: &GroupTerms) -> bool {
        if self.first_expiry.is_none_or(|expiry| expiry > now) {
            return false;
        }
        let released = self.release_where(terms.delivery_count_limit, |lock| lock.until <= now);
        let lock_ends = |run: Run<&InFlight>| match &run.value.state {
            RecordState::Acquired(lock) => Some(lock.until),
            _ => None,
        };
        self.first_expiry = self.runs.iter().filter_map(lock_ends).min();
        released
    }

    /// Releases all records of a member that has left, or whose session or connection has ended. Returns true
    /// if it held any.
    pub fn release_member(&mut self, member: &str, terms: &GroupTerms) -> bool {
        self.release_where(terms.delivery_count_limit, |lock| &*lock.member == member)
    }

    fn release_where(&mut self, limit: i16, ends: impl Fn(&Lock) -> bool) -> bool {
        let mut released = false;
        self.runs.change(self.start, i64::MAX, |run| match &run.state {
            RecordState::Acquired(lock) if ends(lock) => {
                released = true;
                Some(run.released(limit))
            }
            _ => None,
        });
        self.settle();
        released
    }

    /// Handles the deletion of records before `log_start`. Returns true if that changed anything.
    pub fn log_start_moved(&mut self, log_start: Offset) -> bool {
        if log_start.get() <= self.start {
            return false;
        }
        self.start = log_start.get();
        self.end = self.end.max(self.start);
        self.start_unsaved = true;
        self.settle();
        true
    }

    /// Moves the start offset past the final records, and forgets everything before it.
    pub(super) fn settle(&mut self) {
        let before = self.start;
        while let Some(run) = self.runs.first() {
            if run.last >= self.start && !run.value.state.is_final() {
                break;
            }
            self.start = self.start.max(run.last + 1);
            let below = run.last + 1;
            self.runs.remove_below(below);
        }
        self.runs.remove_below(self.start);
        self.start_unsaved |= self.start != before;
        let (start, end) = (self.start, self.end);
        assert!(start <= end, "a share-partition that begins at {start} and is fresh from {end} on");
    }
}
