//! A partition with one replica, over its log.

use std::path::Path;

use tailrace_log::{
    CheckpointPlan, Compaction, CompactionSettings, Discarded, Disk, Log, LogConfig, LogError, LogStore,
    PartitionIdentity, Recovery, Rewritten, SyncPlan, Trim,
};
use tailrace_records::BatchHeader;
use tailrace_types::{HighWatermark, LeaderEpoch, LogEnd, Offset, RaftIndex, TimestampMs};

use crate::compaction::CompactionPolicy;
use crate::producers::{Producers, RememberedBatch, SequenceCheck, SequenceError};
use crate::reader::PartitionReader;

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
    /// It does not follow its producer's earlier batches.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
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
        let (log, recovery) = Log::open(store, dir, identity, config, now)?;
        let producers = rebuild_producers(&log, &recovery, policy, now)?;
        let epoch = LeaderEpoch(log.last_epoch().get().max(-1) + 1);
        let reader = PartitionReader::new(log.reader(), HighWatermark(log.log_end().get()), epoch);
        let solo = Self {
            log,
            reader,
            producers,
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
    /// [`AppendError`]; nothing of the batch is stored then.
    ///
    /// # Panics
    /// If the epoch was not begun.
    pub fn append(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        now: TimestampMs,
    ) -> Result<Appended, AppendError> {
        self.refuse_if_halted()?;
        assert!(self.epoch_begun, "an append before the epoch was begun");
        if let SequenceCheck::Duplicate(original) = self.producers.check(header)? {
            return Ok(self.duplicate(original));
        }
        let mut stamped = *header;
        stamped.base_offset = self.log.log_end().offset();
        stamped.leader_epoch = self.epoch;
        let index: RaftIndex = self.log.next_raft_index();
        let written = self.log.append(&stamped, index, bytes, now).map_err(refusal)?;
        self.producers.remember(&stamped, now);
        self.unsynced += u64::try_from(stamped.record_count).unwrap_or(0);
        self.unsynced_since.get_or_insert(now);
        let committed_at = HighWatermark(written.log_end.get());
        if self.policy.durability != Durability::Strict {
            self.reader.raise_high_watermark(committed_at);
        }
        Ok(Appended {
            base_offset: stamped.base_offset,
            committed_at,
            duplicate: None,
            sync_due: self.sync_due(),
            checkpoint_due: written.rolled,
        })
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
            Plan::Checkpoint(self.log.checkpoint_plan(Some(self.producers.snapshot())))
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
            self.reader.raise_high_watermark(HighWatermark(durable.get()));
        }
        if self.sync_due() { SyncOutcome::Again } else { SyncOutcome::Done }
    }

    /// Takes over a changed configuration. Going from strict to relaxed commits what is appended; the other way
    /// round, the high watermark stays where it is until the next sync.
    pub fn configure(&mut self, config: LogConfig, policy: Policy) {
        self.log.set_config(config);
        self.policy = policy;
        if policy.durability != Durability::Strict {
            self.reader.raise_high_watermark(HighWatermark(self.log.log_end().get()));
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
        Ok(self.log.retain(self.reader.high_watermark(), now))
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
        self.log.advance_log_start(to).map_err(refusal)
    }

    /// Takes note that a trim was carried out, or not.
    pub fn finish_trim(&mut self, trim: &Trim<D>, result: &Result<(), LogError>) {
        match result {
            Ok(()) => {
                let durable = self.log.mark_checkpointed(trim.checkpoint());
                if self.policy.durability == Durability::Strict {
                    self.reader.raise_high_watermark(HighWatermark(durable.get()));
                }
            }
            // The log start stays moved; the next trim carries it out again.
            Err(error) if error.is_no_space() => {}
            Err(error) => self.log.poison(error.to_string()),
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
        let snapshot = self.producers.snapshot();
        self.log.install_compacted(rewritten, Some(snapshot)).map_err(refusal)
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
        let snapshot = self.producers.snapshot();
        self.log.close(Some(snapshot)).map_err(refusal)
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

/// The producers as of the log's end: from the newest snapshot, and the batches behind it.
fn rebuild_producers<D: Disk>(
    log: &Log<D>,
    recovery: &Recovery,
    policy: Policy,
    now: TimestampMs,
) -> Result<Producers, LogError> {
    let reader = log.reader();
    let snapshot = recovery.producer_snapshot.as_ref();
    // A snapshot that cannot be read is as good as none: the whole log is then looked through.
    let known = snapshot.and_then(|(offset, bytes)| Some((*offset, Producers::from_snapshot(bytes).ok()?)));
    let (from, mut producers) = known.unwrap_or_else(|| (log.log_start(), Producers::default()));
    for row in reader.headers(from) {
        let (_, header) = row?;
        if header.base_offset >= from {
            // When it was appended is not known; its own time is, and no later than that.
            let appended = TimestampMs(header.max_timestamp.0.min(now.0));
            producers.remember(&header, if appended.0 < 0 { now } else { appended });
        }
    }
    producers.expire(now, policy.producer_expiration_ms);
    Ok(producers)
}
