//! The options of a replica.

use tailrace_types::ReplicaId;

use super::members::Members;

/// The options of a replica.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// The replica's own id.
    pub id: ReplicaId,
    /// The initial members of the group, used when the replica is opened for the first time. Later changes
    /// are in the log.
    pub members: Members,
    /// Ticks without word from a leader before it starts an election. The actual timeout is drawn between
    /// this many and twice as many.
    pub election_ticks: usize,
    /// Ticks between a leader's heartbeats. Less than `election_ticks`.
    pub heartbeat_ticks: usize,
    /// The seed of the replica's random numbers.
    pub seed: u64,
}
