//! How a replica is set up.

use tailrace_types::ReplicaId;

use super::members::Members;

/// How a replica is set up.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// Its own id.
    pub id: ReplicaId,
    /// The members when the group was made, for a replica that is opened for the first time. What was changed since is in the log.
    pub members: Members,
    /// Ticks without word from a leader before it asks for votes: drawn anew out of this many to twice as many.
    pub election_ticks: usize,
    /// Ticks between a leader's heartbeats. Less than `election_ticks`.
    pub heartbeat_ticks: usize,
    /// What random numbers are made of.
    pub seed: u64,
}
