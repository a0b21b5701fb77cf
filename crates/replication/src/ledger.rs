//! A partition's log with all state derived from it, shared by [`Solo`](crate::Solo) and replicas.

use tailrace_log::{Discarded, Disk, Log, LogError, Patch, Rewritten, SNAPSHOT_BYTES_MAX, Sections, Trim};
#[cfg(feature = "raft")]
use tailrace_log::{InstallTarget, Recovery, Staging};
use tailrace_records::{BatchHeader, NO_SEQUENCE};
use tailrace_types::{DurableEnd, HighWatermark, LeaderEpoch, Offset, RaftIndex, TimestampMs};

use crate::aborted::AbortedTransaction;
use crate::append::{AppendError, Appended};
use crate::policy::{Durability, Policy};
use crate::producers::{ProducerError, Producers, RememberedBatch, SequenceCheck};
use crate::reader::PartitionReader;
use crate::rebuild::RebuiltProducers;
#[cfg(feature = "raft")]
use crate::rebuild::rebuild_producers;
use crate::ticket::{Plan, SyncOutcome, SyncTicket};
use crate::unended::forget_unended;
use crate::verification::{VerificationGuard, Verifications};

pub(crate) struct Ledger<D: Disk> {
    pub(crate) log: Log<D>,
    pub(crate) reader: PartitionReader<D>,
    pub(crate) producers: Producers,
    /// The offset from which the table of producers may be wrong, because it was read while batches were
    /// damaged that other replicas may have. The table is not saved then, and nothing above this offset is
    /// stable.
    pub(crate) partial_from: Option<Offset>,
    pub(crate) verifications: Verifications,
    pub(crate) policy: Policy,
    /// Records in the log that no successful sync covers, and the time of the first.
    pub(crate) unsynced: u64,
    pub(crate) unsynced_since: Option<TimestampMs>,
    /// The newest marker that the high watermark has passed since the partition was opened. Its transaction
    /// is no longer listed as undecided.
    #[cfg(feature = "raft")]
    pub(crate) newest_settled: Option<Offset>,
}

impl<D: Disk> Ledger<D> {
    /// Creates the ledger of a partition that was just opened. `producers` is the table at the log's end, and
    /// `committed` is one past the last committed record.
    pub(crate) fn new(
        log: Log<D>,
        producers: Producers,
        policy: Policy,
        committed: Offset,
        epoch: LeaderEpoch,
    ) -> Self {
        Self::partial(log, RebuiltProducers { producers, partial_from: None }, policy, committed, epoch)
    }

    /// Like [`Ledger::new`], with a table of producers that may be wrong from some offset on. See
    /// [`Ledger::partial_from`].
    pub(crate) fn partial(
        log: Log<D>,
        rebuilt: RebuiltProducers,
        policy: Policy,
        committed: Offset,
        epoch: LeaderEpoch,
    ) -> Self {
        let RebuiltProducers { producers, partial_from } = rebuilt;
        let high_watermark = HighWatermark(committed.get());
        let stable = last_stable_offset(&producers, log.log_start(), high_watermark);
        let stable = partial_from.map_or(stable, |from| stable.min(from.max(log.log_start())));
        let reader = PartitionReader::new(log.reader(), high_watermark, stable, epoch);
        reader.publish_aborted(producers.aborted());
        let verifications = Verifications::default();
        Self {
            log,
            reader,
            producers,
            partial_from,
            verifications,
            policy,
            unsynced: 0,
            unsynced_since: None,
            #[cfg(feature = "raft")]
            newest_settled: None,
        }
    }

