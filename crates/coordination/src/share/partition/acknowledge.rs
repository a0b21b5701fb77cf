//! What members say about records they hold.

use tailrace_types::{Offset, TimestampMs};

use super::in_flight::{GroupTerms, InFlight, Lock, RecordState, SharePartition};

/// What a member says about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcknowledgeKind {
    /// There is no record at this offset.
    Gap,
    /// Done.
    Accept,
    /// Somebody else shall try.
    Release,
    /// Nobody shall try again.
    Reject,
    /// Still at it (KIP-1222).
    Renew,
}

impl AcknowledgeKind {
    /// The kind of Kafka's number.
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

/// What a member says about a run of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// First offset.
    pub first: Offset,
    /// Last offset, inclusive.
    pub last: Offset,
    /// One kind for all, or one for each offset.
    pub kinds: Vec<AcknowledgeKind>,
}

/// Why an acknowledgement was refused. Nothing of it counts then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeError {
    /// Offsets and kinds that do not fit together.
    #[error("the acknowledgement of offsets {first} to {last} is malformed")]
    Malformed {
        /// First offset.
        first: Offset,
        /// Last offset.
        last: Offset,
    },
    /// Offsets that were never delivered.
    #[error("offset {offset} lies beyond what was acquired")]
    Beyond {
        /// The last offset named.
        offset: Offset,
    },
    /// A record that the member does not hold: its lock has ended, another member has it, or it was acknowledged before.
    #[error("offset {offset} is not acquired by the member")]
    NotAcquired {
        /// The first such offset.
        offset: Offset,
    },
    /// The group's configuration does not let members prolong their locks.
    #[error("renewing acquisition locks is not allowed in this group")]
    RenewalForbidden,
}

impl SharePartition {
    /// Takes over what a member says about records it holds: all of it or, with an error, nothing. What lies before the
    /// start offset is final already and passed over.
    ///
    /// True if records became available again.
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

/// Runs of offsets with the same kind.
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
