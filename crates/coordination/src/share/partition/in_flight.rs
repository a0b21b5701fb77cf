//! What is known of each offset, and how it changes by itself: locks end, members leave, the start moves on.

use std::sync::Arc;

use tailrace_types::{Offset, TimestampMs};

use crate::share::intervals::{Intervals, Run};

/// Runs of one share-partition beyond which nothing fresh is acquired, as a multiple of the records that may be in
/// flight. It bounds what consumers can make the server remember (and keep, in one record of at most about 25 bytes per
/// run) by acknowledging every other record while one of the first stays acquired.
pub(super) const RUNS_PER_RECORD_LOCK: u64 = 2;

/// What holds for the group at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupTerms {
    /// Records of one partition that may be in flight: neither final nor fresh.
    pub record_locks_max: u32,
    /// How often a record may be delivered.
    pub delivery_count_limit: i16,
    /// How long an acquired record is the member's, in milliseconds.
    pub lock_duration_ms: i64,
    /// Whether members may prolong it (KIP-1222).
    pub renewal_allowed: bool,
}

/// Who holds acquired records, and until when.
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

/// What is known of a run of offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) state: RecordState,
    /// Deliveries, with the present one if they are acquired.
    pub(super) delivery_count: i16,
    /// What is kept says something else.
    pub(super) unsaved: bool,
}

impl InFlight {
    /// Available again, unless that was the last delivery they could have.
    pub(super) fn released(&self, delivery_count_limit: i16) -> Self {
        let exhausted = self.delivery_count >= delivery_count_limit;
        let state = if exhausted { RecordState::Archived } else { RecordState::Available };
        Self { state, delivery_count: self.delivery_count, unsaved: true }
    }

    pub(super) fn archived(&self) -> Self {
        Self { state: RecordState::Archived, delivery_count: self.delivery_count, unsaved: true }
    }
}

/// The records of one partition on their way to the consumers of one share group. See the module's documentation.
#[derive(Clone, Debug)]
pub struct SharePartition {
    /// Everything before is final.
    pub(super) start: i64,
    /// Everything from here on is fresh. Offsets between the two are all in `runs`.
    pub(super) end: i64,
    pub(super) runs: Intervals<InFlight>,
    /// No lock ends before.
    pub(super) first_expiry: Option<TimestampMs>,
    /// The start offset moved since it was last kept.
    pub(super) start_unsaved: bool,
}

impl SharePartition {
    /// One that begins at `start`, which is still to be kept.
    pub fn new(start: Offset) -> Self {
        let runs = Intervals::default();
        Self { start: start.get(), end: start.get(), runs, first_expiry: None, start_unsaved: true }
    }

    /// First offset that is not final.
    pub fn start(&self) -> Offset {
        Offset(self.start)
    }

    /// First offset that was never delivered, nor found to be without a record.
    pub fn end(&self) -> Offset {
        Offset(self.end)
    }

    /// Offsets that are neither final nor fresh.
    pub fn in_flight(&self) -> u64 {
        self.runs.iter().filter(|run| !run.value.state.is_final()).map(|run| run.count()).sum()
    }

    /// Offsets from the start on that are final all the same: delivery is complete for them (KIP-1226).
    pub fn delivery_complete_count(&self) -> u64 {
        self.runs.iter().filter(|run| run.value.state.is_final()).map(|run| run.count()).sum()
    }

    /// True if nobody holds a record.
    pub fn is_idle(&self) -> bool {
        !self.runs.iter().any(|run| matches!(run.value.state, RecordState::Acquired(_)))
    }

    /// When [`SharePartition::tick`] wants to be called next. May be too early, never too late.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.first_expiry
    }

    /// Releases records whose lock has ended. True if there were any.
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

    /// Releases everything that a member holds: it left, or its session or connection ended. True if it held any.
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

    /// Records before `log_start` were deleted. True if that changed anything.
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

    /// Moves the start offset behind what is final, and forgets what lies before it.
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
