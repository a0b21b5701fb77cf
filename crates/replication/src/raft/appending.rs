//! Appends of clients on a leader, and their proposals.

use bytes::{Bytes, BytesMut};
use raft::eraftpb::{Entry, Message, MessageType};
use tailrace_log::Disk;
use tailrace_records::{BatchHeader, EndTransactionMarker, PREFIX_BYTES};
use tailrace_types::{HighWatermark, ReplicaId, TimestampMs};

use super::members::MemberChange;
use super::replica::{Replica, Role};
use crate::append::{AppendError, Appended};
use crate::ledger::refusal;
use crate::producers::{Producers, TransactionMarker};
use crate::verification::VerificationGuard;

/// What became of a batch that a leader took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not known yet.
    Open,
    /// Committed.
    Committed,
    /// Truncated on this replica. Another leader may still have it, so the client must retry.
    Lost,
}

/// The reason why a leader did not take a batch. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// Another replica leads, or none does.
    #[error("this replica does not lead the partition")]
    NotLeader {
        /// The leader, if known.
        leader: Option<ReplicaId>,
    },
    /// Too much is uncommitted, leadership is being transferred, or another membership change is under way.
    /// Retry.
    #[error("the partition's leader accepts no appends at the moment")]
    Busy,
    /// A leader cannot remove itself. It has to transfer leadership first.
    #[error("a leader cannot be removed from its group")]
    OwnRemoval,
    /// An error that a single replica can have too.
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// The most uncommitted bytes, not counting one batch beyond that. Above it, appends are refused.
const UNCOMMITTED_BYTES_MAX: u64 = 64 << 20;

impl<D: Disk> Replica<D> {
    /// Appends one validated batch of a client on the leader, or recognises it as a repeated one. It counts
    /// once it is committed.
    ///
    /// # Errors
    /// Those of [`Solo::append_verified`](crate::Solo::append_verified), [`ProposeError::NotLeader`] and
    /// [`ProposeError::Busy`]. Nothing of the batch is stored then.
    pub fn append(
        &mut self,
        header: &BatchHeader,
        bytes: Bytes,
        guard: Option<VerificationGuard>,
        now: TimestampMs,
    ) -> Result<Appended, ProposeError> {
        self.lead()?;
        if let Some(original) = self.ledger().check(header, guard)? {
            return Ok(self.ledger().duplicate(original));
        }
        self.propose(header, bytes, now, |producers, stamped| producers.remember(stamped, now))
    }

    /// Returns what became of an append. The high watermark alone does not tell: under a new leader the same
    /// offset may hold something else.
    pub fn fate(&self, appended: &Appended) -> Fate {
        let end = appended.committed_at.offset();
        let ledger = self.ledger();
        let epoch = ledger.log.reader().epoch_at(end.plus(-1));
        if ledger.log.log_end().offset() < end || epoch != Some(appended.epoch) {
            return Fate::Lost;
        }
        if ledger.reader.high_watermark().offset() < end { Fate::Open } else { Fate::Committed }
    }

    /// Appends the marker that ends a producer's transaction, on the leader.
    ///
    /// # Errors
    /// Those of [`Solo::append_marker`](crate::Solo::append_marker), [`ProposeError::NotLeader`] and
    /// [`ProposeError::Busy`].
    ///
    /// # Panics
    /// If the producer has no id.
    pub fn append_marker(
        &mut self,
        marker: &TransactionMarker,
        now: TimestampMs,
    ) -> Result<Appended, ProposeError> {
        self.lead()?;
        assert!(marker.producer_id.get() >= 0, "a marker without a producer");
        self.ledger().producers.check_marker(marker).map_err(AppendError::from)?;
        let (committed, coordinator_epoch) = (marker.committed, marker.coordinator_epoch);
        let end = EndTransactionMarker { committed, coordinator_epoch };
        let kind = self.ledger().policy.timestamp_type;
        let (header, bytes) = end.build(marker.producer_id, marker.producer_epoch, now, kind);
        let appended = self.propose(&header, bytes, now, |producers, stamped| {
            producers.remember_marker(stamped, end, now);
        })?;
        self.ledger().reader.publish_aborted(self.ledger().producers.aborted());
        Ok(appended)
    }

    /// Writes before it proposes, so that a full disk refuses the batch before raft knows of it.
    fn propose(
        &mut self,
        header: &BatchHeader,
        bytes: Bytes,
        now: TimestampMs,
        remember: impl FnOnce(&mut Producers, &BatchHeader),
    ) -> Result<Appended, ProposeError> {
        let mut stamped = *header;
        stamped.base_offset = self.ledger().log.log_end().offset();
        stamped.leader_epoch = self.epoch();
        let data = stamp(&stamped, bytes);
        let index = self.ledger().log.next_raft_index();
        let entry = Entry { data: data.clone(), ..Entry::default() };
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.options.id.0;
        message.set_entries(vec![entry].into());
        let rolled = self.ledger_mut().write(&stamped, index, &data, now, remember)?;
        let stepped = self.engine(|node| node.raft.step(message));
        self.ledger().refuse_if_halted()?;
        if !matches!(stepped, Some(Ok(()))) {
            self.take_back(index, now).map_err(|error| ProposeError::Append(refusal(error)))?;
            return Err(ProposeError::Busy);
        }
        self.uncommitted.push(index.0, stamped.next_offset(), stamped.total_bytes());
        self.carry_on(now);
        Ok(Appended {
            base_offset: stamped.base_offset,
            committed_at: HighWatermark(stamped.next_offset().get()),
            epoch: stamped.leader_epoch,
            duplicate: None,
            sync_due: self.ledger().sync_due(),
            checkpoint_due: rolled,
        })
    }

    /// Proposes a membership change.
    ///
    /// # Errors
    /// [`ProposeError::NotLeader`]. [`ProposeError::Busy`] while another change is under way.
    /// [`ProposeError::OwnRemoval`].
    pub fn change_members(&mut self, change: MemberChange, now: TimestampMs) -> Result<(), ProposeError> {
        self.lead()?;
        if change == MemberChange::Remove(self.options.id) {
            return Err(ProposeError::OwnRemoval);
        }
        if self.node.raft.has_pending_conf() {
            return Err(ProposeError::Busy);
        }
        let proposed = self.engine(|node| node.propose_conf_change(Vec::new(), change.to_raft()));
        self.ledger().refuse_if_halted()?;
        proposed.and_then(Result::ok).ok_or(ProposeError::Busy)?;
        self.carry_on(now);
        Ok(())
    }

    /// Only a leader appends, and only while it is not transferring leadership and not too much is
    /// uncommitted.
    pub(super) fn lead(&self) -> Result<(), ProposeError> {
        self.ledger().refuse_if_halted()?;
        let raft = &self.node.raft;
        match self.role() {
            Role::Leader if raft.lead_transferee.is_some() => Err(ProposeError::Busy),
            Role::Leader if self.uncommitted.bytes() >= UNCOMMITTED_BYTES_MAX => Err(ProposeError::Busy),
            Role::Leader => Ok(()),
            Role::Follower(leader) => Err(ProposeError::NotLeader { leader }),
            Role::Candidate => Err(ProposeError::NotLeader { leader: None }),
        }
    }
}

/// Returns the batch as the log stores it. Copies the bytes only if they are shared.
fn stamp(header: &BatchHeader, bytes: Bytes) -> Bytes {
    let mut bytes = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    bytes[..PREFIX_BYTES].copy_from_slice(&header.prefix());
    bytes.freeze()
}
