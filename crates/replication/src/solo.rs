//! A partition with one replica, over its log.

use std::path::Path;

use bytes::Bytes;
use tailrace_log::{
    CheckpointPlan, Compaction, CompactionSettings, Discarded, Disk, Log, LogConfig, LogError, LogStore,
    PartitionIdentity, Recovery, Rewritten, SNAPSHOT_BYTES_MAX, SyncPlan, Trim,
};
use tailrace_records::{BatchHeader, EndTransactionMarker, NO_SEQUENCE};
use tailrace_types::{HighWatermark, LeaderEpoch, LogEnd, Offset, RaftIndex, TimestampMs};

use crate::aborted::AbortedTransaction;
use crate::compaction::CompactionPolicy;
use crate::producers::{ProducerError, Producers, RememberedBatch, SequenceCheck, TransactionMarker};
use crate::reader::PartitionReader;
use crate::rebuild::rebuild_producers;
use crate::verification::{VerificationGuard, Verifications};

/// When a topic's records count as committed; docs/guarantees.md tells what each promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The high watermark is what is on stable storage; every append schedules a sync.
    Strict,
    /// The high watermark is the log end. Syncs happen after that many records, or milliseconds, if at all.
    Relaxed {
        /// Records appended since the last sync that make the next one due.
        flush_messages: Option<u64>,
        /// Age in milliseconds of the oldest unsynced record that makes the next sync due.
        flush_ms: Option<i64>,
    },
}

/// The part of a topic's configuration that decides about appends. It may change at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// See [`Durability`].
    pub durability: Durability,
    /// Milliseconds after which a silent producer is forgotten (`producer.id.expiration.ms`).
    pub producer_expiration_ms: i64,
}

/// Where a batch ended up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// The high watermark has to reach this before the batch counts as committed.
    pub committed_at: HighWatermark,
    /// The stored batch that this one repeats; nothing was appended then.
    pub duplicate: Option<RememberedBatch>,
    /// A sync should be scheduled now.
    pub sync_due: bool,
    /// A segment was closed: a good moment for a sync with a recovery checkpoint.
    pub checkpoint_due: bool,
}

/// Why a batch was not appended. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It does not follow its producer's earlier batches, or its transaction is not in order.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The partition has failed before and takes no writes; reads go on.
    #[error("the partition takes no writes: {reason}")]
    Halted {
        /// The failure that stopped it.
        reason: String,
    },
    /// The disk is full. Later appends may succeed.
    #[error("no space is left on the device")]
    Full,
    /// The log could not be written; the partition is now halted.
    #[error(transparent)]
    Log(LogError),
}

/// How things stand after a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// Nothing more is due.
    Done,
    /// Another sync is due already.
    Again,
    /// It failed: the partition takes no more writes.
    Halted,
}

/// A sync to be carried out without holding the partition: run it, then hand it to [`Solo::finish_sync`].
pub struct SyncTicket<D: Disk>(Plan<D>);

enum Plan<D: Disk> {
    Sync(SyncPlan<D>),
    Checkpoint(CheckpointPlan<D>),
}

impl<D: Disk> SyncTicket<D> {
    /// Makes everything the ticket covers durable, and writes a recovery checkpoint behind it if that was asked for.
    /// Blocks.
    ///
    /// # Errors
    /// The device's. It must never be retried: the page cache may have dropped what failed.
    pub fn run(&self) -> Result<(), LogError> {
        match &self.0 {
            Plan::Sync(plan) => plan.run(),
            Plan::Checkpoint(plan) => plan.run(),
        }
    }

    /// Everything below this offset is durable once [`SyncTicket::run`] succeeded.
    pub fn covers(&self) -> LogEnd {
        match &self.0 {
            Plan::Sync(plan) => plan.covers(),
            Plan::Checkpoint(plan) => plan.covers(),
        }
    }
}

/// A partition with a single replica. See the crate documentation.
pub struct Solo<D: Disk> {
    log: Log<D>,
    reader: PartitionReader<D>,
    producers: Producers,
    verifications: Verifications,
    policy: Policy,
    epoch: LeaderEpoch,
    /// The epoch's own entry is in the log. Until then nothing may be appended.
    epoch_begun: bool,
    /// Records in the log that no successful sync covers, and since when.
    unsynced: u64,
    unsynced_since: Option<TimestampMs>,
}

