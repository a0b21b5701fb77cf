//! Event counts of a coordinator.

/// Events since the coordinator was created, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Completed rebalances of classic groups.
    pub classic_rebalances: u64,
    /// Committed offsets. Each partition counts.
    pub offset_commits: u64,
    /// Expired offsets.
    pub offset_expirations: u64,
    /// Offsets that were deleted, on request or with their topic.
    pub offset_deletions: u64,
}

impl GroupCounts {
    /// Adds the counts of another coordinator.
    pub fn add(&mut self, other: Self) {
        self.classic_rebalances += other.classic_rebalances;
        self.offset_commits += other.offset_commits;
        self.offset_expirations += other.offset_expirations;
        self.offset_deletions += other.offset_deletions;
    }

    /// Raises each count to that of `other`, if that is larger.
    pub fn raise_to(&mut self, other: Self) {
        self.classic_rebalances = self.classic_rebalances.max(other.classic_rebalances);
        self.offset_commits = self.offset_commits.max(other.offset_commits);
        self.offset_expirations = self.offset_expirations.max(other.offset_expirations);
        self.offset_deletions = self.offset_deletions.max(other.offset_deletions);
    }
}
