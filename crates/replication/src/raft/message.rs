//! What replicas send each other.

use bytes::{Bytes, BytesMut};
use raft::eraftpb::{Message, MessageType};
use tailrace_types::ReplicaId;

use super::wire::{self, WireError};

/// A message from one replica of a group to another.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerMessage(pub(super) Message);

impl PeerMessage {
    /// Who sends it.
    pub fn from(&self) -> ReplicaId {
        ReplicaId(self.0.from)
    }

    /// Whom it is for.
    pub fn to(&self) -> ReplicaId {
        ReplicaId(self.0.to)
    }

    /// The size of a message with entries; `None` of any other.
    pub fn append_bytes(&self) -> Option<usize> {
        let has_entries = self.0.get_msg_type() == MessageType::MsgAppend && !self.0.entries.is_empty();
        has_entries.then(|| wire::encoded_bytes(&self.0))
    }

    /// Appends it to `out`, as bytes. The format is in docs/replication.md.
    pub fn encode(&self, out: &mut BytesMut) {
        let encoded = wire::encode(&self.0, out);
        assert!(encoded.is_some(), "a {:?} does not leave its replica", self.0.get_msg_type());
    }

    /// Reads one message, which must be all of `bytes`. Takes no more memory than these: batches are slices of it.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(bytes: Bytes) -> Result<Self, WireError> {
        wire::decode(bytes).map(Self)
    }
}
