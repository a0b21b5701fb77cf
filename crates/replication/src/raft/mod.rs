//! A partition with several replicas: a raft group whose log is the partition's log.
//!
//! The engine is the `raft` crate. It decides, and this module stores and answers the partition's calls.
//! Times, random numbers and messages are passed in and out. Deliberately not here: sockets, heartbeats of
//! many groups in one message, and the choice of members (the controller's task).

mod appending;
mod ballot;
mod barrier;
#[cfg(feature = "deliberate-bugs")]
mod bugs;
mod chunk;
mod compact;
mod driving;
mod engine;
mod fetch;
mod hibernation;
mod manifest;
mod members;
mod message;
mod offers;
mod opening;
mod options;
mod pacing;
mod ready;
mod repair;
mod replica;
mod serving;
mod state;
mod storage;
mod trimming;
mod uncommitted;
mod wire;

/// Entry points of the fuzz target `peer_message`, besides the public functions.
#[cfg(fuzzing)]
pub mod fuzzing {
    use raft::eraftpb::ConfChangeV2;

    use super::members::MemberChange;

    /// Decodes the membership change in an entry, as it is passed to the engine.
    pub fn member_change(data: &[u8]) -> Option<ConfChangeV2> {
        MemberChange::decode(data).map(MemberChange::to_raft)
    }
}

pub use appending::{Fate, ProposeError};
pub use ballot::owner;
pub use barrier::Barrier;
pub use chunk::{ChunkReader, ChunkRequest};
pub use compact::Heartbeat;
pub use hibernation::Beats;
pub use members::{MemberChange, Members};
pub use message::PeerMessage;
pub use options::ReplicaOptions;
pub use replica::{Counters, Replica, Role};
#[cfg(feature = "deliberate-bugs")]
pub use state::DeliberateBug;
pub use state::Lease;
pub use tailrace_types::ReplicaId;
pub use wire::{TERM_MAX, WireError};
