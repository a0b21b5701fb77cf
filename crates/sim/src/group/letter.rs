//! The messages that replicas send each other.

use bytes::Bytes;
use tailrace_replication::raft::ChunkRequest;

/// A message on the network.
#[derive(Clone)]
pub(super) enum Letter {
    Raft(Bytes),
    Ask(Bytes),
    Chunk(ChunkRequest, Option<Bytes>),
}
