//! A point in the log that nobody but the leader can get committed: who saw one pass, led while it did.
//!
//! A leader that was cut off does not know it, and takes what it holds for the newest. Before it may say that it knows all that was
//! committed up to some moment, an entry that it proposed after that moment has to be committed. The entry says nothing, takes no
//! offset, and is known to builds before it as one that they leave alone. Raft's own way, a round of heartbeats with a mark (ReadIndex),
//! would write nothing, but followers of earlier builds do not send the mark back.

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
    /// Proposes a barrier, on the leader. Once [`Replica::has_passed`] says so, the high watermark counts all that any replica had
    /// committed before this was called. Blocks on the disk.
    ///
    /// # Errors
    /// [`ProposeError::NotLeader`], [`ProposeError::Busy`]; the log's. It may pass all the same, and nobody hears of it.
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

    /// True when a barrier of this replica's has passed, false while it has not. `None` if the replica does not lead any more, or
    /// again: what became of the barrier says nothing then.
    pub fn has_passed(&self, barrier: &Barrier) -> Option<bool> {
        let raft = &self.node.raft;
        let leads = self.halted().is_none() && self.role() == Role::Leader && raft.term == barrier.term;
        leads.then(|| raft.raft_log.committed >= barrier.index)
    }
}
