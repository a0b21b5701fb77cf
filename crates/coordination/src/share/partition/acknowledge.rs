//! Acknowledgements by members of records that they hold.

use tailrace_types::{Offset, TimestampMs};

use super::in_flight::{GroupTerms, InFlight, Lock, RecordState, SharePartition};

/// A member's result for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcknowledgeKind {
    /// There is no record at this offset.
    Gap,
    /// The record was processed.
    Accept,
    /// The record is to be delivered again.
    Release,
    /// The record is not to be delivered again.
    Reject,
    /// The record is still being processed (KIP-1222).
    Renew,
}

impl AcknowledgeKind {
    /// Returns the kind with Kafka's number.
    pub const fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Gap),
            1 => Some(Self::Accept),
            2 => Some(Self::Release),
            3 => Some(Self::Reject),
            4 => Some(Self::Renew),
            _ => None,
        }
    }
}

/// A member's results for a run of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// First offset.
    pub first: Offset,
    /// Last offset, inclusive.
    pub last: Offset,
    /// One kind for all offsets, or one for each.
    pub kinds: Vec<AcknowledgeKind>,
}

/// Why an acknowledgement was refused. It has no effect then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeError {
    /// Offsets and kinds do not match.
    #[error("the acknowledgement of offsets {first} to {last} is malformed")]
    Malformed {
        /// First offset.
        first: Offset,
        /// Last offset.
        last: Offset,
    },
    /// The offsets were never delivered.
    #[error("offset {offset} is beyond the acquired records")]
    Beyond {
        /// The last acknowledged offset.
        offset: Offset,
    },
    /// The member does not hold a record: its lock has expired, another member has it, or it was acknowledged
    /// before.
    #[error("offset {offset} is not acquired by the member")]
    NotAcquired {
        /// The first such offset.
        offset: Offset,
    },
    /// The group's configuration does not let members renew locks.
    #[error("renewing acquisition locks is not allowed in this group")]
    RenewalForbidden,
}

impl SharePartition {
    /// Applies a member's acknowledgements: all of them or, with an error, none. Offsets before the start
    /// offset are final already and skipped.
    ///
    /// Returns true if records became available again.
    ///
    /// # Errors
    /// See [`AcknowledgeError`].
    pub fn acknowledge(
        &mut self,
        member: &str,
        batches: &[Acknowledgement],
        terms: &GroupTerms,
        now: TimestampMs,
    ) -> Result<bool, AcknowledgeError> {
        let mut released = self.tick(now, terms);
        self.check(member, batches, terms)?;
        let until = TimestampMs(now.0.saturating_add(terms.lock_duration_ms.max(1)));
        for batch in batches {
            for (first, last, kind) in same_kinds(batch) {
                released |= kind == AcknowledgeKind::Release;
                self.runs.change(first.max(self.start), last, |run| Some(after(run, kind, terms, until)));
            }
        }
        self.settle();
        Ok(released)
    }

    fn check(
        &self,
        member: &str,
        batches: &[Acknowledgement],
        terms: &GroupTerms,
    ) -> Result<(), AcknowledgeError> {
        let mut from = i64::MIN;
        for batch in batches {
            let (first, last) = (batch.first.get(), batch.last.get());
            let is_range = from.max(0) <= first && first <= last && last < i64::MAX;
            let fits = || batch.kinds.len() == 1 || batch.kinds.len() as u64 == last.abs_diff(first) + 1;
            if !is_range || !fits() {
                return Err(AcknowledgeError::Malformed { first: batch.first, last: batch.last });
            }
            from = last + 1;
            if !terms.renewal_allowed && batch.kinds.contains(&AcknowledgeKind::Renew) {
                return Err(AcknowledgeError::RenewalForbidden);
            }
            if last < self.start {
                continue;
            }
            if last >= self.end {
                return Err(AcknowledgeError::Beyond { offset: batch.last });
            }
            let holds =
                |run: &InFlight| matches!(&run.state, RecordState::Acquired(lock) if &*lock.member == member);
            if let Some(run) = self.runs.within(first.max(self.start), last).find(|run| !holds(run.value)) {
                return Err(AcknowledgeError::NotAcquired { offset: Offset(run.first) });
            }
        }
        Ok(())
    }
}

/// Splits the batch into runs of offsets with the same kind.
fn same_kinds(batch: &Acknowledgement) -> Vec<(i64, i64, AcknowledgeKind)> {
    let first = batch.first.get();
    if let [kind] = *batch.kinds {
        return vec![(first, batch.last.get(), kind)];
    }
    let mut runs: Vec<(i64, i64, AcknowledgeKind)> = Vec::new();
    for (offset, &kind) in (first..).zip(&batch.kinds) {
        match runs.last_mut() {
            Some(run) if run.2 == kind => run.1 = offset,
            _ => runs.push((offset, offset, kind)),
        }
    }
    runs
}

fn after(run: &InFlight, kind: AcknowledgeKind, terms: &GroupTerms, until: TimestampMs) -> InFlight {
    let is = |state| InFlight { state, delivery_count: run.delivery_count, unsaved: true };
    match (kind, &run.state) {
        (AcknowledgeKind::Accept, _) => is(RecordState::Acknowledged),
        (AcknowledgeKind::Reject | AcknowledgeKind::Gap, _) => is(RecordState::Archived),
        (AcknowledgeKind::Release, _) => run.released(terms.delivery_count_limit),
        (AcknowledgeKind::Renew, RecordState::Acquired(lock)) => {
            let lock = Lock { member: std::sync::Arc::clone(&lock.member), until };
            InFlight { state: RecordState::Acquired(lock), ..run.clone() }
        }
        (AcknowledgeKind::Renew, _) => run.clone(),
    }
}
