//! What kinds of groups there are, and what a group of any kind can be doing.

use tailrace_types::TimestampMs;

/// Which protocol a group follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// JoinGroup and SyncGroup, or no members at all: a "simple" consumer that only commits offsets.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848).
    Consumer,
    /// ShareGroupHeartbeat (KIP-932).
    Share,
}

impl GroupKind {
    /// Kafka's name of it, in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
        }
    }
}

/// What a group is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupState {
    /// It has no members.
    Empty,
    /// Classic: waiting for members to join.
    PreparingRebalance,
    /// Classic: waiting for the leader's assignment.
    CompletingRebalance,
    /// Consumer: the assignment is being computed.
    Assigning,
    /// Consumer: members are on their way to their assignment.
    Reconciling,
    /// Everybody has what they shall have.
    Stable,
    /// There is no such group.
    Dead,
}

impl GroupState {
    /// Kafka's name of it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// From when on the retention of a group's offsets is counted (KIP-211). Offsets of topics that the group reads never
/// expire, nor those that a transaction is about to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetsExpire {
    /// Not at all.
    Never,
    /// Each from its commit.
    SinceCommit,
    /// All from one time.
    Since(TimestampMs),
}
