//! The kinds and states of groups.

use tailrace_types::TimestampMs;

/// The protocol of a group.
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
    /// Returns Kafka's name of the kind, as in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
        }
    }
}

/// The state of a group.
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
    /// Consumer: members are moving to their assignment.
    Reconciling,
    /// All members have their assignment.
    Stable,
    /// There is no such group.
    Dead,
}

impl GroupState {
    /// Returns Kafka's name of the state.
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

/// The start of the retention of a group's offsets (KIP-211). Offsets of topics that the group reads never
/// expire, nor do those that an open transaction may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetsExpire {
    /// Offsets never expire.
    Never,
    /// From the commit of each offset.
    SinceCommit,
    /// From one time for all offsets.
    Since(TimestampMs),
}
