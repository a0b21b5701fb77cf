//! Proof that a transaction's coordinator knows that the transaction includes this partition (KIP-890).
//!
//! Before the first batch of a transaction is appended, the coordinator is asked. Between its answer and the
//! append, the transaction may end and its marker may be written. The batch would then open a transaction
//! that never ends. So a guard is drawn before the coordinator is asked. A marker, like the first append,
//! invalidates the guard.

use std::collections::BTreeMap;

use tailrace_records::BatchHeader;
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};

use crate::producers::ProducerError;

/// The most producers per partition whose verification is under way. Beyond it, the oldest is forgotten and
/// has to start again. One costs about 60 bytes.
pub(crate) const VERIFICATIONS_MAX: usize = 65_536;

/// A guard, drawn before the coordinator is asked and passed in with the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerificationGuard(u64);

#[derive(Debug)]
struct Verification {
    guard: VerificationGuard,
    epoch: ProducerEpoch,
    /// The lowest sequence to be verified. A later batch must not be appended before it.
    lowest_sequence: i32,
    /// The producer's epoch is raised with each of its transactions (transaction version 2).
    epochs_are_bumped: bool,
    begun: TimestampMs,
}

/// The verifications under way in one partition.
#[derive(Debug, Default)]
pub(crate) struct Verifications {
    by_producer: BTreeMap<ProducerId, Verification>,
    last_guard: u64,
}

impl Verifications {
    /// Returns the guard for a batch whose transaction has not started here. Batches of the same producer
    /// that wait share one guard.
    pub(crate) fn begin(
        &mut self,
        batch: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> VerificationGuard {
        if let Some(known) = self.by_producer.get_mut(&batch.producer_id) {
            if batch.producer_epoch > known.epoch {
                known.epoch = batch.producer_epoch;
                known.lowest_sequence = batch.base_sequence;
            } else if batch.producer_epoch == known.epoch {
                known.lowest_sequence = known.lowest_sequence.min(batch.base_sequence);
            }
            return known.guard;
        }
        if self.by_producer.len() >= VERIFICATIONS_MAX {
            let oldest = self.by_producer.iter().min_by_key(|(_, known)| known.guard).map(|(id, _)| *id);
            oldest.map(|id| self.by_producer.remove(&id));
        }
        self.last_guard += 1;
        let guard = VerificationGuard(self.last_guard);
        let verification = Verification {
            guard,
            epoch: batch.producer_epoch,
            lowest_sequence: batch.base_sequence,
            epochs_are_bumped,
            begun: now,
        };
        self.by_producer.insert(batch.producer_id, verification);
        guard
    }

    /// Checks whether the batch may open its transaction. `remembered`: the partition knows earlier batches
    /// of the producer.
    pub(crate) fn check(
        &self,
        batch: &BatchHeader,
        guard: Option<VerificationGuard>,
        remembered: bool,
    ) -> Result<(), ProducerError> {
        let producer = batch.producer_id;
        let known = self.by_producer.get(&producer).filter(|known| guard == Some(known.guard));
        let Some(_) = known else { return Err(ProducerError::Unverified { producer }) };
        self.check_sequence(batch, remembered)
    }

    /// Checks whether the batch comes too early, transactional or not. Batches of its producer that are being
    /// verified must be appended first.
    pub(crate) fn check_sequence(&self, batch: &BatchHeader, remembered: bool) -> Result<(), ProducerError> {
        let producer = batch.producer_id;
        let Some(known) = self.by_producer.get(&producer) else { return Ok(()) };
        let begins_at = if known.epochs_are_bumped && !remembered { 0 } else { known.lowest_sequence };
        if batch.base_sequence > begins_at {
            return Err(ProducerError::OutOfOrder {
                producer,
                expected: begins_at,
                found: batch.base_sequence,
            });
        }
        Ok(())
    }

    /// Ends the verification, because the producer's transaction has started here, or has ended.
    pub(crate) fn end(&mut self, producer: ProducerId) {
        self.by_producer.remove(&producer);
    }

    /// Forgets all verifications. Another leader may have opened and ended transactions here since.
    #[cfg(feature = "raft")]
    pub(crate) fn clear(&mut self) {
        self.by_producer.clear();
    }

    /// Forgets the verifications whose batch never came.
    pub(crate) fn expire(&mut self, now: TimestampMs, silent_ms: i64) {
        self.by_producer.retain(|_, known| now.since(known.begun) < silent_ms);
    }
}
