//! The calls that serve clients, shared with a partition of one replica.

use raft::INVALID_ID;
use tailrace_log::{Disk, LogConfig, LogError};
use tailrace_records::BatchHeader;
use tailrace_types::{LeaderEpoch, Offset, ReplicaId, TimestampMs};

use super::message::PeerMessage;
use super::replica::{Replica, Role};
use super::storage::epoch_of;
use crate::policy::Policy;
use crate::producers::Producers;
use crate::verification::VerificationGuard;

impl<D: Disk> Replica<D> {
    /// The replica's own id.
    pub fn id(&self) -> ReplicaId {
        self.options.id
    }

    /// The producers known to the partition, as of the log's end.
    pub fn producers(&self) -> &Producers {
        &self.ledger().producers
    }

    /// The policy for appends.
    pub fn policy(&self) -> Policy {
        self.ledger().policy
    }

    /// Applies a changed configuration.
    pub fn configure(&mut self, config: LogConfig, policy: Policy, now: TimestampMs) {
        let ledger = self.ledger_mut();
        ledger.log.set_config(config);
        ledger.policy = policy;
        if self.halted().is_none() {
            // What waited for a sync may count now.
            self.release();
            self.carry_on(now);
        }
    }

    /// Returns the epoch in which it leads, once an entry of its own term is committed, and with it all
    /// earlier entries. Only then does it know what is committed. `None` on any other replica, and during a
    /// leadership transfer.
    pub fn leads(&self) -> Option<LeaderEpoch> {
        let raft = &self.node.raft;
        let leads = self.halted().is_none()
            && self.role() == Role::Leader
            && raft.lead_transferee.is_none()
            && self.counted_in == raft.term;
        leads.then(|| epoch_of(raft.term))
    }

    /// Returns the leader, as far as this replica knows.
    pub fn leader(&self) -> Option<ReplicaId> {
        let leader = self.node.raft.leader_id;
        (leader != INVALID_ID).then_some(ReplicaId(leader))
    }

    /// On a leader: one past the last record that `count` voters have durably, at most the log's end. If
    /// `count` exceeds a majority, this may be below the high watermark (`min.insync.replicas`).
    ///
    /// # Errors
    /// The log's errors.
    pub fn replicated_to(&self, count: usize) -> Result<Offset, LogError> {
        let raft = &self.node.raft;
        let progress = raft.prs();
        let voters = progress.conf().voters();
        let mut matched: Vec<u64> =
            progress.iter().filter(|(id, _)| voters.contains(**id)).map(|(_, p)| p.matched).collect();
        matched.sort_unstable_by(|a, b| b.cmp(a));
        let Some(index) = count.checked_sub(1).and_then(|at| matched.get(at)).copied() else {
            return Ok(Offset(0));
        };
        let store = self.node.store();
        store.offset_at(index.min(store.known) + 1)
    }

    /// On a leader: one past the last record that a member has durably, as far as known here. `None` if
    /// `replica` is not a member, or if this replica does not lead.
    ///
    /// # Errors
    /// The log's errors.
    pub fn stored_by(&self, replica: ReplicaId) -> Result<Option<Offset>, LogError> {
        let matched = self.node.raft.prs().get(replica.0).map(|progress| progress.matched);
        let Some(matched) = matched.filter(|_| self.role() == Role::Leader) else { return Ok(None) };
        let store = self.node.store();
        store.offset_at(matched.min(store.known) + 1).map(Some)
    }

    /// See [`Solo::begin_verification`](crate::Solo::begin_verification).
    pub fn begin_verification(
        &mut self,
        header: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> VerificationGuard {
        self.ledger_mut().verifications.begin(header, epochs_are_bumped, now)
    }

    /// See [`Solo::begin_verification_if_needed`](crate::Solo::begin_verification_if_needed).
    pub fn begin_verification_if_needed(
        &mut self,
        header: &BatchHeader,
        epochs_are_bumped: bool,
        now: TimestampMs,
    ) -> Option<VerificationGuard> {
        self.ledger_mut().begin_verification_if_needed(header, epochs_are_bumped, now)
    }

    /// True if `flush.ms` requires a sync now.
    pub fn flush_ms_due(&self, now: TimestampMs) -> bool {
        self.ledger().flush_ms_due(now)
    }

    /// True if anything written is not synced yet.
    pub fn sync_due(&self) -> bool {
        self.ledger().sync_due()
    }
}

impl PeerMessage {
    /// Bytes of the batches that the message carries.
    pub fn weight(&self) -> usize {
        self.0.entries.iter().map(|entry| entry.data.len()).sum()
    }
}
