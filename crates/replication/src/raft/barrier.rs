//! A point in the log that only the leader can get committed. If it passes, the replica led while it did.
//!
//! A leader that was cut off does not know it, and takes its own log for the newest. Before it may claim to
//! know everything committed up to some moment, an entry that it proposed after that moment has to be
//! committed. This entry is empty and takes no offset. Earlier builds ignore such entries. Raft's own way, a
//! round of heartbeats with a mark (ReadIndex), would write nothing, but followers of earlier builds do not
//! send the mark back.

use raft::eraftpb::{Message, MessageType};
use tailrace_log::Disk;
use tailrace_types::TimestampMs;

use super::appending::ProposeError;
use super::replica::{Replica, Role};
use super::storage::barrier_entry;

/// A barrier that was proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    index: u64,
    term: u64,
}

impl<D: Disk> Replica<D> {
    /// Proposes a barrier, on the leader. Once [`Replica::has_passed`] reports true, the high watermark
    /// covers everything that any replica had committed before this call. Blocks on the disk.
    ///
    /// # Errors
    /// [`ProposeError::NotLeader`], [`ProposeError::Busy`], and the log's errors. The barrier may pass even
    /// after an error, unobserved.
    pub fn begin_barrier(&mut self, now: TimestampMs) -> Result<Barrier, ProposeError> {
        self.lead()?;
        let before = self.node.raft.raft_log.last_index();
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.options.id.0;
        message.set_entries(vec![barrier_entry()].into());
        let stepped = self.engine(|node| node.raft.step(message));
        self.ledger().refuse_if_halted()?;
        stepped.and_then(Result::ok).ok_or(ProposeError::Busy)?;
        let raft = &self.node.raft;
        let barrier = Barrier { index: raft.raft_log.last_index(), term: raft.term };
        assert_eq!(barrier.index, before + 1, "a barrier is one entry");
        self.carry_on(now);
        Ok(barrier)
    }

    /// True once a barrier of this replica has passed, false until then. `None` if the replica is no longer
    /// the leader of the barrier's term. The barrier tells nothing then.
    pub fn has_passed(&self, barrier: &Barrier) -> Option<bool> {
        let raft = &self.node.raft;
        let leads = self.halted().is_none() && self.role() == Role::Leader && raft.term == barrier.term;
        leads.then(|| raft.raft_log.committed >= barrier.index)
    }
}
