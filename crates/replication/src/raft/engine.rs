//! The engine's steps. It panics where it cannot read what it needs of its log: where the log has told of damage, or of a disk that
//! fails, that stops the replica and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use raft::RawNode;
use tailrace_log::Disk;

use super::replica::Replica;
use super::storage::LogStorage;

impl<D: Disk> Replica<D> {
    /// Lets the engine do something. `None` if it could not read its log, now or before: then the replica has stopped, and the engine,
    /// which may be half-way through something, is not asked again.
    ///
    /// # Panics
    /// As the engine does, if the log has told of no failure.
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
