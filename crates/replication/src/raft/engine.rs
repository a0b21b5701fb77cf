//! Calls into the raft engine. The engine panics if it cannot read its log. If the log has reported damage or
//! a disk error, such a panic stops this replica and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use raft::RawNode;
use tailrace_log::Disk;

use super::replica::Replica;
use super::storage::LogStorage;

impl<D: Disk> Replica<D> {
    /// Runs `step` on the engine. `None` if the engine could not read its log, now or earlier. In that case
    /// the replica has stopped, and the engine, which may be in the middle of an operation, is not called
    /// again.
    ///
    /// # Panics
    /// If the engine panics although the log has reported no failure.
    pub(super) fn engine<T>(&mut self, step: impl FnOnce(&mut RawNode<LogStorage<D>>) -> T) -> Option<T> {
        if self.halted().is_some() {
            return None;
        }
        let node = &mut self.node;
        match catch_unwind(AssertUnwindSafe(|| step(node))) {
            Ok(done) => Some(done),
            Err(panic) => {
                if self.node.store().failure.borrow().is_none() {
                    resume_unwind(panic);
                }
                self.note_failure();
                None
            }
        }
    }
}
