//! Deliberate bugs, each of which the simulator must detect. Compiled only for the simulator.

use tailrace_log::Disk;

use super::replica::{Replica, Role};
use super::state::DeliberateBug;

impl<D: Disk> Replica<D> {
    /// Enables `bug` from now on.
    pub fn misbehave(&mut self, bug: DeliberateBug) {
        self.bug = Some(bug);
        if bug == DeliberateBug::CountOlderTerms {
            self.node.raft.max_msg_size = 0;
        }
    }

    /// Returns the index that it wrongly counts as committed.
    pub(super) fn counted(&self) -> Option<u64> {
        let counts = self.bug == Some(DeliberateBug::CountOlderTerms) && self.role() == Role::Leader;
        let progress = |id: &u64| self.node.raft.prs().get(*id).map_or(0, |progress| progress.matched);
        let mut matched: Vec<u64> = self.node.store().ballot.members.voters.iter().map(progress).collect();
        matched.sort_unstable();
        let majority = matched.len().checked_sub(1)? / 2;
        counts.then(|| matched[majority])
    }
}
