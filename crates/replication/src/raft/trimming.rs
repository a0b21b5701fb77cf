//! Retention, DeleteRecords and compaction of a replica.
//!
//! They touch only what is below the start of raft's log. That start is raised first, durably, and never
//! beyond what is applied here. Each replica trims and compacts by itself. The log start set by DeleteRecords
//! is an entry of the log.

use raft::eraftpb::{Message, MessageType};
use tailrace_log::{Compaction, CompactionSettings, Discarded, Disk, LogError, Rewritten, Row, Trim};
use tailrace_types::{HighWatermark, Offset, RaftIndex, TimestampMs};

use super::appending::ProposeError;
use super::replica::Replica;
use super::storage::{log_start_entry, log_start_of};
use crate::append::AppendError;
use crate::compaction::CompactionPolicy;
use crate::ledger::refusal;

/// Useless entries of the side file before it is rewritten. Each takes about 30 bytes, and a rewrite costs
/// two syncs.
const USELESS_ENTRIES_MAX: usize = 64;

impl<D: Disk> Replica<D> {
    /// See [`Solo::retain`](crate::Solo::retain). Also removes what DeleteRecords has cut off.
    ///
    /// # Errors
    /// [`AppendError`] if the replica is halted, or its ballot or its log cannot be read or written.
    pub fn retain(&mut self, now: TimestampMs) -> Result<Option<Trim<D>>, AppendError> {
        self.ledger().refuse_if_halted()?;
        let free = self.node.store().applied_end().map_err(refusal)?;
        let ledger = self.ledger_mut();
        ledger.producers.expire(now, ledger.policy.producer_expiration_ms);
        ledger.verifications.expire(now, ledger.policy.producer_expiration_ms);
        let free = HighWatermark(free.min(ledger.reader.high_watermark().offset()).get());
        let is_due = ledger.log.retention_is_due(free, now);
        if is_due && matches!(ledger.log.last_row_due(free, now), Err(LogError::Damaged { .. })) {
            // Its index is being rebuilt.
            return Ok(None);
        }
        if is_due && !self.may_keep_table() {
            self.ledger().refuse_if_halted()?;
            // The removed batches would be in no table. Try later.
            return Ok(None);
        }
        let sections = if is_due { self.ledger().sections() } else { None };
        let ledger = self.ledger_mut();
        let trim = ledger.log.retain_with(free, now, sections);
        ledger.publish_stable();
        if let Some(trim) = &trim {
            let result = trim.last_row().and_then(|last| self.give_up_entries(last));
            self.halt_unless(result)?;
            self.keep_offered(trim);
        }
        Ok(trim)
    }

    /// Has all replicas move their log start forward (DeleteRecords), on the leader. The move has happened
    /// here once [`PartitionReader::log_start`](crate::PartitionReader::log_start) shows it. It is then as
    /// durable as a committed batch. The next [`Replica::retain`] removes the files.
    ///
    /// # Errors
    /// [`ProposeError::NotLeader`], [`ProposeError::Busy`].
    ///
    /// # Panics
    /// If `to` is beyond the high watermark. The caller has to refuse that.
    pub fn advance_log_start(&mut self, to: Offset, now: TimestampMs) -> Result<(), ProposeError> {
        self.lead()?;
        let committed = self.ledger().reader.high_watermark().offset();
        assert!(to <= committed, "log start {to} beyond the high watermark");
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.options.id.0;
        message.set_entries(vec![log_start_entry(to)].into());
        let stepped = self.engine(|node| node.raft.step(message));
        self.ledger().refuse_if_halted()?;
        stepped.and_then(Result::ok).ok_or(ProposeError::Busy)?;
        self.carry_on(now);
        Ok(())
    }

    /// See [`Solo::finish_trim`](crate::Solo::finish_trim).
    pub fn finish_trim(&mut self, trim: &Trim<D>, result: &Result<(), LogError>) {
        match result {
            Ok(()) => {
                let ledger = self.ledger_mut();
                ledger.log.mark_checkpointed(trim.checkpoint());
                if ledger.producers.trim(trim.log_start()) {
                    ledger.reader.publish_aborted(ledger.producers.aborted());
                }
                if let Err(error) = self.node.mut_store().keep_first_dirty() {
                    return self.fail(&error);
                }
                self.prune_entries(trim.log_start());
                self.release();
            }
            // The log start stays moved. The next trim removes the files.
            Err(error) if error.is_no_space() => {}
            Err(error) => self.fail(error),
        }
    }

