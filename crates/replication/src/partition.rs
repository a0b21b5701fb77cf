//! A partition, with one replica or several.

use bytes::Bytes;
use tailrace_log::{Compaction, Damage, Discarded, Disk, LogConfig, LogError, Patch, Rewritten, Trim};
use tailrace_records::BatchHeader;
use tailrace_types::{LeaderEpoch, Offset, TimestampMs};

use crate::append::{AppendError, Appended};
use crate::compaction::CompactionPolicy;
use crate::policy::Policy;
use crate::producers::{Producers, TransactionMarker};
use crate::raft::{ProposeError, Replica};
use crate::reader::PartitionReader;
use crate::solo::Solo;
use crate::ticket::{SyncOutcome, SyncTicket};
use crate::verification::VerificationGuard;

/// A partition on one node. [`Solo`] documents what both kinds have in common.
#[derive(Debug)]
pub enum Partition<D: Disk> {
    /// The partition has one replica.
    Solo(Box<Solo<D>>),
    /// This is one of several replicas.
    Replica(Box<Replica<D>>),
}

/// Calls the same method of either kind.
macro_rules! either {
    ($self:expr, $core:ident => $call:expr) => {
        match $self {
            Partition::Solo($core) => $call,
            Partition::Replica($core) => $call,
        }
    };
}

impl<D: Disk> Partition<D> {
    /// See [`Solo::reader`].
    pub fn reader(&self) -> PartitionReader<D> {
        either!(self, core => core.reader())
    }

    /// See [`Solo::producers`].
    pub fn producers(&self) -> &Producers {
        either!(self, core => core.producers())
    }

    /// See [`Solo::policy`].
    pub fn policy(&self) -> Policy {
        either!(self, core => core.policy())
    }

    /// See [`Solo::halted`].
    pub fn halted(&self) -> Option<&str> {
        either!(self, core => core.halted())
    }

    /// Returns the replica if it is one of several.
    pub fn replica(&mut self) -> Option<&mut Replica<D>> {
        match self {
            Self::Solo(_) => None,
            Self::Replica(replica) => Some(replica),
        }
    }

    /// Like [`Partition::replica`], by shared reference.
    pub fn as_replica(&self) -> Option<&Replica<D>> {
        match self {
            Self::Solo(_) => None,
            Self::Replica(replica) => Some(replica),
        }
    }

    /// See [`Solo::sync_due`].
    pub fn sync_due(&self) -> bool {
        either!(self, core => core.sync_due())
    }

    /// Returns the epoch in which this node takes appends. See [`Replica::leads`]. A single replica always
    /// leads.
    pub fn leads(&self) -> Option<LeaderEpoch> {
        match self {
            Self::Solo(solo) => Some(solo.reader().epoch()),
            Self::Replica(replica) => replica.leads(),
        }
    }

    /// See [`Solo::needs_epoch`]. Always false for a replica, whose elections start its epochs.
    pub fn needs_epoch(&self) -> bool {
        match self {
            Self::Solo(solo) => solo.needs_epoch(),
            Self::Replica(_) => false,
        }
    }

    /// See [`Solo::begin_epoch`].
    ///
    /// # Errors
    /// As there.
    pub fn begin_epoch(&mut self) -> Result<(), AppendError> {
        match self {
            Self::Solo(solo) => solo.begin_epoch(),
            Self::Replica(_) => Ok(()),
        }
    }

    /// See [`Solo::append_verified`] and [`Replica::append`].
    ///
    /// # Errors
    /// As there.
    pub fn append(
        &mut self,
        header: &BatchHeader,
        bytes: &Bytes,
        guard: Option<VerificationGuard>,
        now: TimestampMs,
    ) -> Result<Appended, ProposeError> {
        match self {
            Self::Solo(solo) => Ok(solo.append_verified(header, bytes, guard, now)?),
            Self::Replica(replica) => replica.append(header, bytes.clone(), guard, now),
        }
    }

    /// See [`Solo::append_marker`].
    ///
    /// # Errors
    /// As there, and [`Replica::append_marker`].
    pub fn append_marker(
        &mut self,
        marker: &TransactionMarker,
        now: TimestampMs,
    ) -> Result<Appended, ProposeError> {
        match self {
            Self::Solo(solo) => Ok(solo.append_marker(marker, now)?),
            Self::Replica(replica) => replica.append_marker(marker, now),
        }
    }