    /// Checks a client's batch without changing anything. Returns the stored batch that it repeats, if any.
    pub(crate) fn check(
        &self,
        header: &BatchHeader,
        guard: Option<VerificationGuard>,
    ) -> Result<Option<RememberedBatch>, AppendError> {
        assert!(!header.attributes.is_control(), "a control batch is appended by append_marker");
        if let SequenceCheck::Duplicate(original) = self.producers.check(header)? {
            return Ok(Some(original));
        }
        let known = self.producers.get(header.producer_id);
        let remembered = known.is_some_and(|state| !state.batches.is_empty());
        if self.begins_transaction(header) {
            self.verifications.check(header, guard, remembered)?;
        } else if header.has_producer_id() && !header.attributes.is_transactional() {
            self.verifications.check_sequence(header, remembered)?;
        }
        Ok(None)
    }

    /// Reports whether a client's batch would be the first of its transaction here, so that the transaction's
    /// coordinator has to be asked first. Batches without a sequence come from coordinators, which need no
    /// check.
    pub(crate) fn begins_transaction(&self, header: &BatchHeader) -> bool {
        header.attributes.is_transactional()
            && header.has_producer_id()
            && header.base_sequence != NO_SEQUENCE
            && !self.producers.has_transaction(header.producer_id, header.producer_epoch)
    }

