//! What a coordinator counts.

/// What has happened since the coordinator was made, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Rebalances of classic groups that were completed.
    pub classic_rebalances: u64,
    /// Offsets that were committed, each partition counted.
    pub offset_commits: u64,
    /// Offsets that have expired.
    pub offset_expirations: u64,
    /// Offsets that were deleted, on request or with their topic.
    pub offset_deletions: u64,
}

impl GroupCounts {
    /// Adds those of another coordinator.
    pub fn add(&mut self, other: Self) {
        self.classic_rebalances += other.classic_rebalances;
        self.offset_commits += other.offset_commits;
        self.offset_expirations += other.offset_expirations;
        self.offset_deletions += other.offset_deletions;
    }

    /// Raises each count to another's, where that is larger.
    pub fn raise_to(&mut self, other: Self) {
        self.classic_rebalances = self.classic_rebalances.max(other.classic_rebalances);
        self.offset_commits = self.offset_commits.max(other.offset_commits);
        self.offset_expirations = self.offset_expirations.max(other.offset_expirations);
        self.offset_deletions = self.offset_deletions.max(other.offset_deletions);
    }
}