    /// See [`Solo::begin_verification`].
    pub fn begin_verification(
        &mut self,
        header: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> VerificationGuard {
        either!(self, core => core.begin_verification(header, epochs_are_bumped, now))
    }

    /// See [`Solo::begin_verification_if_needed`].
    pub fn begin_verification_if_needed(
        &mut self,
        header: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> Option<VerificationGuard> {
        either!(self, core => core.begin_verification_if_needed(header, epochs_are_bumped, now))
    }

    /// See [`Solo::begin_sync`].
    pub fn begin_sync(&mut self, checkpoint: bool) -> Option<SyncTicket<D>> {
        either!(self, core => core.begin_sync(checkpoint))
    }

    /// See [`Solo::finish_sync`].
    pub fn finish_sync(
        &mut self,
        ticket: &SyncTicket<D>,
        result: &Result<(), LogError>,
        now: TimestampMs,
    ) -> SyncOutcome {
        match self {
            Self::Solo(solo) => solo.finish_sync(ticket, result),
            Self::Replica(replica) => replica.finish_sync(ticket, result, now),
        }
    }

    /// See [`Solo::configure`].
    pub fn configure(&mut self, config: LogConfig, policy: Policy, now: TimestampMs) {
        match self {
            Self::Solo(solo) => solo.configure(config, policy),
            Self::Replica(replica) => replica.configure(config, policy, now),
        }
    }

    /// See [`Solo::retain`]. Blocks on the disk if this is one of several replicas.
    ///
    /// # Errors
    /// As there.
    pub fn retain(&mut self, now: TimestampMs) -> Result<Option<Trim<D>>, AppendError> {
        either!(self, core => core.retain(now))
    }

    /// See [`Solo::advance_log_start`]. `None` if this is one of several replicas: see
    /// [`Replica::advance_log_start`].
    ///
    /// # Errors
    /// As there.
    pub fn advance_log_start(
        &mut self,
        to: Offset,
        now: TimestampMs,
    ) -> Result<Option<Trim<D>>, ProposeError> {
        match self {
            Self::Solo(solo) => Ok(Some(solo.advance_log_start(to)?)),
            Self::Replica(replica) => replica.advance_log_start(to, now).map(|()| None),
        }
    }

    /// See [`Solo::finish_trim`].
    pub fn finish_trim(&mut self, trim: &Trim<D>, result: &Result<(), LogError>) {
        either!(self, core => core.finish_trim(trim, result));
    }

    /// See [`Solo::begin_compaction`].
    ///
    /// # Errors
    /// As there.
    pub fn begin_compaction(
        &mut self,
        policy: &CompactionPolicy,
        now: TimestampMs,
    ) -> Result<Option<Compaction<D>>, AppendError> {
        either!(self, core => core.begin_compaction(policy, now))
    }

    /// See [`Solo::close_old_segment`].
    pub fn close_old_segment(&mut self, now: TimestampMs) -> bool {
        either!(self, core => core.close_old_segment(now))
    }

    /// See [`Solo::install_compacted`].
    ///
    /// # Errors
    /// As there.
    pub fn install_compacted(
        &mut self,
        rewritten: Rewritten<D>,
    ) -> Result<Result<Trim<D>, Discarded<D>>, AppendError> {
        either!(self, core => core.install_compacted(rewritten))
    }

    /// Starts to rebuild the segment that holds `offset`. The segment takes no more appends from then on.
    /// `None` if there is no such segment, or if compaction is under way. The caller fills the patch without
    /// holding the partition, and passes the result to [`Partition::install_compacted`].
    ///
    /// # Errors
    /// The log's errors.
    pub fn begin_patch(&mut self, offset: Offset) -> Result<Option<Patch<D>>, LogError> {
        either!(self, core => core.begin_patch(offset))
    }

    /// See [`Solo::repair_index`].
    ///
    /// # Errors
    /// As there.
    pub fn repair_index(&mut self, offset: Offset) -> Result<(), LogError> {
        either!(self, core => core.repair_index(offset))
    }

    /// See [`Solo::scrub_files`].
    ///
    /// # Errors
    /// As there.
    pub fn scrub_files(&mut self) -> Result<Vec<Damage>, LogError> {
        either!(self, core => core.scrub_files())
    }

    /// See [`Solo::flush_ms_due`].
    pub fn flush_ms_due(&self, now: TimestampMs) -> bool {
        either!(self, core => core.flush_ms_due(now))
    }

    /// See [`Solo::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(self) -> Result<(), AppendError> {
        either!(self, core => core.close())
    }
}
