//! A partition with one replica, over its log.

use std::path::Path;

use tailrace_log::{
    Compaction, CompactionSettings, Damage, Discarded, Disk, Log, LogConfig, LogError, LogStore,
    PartitionIdentity, Patch, Recovery, Rewritten, Trim,
};
use tailrace_records::{BatchHeader, EndTransactionMarker};
use tailrace_types::{HighWatermark, LeaderEpoch, Offset, TimestampMs};

use crate::append::{AppendError, Appended};
use crate::compaction::CompactionPolicy;
use crate::ledger::{Ledger, refusal, sections_of};
use crate::policy::{Durability, Policy};
use crate::producers::{Producers, TransactionMarker};
use crate::reader::PartitionReader;
use crate::rebuild::rebuild_producers;
use crate::ticket::{SyncOutcome, SyncTicket};
use crate::verification::VerificationGuard;

/// A partition with a single replica. See the crate documentation.
pub struct Solo<D: Disk> {
    ledger: Ledger<D>,
    epoch: LeaderEpoch,
    /// True once the epoch's own entry is in the log. Nothing may be appended before.
    epoch_begun: bool,
}

impl<D: Disk> std::fmt::Debug for Solo<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Solo")
            .field("reader", &self.ledger.reader)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl<D: Disk> Solo<D> {
    /// Opens the partition in folder `dir`. Creates it if it does not exist, and recovers it if its last stop
    /// was unclean. Blocks on the disk.
    ///
    /// # Errors
    /// The log's errors. The partition is offline then.
    pub fn open(
        store: &LogStore<D>,
        dir: &Path,
        identity: &PartitionIdentity,
        config: LogConfig,
        policy: Policy,
        now: TimestampMs,
    ) -> Result<(Self, Recovery), LogError> {
        let (mut log, mut recovery) = Log::open(store, dir, identity, config, now)?;
        let committed = log.log_end().offset();
        let rebuilt = rebuild_producers(&mut log, &mut recovery, policy, committed, now)?;
        let last = log.last_epoch().max(LeaderEpoch::UNKNOWN);
        let next =
            last.get().checked_add(1).ok_or_else(|| LogError::damaged(dir, 0, "its epochs are used up"));
        let epoch = LeaderEpoch(next?);
        let ledger = Ledger::new(log, rebuilt.producers, policy, committed, epoch);
        let solo = Self { ledger, epoch, epoch_begun: false };
        Ok((solo, recovery))
    }

    /// Returns a reader of the partition.
    pub fn reader(&self) -> PartitionReader<D> {
        self.ledger.reader.clone()
    }

    /// The producers known to the partition.
    pub fn producers(&self) -> &Producers {
        &self.ledger.producers
    }

    /// The policy for appends.
    pub fn policy(&self) -> Policy {
        self.ledger.policy
    }

    /// The failure that stopped writes, if there was one.
    pub fn halted(&self) -> Option<&str> {
        self.ledger.log.poisoned()
    }

    /// True until [`Solo::begin_epoch`] has succeeded. The first append after a start must wait for it.
    pub fn needs_epoch(&self) -> bool {
        !self.epoch_begun
    }

    /// Writes the entry that starts this run's epoch, and makes it durable. Blocks on the disk.
    ///
    /// # Errors
    /// [`AppendError`] as for an append.
    pub fn begin_epoch(&mut self) -> Result<(), AppendError> {
        self.ledger.refuse_if_halted()?;
        if self.epoch_begun {
            return Ok(());
        }
        let index = self.ledger.log.next_raft_index();
        self.ledger.log.append_entry(index, self.epoch, &[]).map_err(refusal)?;
        self.epoch_begun = true;
        Ok(())
    }

    /// Appends one validated batch, or recognises it as a repeated one.
    ///
    /// `header` is the batch's own. Its offset and epoch are set here. `bytes` is the batch as received.
    ///
    /// # Errors
    /// [`AppendError`]. Nothing of the batch is stored then. `ProducerError::Unverified` if a client's
    /// batch would open a transaction: see [`Solo::begin_verification`].
    ///
    /// # Panics
    /// If [`Solo::begin_epoch`] has not succeeded, or if the batch is a control batch.
    pub fn append(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        now: TimestampMs,
    ) -> Result<Appended, AppendError> {
        self.append_verified(header, bytes, None, now)
    }

    /// Like [`Solo::append`], for a batch whose coordinator has confirmed the transaction after `guard` was
    /// drawn.
    ///
    /// # Errors
    /// Those of [`Solo::append`]. `ProducerError::Unverified` also if the transaction has ended since.
    ///
    /// # Panics
    /// See [`Solo::append`].
    pub fn append_verified(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        guard: Option<VerificationGuard>,
        now: TimestampMs,
    ) -> Result<Appended, AppendError> {
        self.ledger.refuse_if_halted()?;
        if let Some(original) = self.ledger.check(header, guard)? {
            return Ok(self.ledger.duplicate(original));
        }
        self.write(header, bytes, now, |producers, stamped| producers.remember(stamped, now))
    }

    /// Draws the guard for a batch that was `ProducerError::Unverified`. With the guard the batch may be
    /// appended once its coordinator has confirmed that the transaction is under way and includes this
    /// partition. Ask the coordinator after drawing the guard, not before (KIP-890). For `epochs_are_bumped`
    /// see [`TransactionMarker::epochs_are_bumped`]. Such a producer must start at sequence 0 if it is
    /// unknown here.
    pub fn begin_verification(
        &mut self,
        header: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> VerificationGuard {
        self.ledger.verifications.begin(header, epochs_are_bumped, now)
    }

    /// Like [`Solo::begin_verification`], if [`Solo::append`] would find the batch
    /// `ProducerError::Unverified` now. `None` for a batch that needs no verification, or that is refused
    /// for another reason.
    pub fn begin_verification_if_needed(
        &mut self,
        header: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> Option<VerificationGuard> {
        self.ledger.begin_verification_if_needed(header, epochs_are_bumped, now)
    }

    /// Appends the marker that ends a producer's transaction. If there is no transaction here, only the
    /// epochs count.
    ///
    /// The transaction counts as decided once the marker is below the high watermark.
    ///
    /// # Errors
    /// [`AppendError`]. Nothing is stored then. `ProducerError::StaleEpoch` or
    /// `ProducerError::CoordinatorFenced` if the epoch of the producer or of the coordinator is older than
    /// one seen before.
    ///
    /// # Panics
    /// If [`Solo::begin_epoch`] has not succeeded, or if the producer has no id.
    pub fn append_marker(
        &mut self,
        marker: &TransactionMarker,
        now: TimestampMs,
    ) -> Result<Appended, AppendError> {
        self.ledger.refuse_if_halted()?;
        assert!(marker.producer_id.get() >= 0, "a marker without a producer");
        self.ledger.producers.check_marker(marker)?;
        let (committed, coordinator_epoch) = (marker.committed, marker.coordinator_epoch);
        let end = EndTransactionMarker { committed, coordinator_epoch };
        let kind = self.ledger.policy.timestamp_type;
        let (header, bytes) = end.build(marker.producer_id, marker.producer_epoch, now, kind);
        let aborted = self.ledger.producers.aborted().len();
        let reader = self.ledger.reader.clone();
        self.write(&header, &bytes, now, |producers, stamped| {
            producers.remember_marker(stamped, end, now);
            if producers.aborted().len() != aborted {
                reader.publish_aborted(producers.aborted());
            }
        })
    }

    /// Stamps the batch and writes it. Calls `remember` before the batch becomes visible.
    fn write(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        now: TimestampMs,
        remember: impl FnOnce(&mut Producers, &BatchHeader),
    ) -> Result<Appended, AppendError> {
        assert!(self.epoch_begun, "an append before the epoch was begun");
        let mut stamped = *header;
        stamped.base_offset = self.ledger.log.log_end().offset();
        stamped.leader_epoch = self.epoch;
        let index = self.ledger.log.next_raft_index();
        let rolled = self.ledger.write(&stamped, index, bytes, now, remember)?;
        let committed_at = HighWatermark(stamped.next_offset().get());
        if self.ledger.policy.durability != Durability::Strict {
            self.ledger.commit(committed_at);
        }
        Ok(Appended {
            base_offset: stamped.base_offset,
            committed_at,
            epoch: self.epoch,
            duplicate: None,
            sync_due: self.ledger.sync_due(),
            checkpoint_due: rolled,
        })
    }

    /// Plans a sync of everything appended so far. If `checkpoint` is set, a recovery checkpoint follows it.
    /// `None` if there is nothing to do.
    pub fn begin_sync(&mut self, checkpoint: bool) -> Option<SyncTicket<D>> {
        let sections = if checkpoint { self.ledger.sections() } else { None };
        self.ledger.begin_sync(checkpoint, sections)
    }

    /// Records the end of a sync. After a failure the partition takes no more writes. The exception is a
    /// checkpoint that found no room: the sync of the data itself is then due again.
    pub fn finish_sync(&mut self, ticket: &SyncTicket<D>, result: &Result<(), LogError>) -> SyncOutcome {
        let durable = match self.ledger.finish_sync(ticket, result) {
            Ok(durable) => durable,
            Err(outcome) => return outcome,
        };
        if self.ledger.policy.durability == Durability::Strict {
            self.ledger.commit(HighWatermark(durable.get()));
        }
        self.ledger.sync_outcome()
    }

    /// Applies a changed configuration. A change from strict to relaxed commits everything appended. After
    /// the reverse change, the high watermark stays until the next sync.
    pub fn configure(&mut self, config: LogConfig, policy: Policy) {
        self.ledger.log.set_config(config);
        self.ledger.policy = policy;
        if policy.durability != Durability::Strict {
            self.ledger.commit(HighWatermark(self.ledger.log.log_end().get()));
        }
    }

    /// Applies retention, and forgets producers that were silent for too long. Run the result without holding
    /// the partition, then pass it to [`Solo::finish_trim`].
    ///
    /// # Errors
    /// [`AppendError`] if the partition is halted or the log cannot be written.
    pub fn retain(&mut self, now: TimestampMs) -> Result<Option<Trim<D>>, AppendError> {
        self.ledger.refuse_if_halted()?;
        self.ledger.producers.expire(now, self.ledger.policy.producer_expiration_ms);
        self.ledger.verifications.expire(now, self.ledger.policy.producer_expiration_ms);
        let high_watermark = self.ledger.reader.high_watermark();
        let is_due = self.ledger.log.retention_is_due(high_watermark, now);
        let sections = if is_due { self.ledger.sections() } else { None };
        let trim = self.ledger.log.retain_with(high_watermark, now, sections);
        self.ledger.publish_stable();
        Ok(trim)
    }

    /// Moves the log start forward (DeleteRecords). Run the result, pass it to [`Solo::finish_trim`], then
    /// answer the client.
    ///
    /// # Errors
    /// [`AppendError`] if the partition is halted or the log cannot be written.
    ///
    /// # Panics
    /// If `to` is beyond the high watermark. The caller has to refuse that.
    pub fn advance_log_start(&mut self, to: Offset) -> Result<Trim<D>, AppendError> {
        self.ledger.refuse_if_halted()?;
        assert!(
            to <= self.ledger.reader.high_watermark().offset(),
            "log start {to} beyond the high watermark"
        );
        let Ledger { log, producers, .. } = &mut self.ledger;
        let trim = log.advance_log_start_with(to, || sections_of(producers)).map_err(refusal)?;
        self.ledger.publish_stable();
        Ok(trim)
    }

    /// Records the outcome of a trim.
    pub fn finish_trim(&mut self, trim: &Trim<D>, result: &Result<(), LogError>) {
        match result {
            Ok(()) => {
                let durable = self.ledger.log.mark_checkpointed(trim.checkpoint());
                if self.ledger.policy.durability == Durability::Strict {
                    self.ledger.commit(HighWatermark(durable.get()));
                }
                // Not earlier, because a crash may bring the old log start back.
                if self.ledger.producers.trim(trim.log_start()) {
                    self.ledger.reader.publish_aborted(self.ledger.producers.aborted());
                }
            }
            // The log start stays moved. The next trim removes the files.
            Err(error) if error.is_no_space() => {}
            Err(error) => self.ledger.log.poison(error.to_string()),
        }
    }

    /// Closes the active segment if it is older than `segment.ms`, even if nothing is appended. Returns true
    /// if it was closed. [`LogReader::is_closing_due`](tailrace_log::LogReader::is_closing_due) tells,
    /// without the partition, whether this call is worthwhile.
    pub fn close_old_segment(&mut self, now: TimestampMs) -> bool {
        self.ledger.log.close_old_segment(now)
    }

    /// Starts a round of compaction up to the last stable offset. `None` if there is nothing to do, or if a
    /// round is under way. Run it without holding the partition, and pass each group that it yields to
    /// [`Solo::install_compacted`].
    ///
    /// # Errors
    /// [`AppendError`] if the partition is halted.
    pub fn begin_compaction(
        &mut self,
        policy: &CompactionPolicy,
        now: TimestampMs,
    ) -> Result<Option<Compaction<D>>, AppendError> {
        let settings = CompactionSettings {
            limits: self.ledger.reader.compaction_limits(policy, now),
            committed: self.ledger.reader.high_watermark(),
            delete_retention_ms: policy.delete_retention_ms,
            io_bytes: policy.io_bytes,
            producers: self.ledger.producers.last_records().collect(),
        };
        self.ledger.log.begin_compaction(settings).map_err(refusal)
    }

    /// Puts the output of a round of compaction in place. Run the result without holding the partition, then
    /// pass a trim to [`Solo::finish_trim`].
    ///
    /// # Errors
    /// [`AppendError`] if the partition is halted. The inner error is no failure: the rewritten segments have
    /// been removed in the meantime.
    pub fn install_compacted(
        &mut self,
        rewritten: Rewritten<D>,
    ) -> Result<Result<Trim<D>, Discarded<D>>, AppendError> {
        self.ledger.install_compacted(rewritten, true)
    }

    /// See [`Partition::begin_patch`](crate::Partition::begin_patch).
    ///
    /// # Errors
    /// The log's errors.
    pub fn begin_patch(&mut self, offset: Offset) -> Result<Option<Patch<D>>, LogError> {
        self.ledger.begin_patch(offset)
    }

    /// Rebuilds the index of the segment that holds `offset`. Blocks on the disk.
    ///
    /// # Errors
    /// The log's errors. Damage to the log itself takes the segment out of service.
    pub fn repair_index(&mut self, offset: Offset) -> Result<(), LogError> {
        self.ledger.log.repair_index(offset)
    }

    /// Checks that small, rarely read files are on disk as they were written, and rewrites those that are
    /// not. Returns what was wrong. Blocks on the disk.
    ///
    /// # Errors
    /// The disk's errors.
    pub fn scrub_files(&mut self) -> Result<Vec<Damage>, LogError> {
        let sections = self.ledger.sections();
        self.ledger.log.scrub_files(sections)
    }

    /// True if anything written is not synced yet.
    pub fn sync_due(&self) -> bool {
        self.ledger.sync_due()
    }

    /// True if `flush.ms` requires a sync now.
    pub fn flush_ms_due(&self, now: TimestampMs) -> bool {
        self.ledger.flush_ms_due(now)
    }

    /// Syncs everything and leaves a mark that makes the next start fast. Blocks on the disk.
    ///
    /// # Errors
    /// The disk's errors. The next start then recovers as after a crash.
    pub fn close(self) -> Result<(), AppendError> {
        self.ledger.refuse_if_halted()?;
        let sections = self.ledger.sections();
        self.ledger.log.close(sections).map_err(refusal)
    }
}
