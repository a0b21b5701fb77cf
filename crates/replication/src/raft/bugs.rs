//! Bugs on purpose: the simulator must notice each. Compiled only for it.

use tailrace_log::Disk;

use super::replica::{Replica, Role};
use super::state::DeliberateBug;

impl<D: Disk> Replica<D> {
    /// From now on.
    pub fn misbehave(&mut self, bug: DeliberateBug) {
        self.bug = Some(bug);
        if bug == DeliberateBug::CountOlderTerms {
            self.node.raft.max_msg_size = 0;
        }
    }

    /// What it takes for committed, if that is wrong.
    pub(super) fn counted(&self) -> Option<u64> {
        let counts = self.bug == Some(DeliberateBug::CountOlderTerms) && self.role() == Role::Leader;
        let progress = |id: &u64| self.node.raft.prs().get(*id).map_or(0, |progress| progress.matched);
        let mut matched: Vec<u64> = self.node.store().ballot.members.voters.iter().map(progress).collect();
        matched.sort_unstable();
        let majority = matched.len().checked_sub(1)? / 2;
        counts.then(|| matched[majority])
    }
}