    /// See [`Solo::close_old_segment`](crate::Solo::close_old_segment). Each replica closes its own segments
    /// without telling others, so a hibernating group stays asleep.
    pub fn close_old_segment(&mut self, now: TimestampMs) -> bool {
        self.ledger_mut().log.close_old_segment(now)
    }

    /// See [`Solo::begin_compaction`](crate::Solo::begin_compaction). Also `None` while a snapshot is being
    /// fetched, because it would be replaced by the files of a round.
    ///
    /// # Errors
    /// [`AppendError`] if the replica is halted, or its log cannot be read.
    pub fn begin_compaction(
        &mut self,
        policy: &CompactionPolicy,
        now: TimestampMs,
    ) -> Result<Option<Compaction<D>>, AppendError> {
        self.ledger().refuse_if_halted()?;
        if self.fetch.is_some() {
            return Ok(None);
        }
        let free = self.node.store().applied_end().map_err(refusal)?;
        let ledger = self.ledger_mut();
        let mut limits = ledger.reader.compaction_limits(policy, now);
        limits.stable = limits.stable.min(free);
        let settings = CompactionSettings {
            limits,
            committed: ledger.reader.high_watermark(),
            delete_retention_ms: policy.delete_retention_ms,
            io_bytes: policy.io_bytes,
            producers: ledger.producers.last_records().collect(),
        };
        ledger.log.begin_compaction(settings).map_err(refusal)
    }

    /// See [`Solo::install_compacted`](crate::Solo::install_compacted).
    ///
    /// # Errors
    /// [`AppendError`] if the replica is halted, or its ballot cannot be written. The inner error is no
    /// failure: the rewritten segments have been removed in the meantime.
    pub fn install_compacted(
        &mut self,
        rewritten: Rewritten<D>,
    ) -> Result<Result<Trim<D>, Discarded<D>>, AppendError> {
        self.ledger().refuse_if_halted()?;
        let result = rewritten.last_row().and_then(|last| self.give_up_entries(last));
        self.halt_unless(result)?;
        let keeps_table = self.may_keep_table();
        self.ledger().refuse_if_halted()?;
        let installed = self.ledger_mut().install_compacted(rewritten, keeps_table)?;
        if let Ok(trim) = &installed {
            self.keep_offered(trim);
        }
        Ok(installed)
    }

    /// Drops the entries up to that of `last` from raft's log, and what is before the log start from the log.
    fn give_up_entries(&mut self, last: Option<Row>) -> Result<(), LogError> {
        let storage = self.node.mut_store();
        storage.keep_log_start()?;
        last.map_or(Ok(()), |last| storage.raise_start(&last))
    }

    /// Halts the replica after an error, because a decision made in memory must not take effect if it cannot
    /// be saved.
    fn halt_unless(&mut self, result: Result<(), LogError>) -> Result<(), AppendError> {
        result.map_err(|error| {
            self.fail(&error);
            refusal(error)
        })
    }

    /// Removes entries from the side file that are snapshot by now. Entries whose log start is not durable
    /// yet stay.
    fn prune_entries(&mut self, log_start: Offset) {
        let storage = self.node.mut_store();
        let log = &mut storage.ledger.log;
        let below = log.prunable_below(RaftIndex(storage.ballot.start.index + 1));
        let moves_on = |payload: &[u8]| log_start_of(payload).is_some_and(|to| to > log_start);
        let entries = log.entries();
        let useless =
            entries.iter().take_while(|entry| entry.raft_index < below && !moves_on(&entry.payload)).count();
        let below = entries.get(useless).map_or(below, |entry| entry.raft_index.min(below));
        if useless >= USELESS_ENTRIES_MAX {
            // Without room for the smaller file, the larger one stays. Any other failure halts the replica.
            let _ = log.prune_entries(below);
        }
    }
}