    /// Draws a guard if the batch starts a transaction here, even if the batch is refused for its epoch or
    /// its sequence. As in Kafka, the coordinator is asked all the same, because it knows better what became
    /// of the producer.
    pub(crate) fn begin_verification_if_needed(
        &mut self,
        header: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> Option<VerificationGuard> {
        let is_decided = matches!(
            self.producers.check(header),
            Ok(SequenceCheck::Duplicate(_)) | Err(ProducerError::TooManyTransactions { .. })
        );
        let needed = !is_decided && self.begins_transaction(header);
        needed.then(|| self.verifications.begin(header, epochs_are_bumped, now))
    }

    /// Writes a batch whose header is stamped. Calls `remember` before the batch becomes visible. Returns
    /// true if the batch started a new segment.
    pub(crate) fn write(
        &mut self,
        stamped: &BatchHeader,
        index: RaftIndex,
        bytes: &[u8],
        now: TimestampMs,
        remember: impl FnOnce(&mut Producers, &BatchHeader),
    ) -> Result<bool, AppendError> {
        self.producers.assert_continues(stamped);
        let written = self.log.append(stamped, index, bytes, now).map_err(refusal)?;
        remember(&mut self.producers, stamped);
        if stamped.attributes.is_transactional() {
            self.verifications.end(stamped.producer_id);
        }
        self.unsynced += stamped.records();
        self.unsynced_since.get_or_insert(now);
        Ok(written.rolled)
    }

    /// Raises the high watermark, and with it the last stable offset.
    pub(crate) fn commit(&mut self, high_watermark: HighWatermark) {
        self.reader.raise_high_watermark(high_watermark);
        #[cfg(feature = "raft")]
        {
            let settled =
                self.producers.decided().values().filter(|marker| **marker < high_watermark.offset());
            self.newest_settled = self.newest_settled.max(settled.max().copied());
        }
        self.producers.commit(high_watermark.offset());
        self.publish_stable();
    }

    pub(crate) fn publish_stable(&self) {
        let (log_start, high_watermark) = (self.reader.log_start(), self.reader.high_watermark());
        let stable = last_stable_offset(&self.producers, log_start, high_watermark);
        let known = self.reader.last_stable_offset();
        let stable = self.partial_from.map_or(stable, |from| stable.min(from.max(log_start)).max(known));
        self.reader.raise_last_stable_offset(stable);
    }

    /// Reads the table of producers from the log again, after its batches have changed. Committed
    /// transactions stay committed.
    #[cfg(feature = "raft")]
    pub(crate) fn read_producers_again(&mut self, now: TimestampMs) -> Result<(), LogError> {
        let mut recovery = Recovery::default();
        let end = self.log.log_end().offset();
        let committed = self.reader.high_watermark().offset();
        recovery.snapshot = self.log.snapshot(end, &mut recovery.notes)?;
        let rebuilt = rebuild_producers(&mut self.log, &mut recovery, self.policy, committed, now)?;
        (self.producers, self.partial_from) = (rebuilt.producers, rebuilt.partial_from);
        self.reader.retract_aborted(self.producers.aborted());
        Ok(())
    }

    /// Returns the outcome of a repeated batch. It waits for the same high watermark as the original.
    pub(crate) fn duplicate(&self, original: RememberedBatch) -> Appended {
        Appended {
            base_offset: original.base_offset,
            committed_at: HighWatermark(original.last_offset.plus(1).get()),
            epoch: self.log.reader().epoch_at(original.last_offset).unwrap_or(LeaderEpoch::UNKNOWN),
            duplicate: Some(original),
            sync_due: self.sync_due(),
            checkpoint_due: false,
        }
    }

    pub(crate) fn sync_due(&self) -> bool {
        match self.policy.durability {
            Durability::Strict => self.log.durable_end().offset() < self.log.log_end().offset(),
            Durability::Relaxed { flush_messages, .. } => flush_messages.is_some_and(|n| self.unsynced >= n),
        }
    }

    pub(crate) fn flush_ms_due(&self, now: TimestampMs) -> bool {
        let Durability::Relaxed { flush_ms: Some(limit), .. } = self.policy.durability else {
            return false;
        };
        self.unsynced_since.is_some_and(|since| now.since(since) >= limit)
    }

    /// Plans a sync of everything appended so far. If `checkpoint` is set, a recovery checkpoint with
    /// `sections` follows it.
    pub(crate) fn begin_sync(
        &mut self,
        checkpoint: bool,
        sections: Option<Sections>,
    ) -> Option<SyncTicket<D>> {
        let nothing_new = self.log.durable_end().offset() >= self.log.log_end().offset();
        if self.log.poisoned().is_some() || (nothing_new && !checkpoint) {
            return None;
        }
        self.unsynced = 0;
        self.unsynced_since = None;
        let plan = if checkpoint {
            Plan::Checkpoint(self.log.checkpoint_plan(sections))
        } else {
            Plan::Sync(self.log.sync_plan())
        };
        Some(SyncTicket(plan))
    }

    /// Returns the durable end after a sync.
    pub(crate) fn finish_sync(
        &mut self,
        ticket: &SyncTicket<D>,
        result: &Result<(), LogError>,
    ) -> Result<DurableEnd, SyncOutcome> {
        match (&ticket.0, result) {
            (Plan::Sync(plan), Ok(())) => Ok(self.log.mark_durable(plan)),
            (Plan::Checkpoint(plan), Ok(())) => Ok(self.log.mark_checkpointed(plan)),
            (Plan::Checkpoint(_), Err(error)) if error.is_no_space() => Err(SyncOutcome::Again),
            (_, Err(error)) => {
                self.log.poison(error.to_string());
                Err(SyncOutcome::Halted)
            }
        }
    }

    pub(crate) fn sync_outcome(&self) -> SyncOutcome {
        if self.sync_due() { SyncOutcome::Again } else { SyncOutcome::Done }
    }

    /// See [`sections_of`].
    pub(crate) fn sections(&self) -> Option<Sections> {
        sections_of(&self.producers)
    }

    /// Puts the output of a round of compaction, or a mended segment, in place.
    ///
    /// Forgets the transactions whose abort markers were removed, before readers can miss a marker and before
    /// the table is saved. Their records were removed in an earlier round, which is durable (see
    /// [`Log::begin_compaction`]), so a crash cannot bring any of them back.
    pub(crate) fn install_compacted(
        &mut self,
        rewritten: Rewritten<D>,
        keeps_table: bool,
    ) -> Result<Result<Trim<D>, Discarded<D>>, AppendError> {
        if rewritten.is_mended() {
            return self.install_mended(rewritten, keeps_table);
        }
        let Self { log, producers, reader, .. } = self;
        let removed = rewritten.removed_aborts().to_vec();
        let table = || {
            let stays =
                |transaction: &AbortedTransaction| removed.binary_search(&transaction.last_offset).is_err();
            if !removed.is_empty() && producers.retain_aborted(stays) {
                reader.retract_aborted(producers.aborted());
            }
            if keeps_table { sections_of(producers) } else { None }
        };
        log.install_compacted(rewritten, table).map_err(refusal)
    }

    /// Puts a mended segment in place. If it lacks abort markers that existed before, committed reads are
    /// suspended until those transactions are forgotten. Otherwise readers would wait for the markers and
    /// skip everything that follows from those producers. Transactions with records left stay on the list.
    fn install_mended(
        &mut self,
        rewritten: Rewritten<D>,
        keeps_table: bool,
    ) -> Result<Result<Trim<D>, Discarded<D>>, AppendError> {
        let Self { log, producers, reader, .. } = self;
        let lost = rewritten.lost_markers(producers.aborted().iter().map(|t| t.last_offset));
        if !lost.is_empty() {
            reader.begin_exchange();
        }
        let table = || if keeps_table { sections_of(producers) } else { None };
        let installed = log.install_compacted(rewritten, table).map_err(refusal);
        // This also runs after a failure, because the log may hold either segment then.
        if !lost.is_empty()
            && let Err(error) = self.end_exchange()
        {
            self.log.poison(error.to_string());
            return installed.and(Err(refusal(error)));
        }
        installed
    }

    /// Forgets the aborted transactions whose markers are no longer in the log, and resumes committed reads.
    /// After an error, committed reads stay suspended until the partition is opened again.
    fn end_exchange(&mut self) -> Result<(), LogError> {
        forget_unended(&mut self.log, &mut self.producers, &mut Vec::new())?;
        self.reader.end_exchange(self.producers.aborted());
        Ok(())
    }

    /// Replaces the log with a copy of another replica's, and the table with the one at the end of that copy.
    /// The table may be older than that replica's last round of compaction.
    #[cfg(feature = "raft")]
    pub(crate) fn install(
        &mut self,
        staging: Staging<D>,
        target: &InstallTarget,
        producers: Producers,
    ) -> Result<(), LogError> {
        self.reader.begin_exchange();
        let installed = self.log.install(staging, target);
        if installed.is_ok() {
            self.producers = producers;
        }
        // This also runs after a failure, because the log may be either of the two then.
        let ended = self.end_exchange();
        installed.and(ended)
    }

    pub(crate) fn begin_patch(&mut self, offset: Offset) -> Result<Option<Patch<D>>, LogError> {
        let Some((base, _)) = self.reader.log().segment_bounds(offset) else { return Ok(None) };
        self.log.seal(base);
        self.log.begin_patch(base)
    }

    pub(crate) fn refuse_if_halted(&self) -> Result<(), AppendError> {
        match self.log.poisoned() {
            Some(reason) => Err(AppendError::Halted { reason: reason.to_owned() }),
            None => Ok(()),
        }
    }
}

/// Returns the sections to save with a checkpoint. `None` if the table is unsure about some transactions, or
/// exceeds [`SNAPSHOT_BYTES_MAX`], which takes more producers with open transactions than are admitted here.
/// The partition's next start then reads more of the log.
pub(crate) fn sections_of(producers: &Producers) -> Option<Sections> {
    if producers.is_unsure() {
        return None;
    }
    Some(producers.to_sections()).filter(|sections| sections.total_bytes() <= SNAPSHOT_BYTES_MAX)
}

pub(crate) fn refusal(error: LogError) -> AppendError {
    if error.is_no_space() { AppendError::Full } else { AppendError::Log(error) }
}

/// See [`PartitionReader::last_stable_offset`].
fn last_stable_offset(producers: &Producers, log_start: Offset, high_watermark: HighWatermark) -> Offset {
    let high_watermark = high_watermark.offset();
    producers.first_undecided().map_or(high_watermark, |first| first.max(log_start).min(high_watermark))
}