impl<D: Disk> std::fmt::Debug for Solo<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Solo")
            .field("reader", &self.reader)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl<D: Disk> Solo<D> {
    /// Opens the partition in folder `dir`, creating it if absent and recovering it if its last stop was unclean.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// The log's; the partition is then offline.
    pub fn open(
        store: &LogStore<D>,
        dir: &Path,
        identity: &PartitionIdentity,
        config: LogConfig,
        policy: Policy,
        now: TimestampMs,
    ) -> Result<(Self, Recovery), LogError> {
        let (log, mut recovery) = Log::open(store, dir, identity, config, now)?;
        let producers = rebuild_producers(&log, &mut recovery, policy, now)?;
        let epoch = LeaderEpoch(log.last_epoch().get().max(-1) + 1);
        let high_watermark = HighWatermark(log.log_end().get());
        let stable = last_stable_offset(&producers, log.log_start(), high_watermark);
        let reader = PartitionReader::new(log.reader(), high_watermark, stable, epoch);
        reader.publish_aborted(producers.aborted());
        let solo = Self {
            log,
            reader,
            producers,
            verifications: Verifications::default(),
            policy,
            epoch,
            epoch_begun: false,
            unsynced: 0,
            unsynced_since: None,
        };
        Ok((solo, recovery))
    }

    /// The reading side.
    pub fn reader(&self) -> PartitionReader<D> {
        self.reader.clone()
    }

    /// The producers known to the partition.
    pub fn producers(&self) -> &Producers {
        &self.producers
    }

    /// What decides about appends.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The failure that stopped writing, if there was one.
    pub fn halted(&self) -> Option<&str> {
        self.log.poisoned()
    }

    /// True until [`Solo::begin_epoch`] succeeded: the first append after a start must wait for it.
    pub fn needs_epoch(&self) -> bool {
        !self.epoch_begun
    }

    /// Writes the entry that begins this start's epoch and makes it durable. Blocks on the disk.
    ///
    /// # Errors
    /// [`AppendError`] as for an append.
    pub fn begin_epoch(&mut self) -> Result<(), AppendError> {
        self.refuse_if_halted()?;
        if self.epoch_begun {
            return Ok(());
        }
        let index = self.log.next_raft_index();
        self.log.append_entry(index, self.epoch, &[]).map_err(refusal)?;
        self.epoch_begun = true;
        Ok(())
    }

    /// Appends one validated batch, or recognises it as a repeated one.
    ///
    /// `header` is the batch's own; its offset and epoch are decided here. `bytes` is the batch as received.
    ///
    /// # Errors
    /// [`AppendError`]; nothing of the batch is stored then. [`ProducerError::Unverified`] if a client's batch would begin a
    /// transaction: see [`Solo::begin_verification`].
    ///
    /// # Panics
    /// If the epoch was not begun, or the batch is a control batch.
    pub fn append(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        now: TimestampMs,
    ) -> Result<Appended, AppendError> {
        self.append_verified(header, bytes, None, now)
    }

    /// The same for a batch of whose transaction the coordinator was asked after `guard` was drawn.
    ///
    /// # Errors
    /// As [`Solo::append`]; [`ProducerError::Unverified`] also if the transaction has ended since.
    ///
    /// # Panics
    /// As [`Solo::append`].
    pub fn append_verified(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        guard: Option<VerificationGuard>,
        now: TimestampMs,
    ) -> Result<Appended, AppendError> {
        self.refuse_if_halted()?;
        assert!(!header.attributes.is_control(), "a control batch is appended by append_marker");
        if let SequenceCheck::Duplicate(original) = self.producers.check(header)? {
            return Ok(self.duplicate(original));
        }
        if self.begins_transaction(header) {
            let known = self.producers.get(header.producer_id);
            self.verifications.check(header, guard, known.is_some_and(|state| !state.batches.is_empty()))?;
        }
        self.write(header, bytes, now, |producers, stamped| producers.remember(stamped, now))
    }

    /// True if a client's batch would be the first of its transaction here, so that the transaction's coordinator has to be
    /// asked before. Batches without a sequence come from coordinators, who know what they do.
    fn begins_transaction(&self, header: &BatchHeader) -> bool {
        header.attributes.is_transactional()
            && header.has_producer_id()
            && header.base_sequence != NO_SEQUENCE
            && !self.producers.has_transaction(header.producer_id, header.producer_epoch)
    }

    /// Draws the guard with which a batch that was [`ProducerError::Unverified`] may be appended once its coordinator has
    /// said that the transaction is under way and includes this partition. Ask the coordinator after drawing it, not before
    /// (KIP-890). `epochs_are_bumped` as in [`TransactionMarker::epochs_are_bumped`]: such a producer, if it is not known
    /// here, must begin at sequence 0.
    pub fn begin_verification(
        &mut self,
        header: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> VerificationGuard {
        self.verifications.begin(header, epochs_are_bumped, now)
    }

    /// The same, if [`Solo::append`] would find the batch [`ProducerError::Unverified`] now. `None` of a batch that needs no
    /// verification, or is refused for another reason.
    pub fn begin_verification_if_needed(
        &mut self,
        header: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> Option<VerificationGuard> {
        let is_next = matches!(self.producers.check(header), Ok(SequenceCheck::Append));
        let needed = is_next && self.begins_transaction(header);
        needed.then(|| self.verifications.begin(header, epochs_are_bumped, now))
    }

    /// Appends the marker that ends a producer's transaction, also if it has none here: then only the epochs count.
    ///
    /// The transaction counts as decided once the marker is below the high watermark.
    ///
    /// # Errors
    /// [`AppendError`]; nothing is stored then. [`ProducerError::StaleEpoch`] and [`ProducerError::CoordinatorFenced`] if the
    /// producer or the coordinator is older than one seen before.
    ///
    /// # Panics
    /// If the epoch was not begun, or the producer has no id.
    pub fn append_marker(
        &mut self,
        marker: &TransactionMarker,
        now: TimestampMs,
    ) -> Result<Appended, AppendError> {
        self.refuse_if_halted()?;
        assert!(marker.producer_id.get() >= 0, "a marker without a producer");
        self.producers.check_marker(marker)?;
        let (committed, coordinator_epoch) = (marker.committed, marker.coordinator_epoch);
        let end = EndTransactionMarker { committed, coordinator_epoch };
        let (header, bytes) = end.build(marker.producer_id, marker.producer_epoch, now);
        let aborted = self.producers.aborted().len();
        let reader = self.reader.clone();
        self.write(&header, &bytes, now, |producers, stamped| {
            producers.remember_marker(stamped, end, now);
            if producers.aborted().len() != aborted {
                reader.publish_aborted(producers.aborted());
            }
        })
    }

    /// Stamps the batch and writes it. `remember` takes note of it before anybody can see it.
    fn write(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        now: TimestampMs,
        remember: impl FnOnce(&mut Producers, &BatchHeader),
    ) -> Result<Appended, AppendError> {
        assert!(self.epoch_begun, "an append before the epoch was begun");
        let mut stamped = *header;
        stamped.base_offset = self.log.log_end().offset();
        stamped.leader_epoch = self.epoch;
        let index: RaftIndex = self.log.next_raft_index();
        let written = self.log.append(&stamped, index, bytes, now).map_err(refusal)?;
        remember(&mut self.producers, &stamped);
        if stamped.attributes.is_transactional() {
            self.verifications.end(stamped.producer_id);
        }
        self.unsynced += u64::try_from(stamped.record_count).unwrap_or(0);
        self.unsynced_since.get_or_insert(now);
        let committed_at = HighWatermark(written.log_end.get());
        if self.policy.durability != Durability::Strict {
            self.commit(committed_at);
        }
        Ok(Appended {
            base_offset: stamped.base_offset,
            committed_at,
            duplicate: None,
            sync_due: self.sync_due(),
            checkpoint_due: written.rolled,
        })
    }

    /// Raises the high watermark, and with it the last stable offset.
    fn commit(&mut self, high_watermark: HighWatermark) {
        self.reader.raise_high_watermark(high_watermark);
        self.producers.commit(high_watermark.offset());
        self.publish_stable();
    }

    fn publish_stable(&self) {
        let (log_start, high_watermark) = (self.reader.log_start(), self.reader.high_watermark());
        let stable = last_stable_offset(&self.producers, log_start, high_watermark);
        self.reader.raise_last_stable_offset(stable);
    }

    /// A repeated batch waits for the same point as its original did.
    fn duplicate(&self, original: RememberedBatch) -> Appended {
        Appended {
            base_offset: original.base_offset,
            committed_at: HighWatermark(original.last_offset.plus(1).get()),
            duplicate: Some(original),
            sync_due: self.sync_due(),
            checkpoint_due: false,
        }
    }

    fn sync_due(&self) -> bool {
        match self.policy.durability {
            Durability::Strict => self.log.durable_end().offset() < self.log.log_end().offset(),
            Durability::Relaxed { flush_messages, .. } => flush_messages.is_some_and(|n| self.unsynced >= n),
        }
    }

    /// Plans a sync of everything appended so far, with a recovery checkpoint behind it if `checkpoint` says so.
    /// `None` if there is nothing to do.
    pub fn begin_sync(&mut self, checkpoint: bool) -> Option<SyncTicket<D>> {
        let nothing_new = self.log.durable_end().offset() >= self.log.log_end().offset();
        if self.halted().is_some() || (nothing_new && !checkpoint) {
            return None;
        }
        self.unsynced = 0;
        self.unsynced_since = None;
        let plan = if checkpoint {
            Plan::Checkpoint(self.log.checkpoint_plan(self.snapshot()))
        } else {
            Plan::Sync(self.log.sync_plan())
        };
        Some(SyncTicket(plan))
    }

    /// Takes note of a sync's end. After a failure the partition takes no more writes; a checkpoint that found no room
    /// is the exception: the data's own sync is then simply due again.
    pub fn finish_sync(&mut self, ticket: &SyncTicket<D>, result: &Result<(), LogError>) -> SyncOutcome {
        let durable = match (&ticket.0, result) {
            (Plan::Sync(plan), Ok(())) => self.log.mark_durable(plan),
            (Plan::Checkpoint(plan), Ok(())) => self.log.mark_checkpointed(plan),
            (Plan::Checkpoint(_), Err(error)) if error.is_no_space() => return SyncOutcome::Again,
            (_, Err(error)) => {
                self.log.poison(error.to_string());
                return SyncOutcome::Halted;
            }
        };
        if self.policy.durability == Durability::Strict {
            self.commit(HighWatermark(durable.get()));
        }
        if self.sync_due() { SyncOutcome::Again } else { SyncOutcome::Done }
    }

    /// Takes over a changed configuration. Going from strict to relaxed commits what is appended; the other way
    /// round, the high watermark stays where it is until the next sync.
    pub fn configure(&mut self, config: LogConfig, policy: Policy) {
        self.log.set_config(config);
        self.policy = policy;
        if policy.durability != Durability::Strict {
            self.commit(HighWatermark(self.log.log_end().get()));
        }
    }

    /// Applies retention, and forgets producers that were silent for too long. Run the result without holding the
    /// partition, then hand it to [`Solo::finish_trim`].
    ///
    /// # Errors
    /// [`AppendError`] if the partition is halted or the log cannot be written.
    pub fn retain(&mut self, now: TimestampMs) -> Result<Option<Trim<D>>, AppendError> {
        self.refuse_if_halted()?;
        self.producers.expire(now, self.policy.producer_expiration_ms);
        self.verifications.expire(now, self.policy.producer_expiration_ms);
        let trim = self.log.retain(self.reader.high_watermark(), now);
        self.publish_stable();
        Ok(trim)
    }

    /// Moves the log start forward (DeleteRecords). Run the result, hand it to [`Solo::finish_trim`], then answer.
    ///
    /// # Errors
    /// [`AppendError`] if the partition is halted or the log cannot be written.
    ///
    /// # Panics
    /// If `to` lies beyond the high watermark: the caller has to refuse that.
    pub fn advance_log_start(&mut self, to: Offset) -> Result<Trim<D>, AppendError> {
        self.refuse_if_halted()?;
        assert!(to <= self.reader.high_watermark().offset(), "log start {to} beyond the high watermark");
        let trim = self.log.advance_log_start(to).map_err(refusal)?;
        self.publish_stable();
        Ok(trim)
    }

    /// Takes note that a trim was carried out, or not.
    pub fn finish_trim(&mut self, trim: &Trim<D>, result: &Result<(), LogError>) {
        match result {
            Ok(()) => {
                let durable = self.log.mark_checkpointed(trim.checkpoint());
                if self.policy.durability == Durability::Strict {
                    self.commit(HighWatermark(durable.get()));
                }
                // Not before: a crash may have brought the old log start back.
                if self.producers.trim(trim.log_start()) {
                    self.reader.publish_aborted(self.producers.aborted());
                }
            }
            // The log start stays moved; the next trim carries it out again.
            Err(error) if error.is_no_space() => {}
            Err(error) => self.log.poison(error.to_string()),
        }
    }

    /// Keeps of the aborted transactions those that `keep` says: after compaction, those whose marker is still there.
    pub fn retain_aborted(&mut self, keep: impl FnMut(&AbortedTransaction) -> bool) {
        if self.producers.retain_aborted(keep) {
            self.reader.publish_aborted(self.producers.aborted());
        }
    }

    /// Begins a round of compaction up to the last stable offset. `None` if there is nothing to do, or a round is under
    /// way. Run it without holding the partition; each group that it yields goes to [`Solo::install_compacted`].
    ///
    /// # Errors
    /// [`AppendError`] if the partition is halted.
    pub fn begin_compaction(
        &mut self,
        policy: &CompactionPolicy,
        now: TimestampMs,
    ) -> Result<Option<Compaction<D>>, AppendError> {
        let settings = CompactionSettings {
            limits: self.reader.compaction_limits(policy, now),
            committed: self.reader.high_watermark(),
            delete_retention_ms: policy.delete_retention_ms,
            io_bytes: policy.io_bytes,
            producers: self.producers.last_records().collect(),
        };
        self.log.begin_compaction(settings).map_err(refusal)
    }

    /// Puts in place what a round of compaction has written. Run the result without holding the partition, then hand a
    /// trim to [`Solo::finish_trim`].
    ///
    /// # Errors
    /// [`AppendError`] if the partition is halted. The inner error is no failure: what was rewritten is gone meanwhile.
    pub fn install_compacted(
        &mut self,
        rewritten: Rewritten<D>,
    ) -> Result<Result<Trim<D>, Discarded<D>>, AppendError> {
        let snapshot = self.snapshot();
        let removed = rewritten.removed_aborts().to_vec();
        let installed = self.log.install_compacted(rewritten, snapshot).map_err(refusal)?;
        if installed.is_ok() && !removed.is_empty() {
            // Their records went in an earlier round.
            self.retain_aborted(|transaction| removed.binary_search(&transaction.last_offset).is_err());
        }
        Ok(installed)
    }

    /// True if `flush.ms` asks for a sync now.
    pub fn flush_ms_due(&self, now: TimestampMs) -> bool {
        let Durability::Relaxed { flush_ms: Some(limit), .. } = self.policy.durability else { return false };
        self.unsynced_since.is_some_and(|since| now.since(since) >= limit)
    }

    /// Syncs everything and leaves a mark that makes the next start quick. Blocks on the disk.
    ///
    /// # Errors
    /// The disk's; the next start then recovers as after a crash.
    pub fn close(self) -> Result<(), AppendError> {
        self.refuse_if_halted()?;
        let snapshot = self.snapshot();
        self.log.close(snapshot).map_err(refusal)
    }

    /// `None` for a table that the log would not take: of a partition that more producers have transactions open in than are
    /// let in here. Its next start reads more of the log.
    fn snapshot(&self) -> Option<Bytes> {
        Some(self.producers.snapshot()).filter(|bytes| bytes.len() <= SNAPSHOT_BYTES_MAX)
    }

    fn refuse_if_halted(&self) -> Result<(), AppendError> {
        match self.halted() {
            Some(reason) => Err(AppendError::Halted { reason: reason.to_owned() }),
            None => Ok(()),
        }
    }
}

fn refusal(error: LogError) -> AppendError {
    if error.is_no_space() { AppendError::Full } else { AppendError::Log(error) }
}

/// See [`PartitionReader::last_stable_offset`].
fn last_stable_offset(producers: &Producers, log_start: Offset, high_watermark: HighWatermark) -> Offset {
    let high_watermark = high_watermark.offset();
    producers.first_undecided().map_or(high_watermark, |first| first.max(log_start).min(high_watermark))
}
