//! Messages between replicas.

use bytes::{Bytes, BytesMut};
use raft::eraftpb::{Message, MessageType};
use tailrace_types::ReplicaId;

use super::wire::{self, WireError};

/// A message from one replica of a group to another.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerMessage(pub(super) Message);

impl PeerMessage {
    /// The sender.
    pub fn from(&self) -> ReplicaId {
        ReplicaId(self.0.from)
    }

    /// The receiver.
    pub fn to(&self) -> ReplicaId {
        ReplicaId(self.0.to)
    }

    /// Returns the size of a message with entries. `None` for any other message.
    pub fn append_bytes(&self) -> Option<usize> {
        let has_entries = self.0.get_msg_type() == MessageType::MsgAppend && !self.0.entries.is_empty();
        has_entries.then(|| wire::encoded_bytes(&self.0))
    }

    /// Appends the encoded message to `out`. docs/replication.md describes the format.
    pub fn encode(&self, out: &mut BytesMut) {
        let encoded = wire::encode(&self.0, out);
        assert!(encoded.is_some(), "a {:?} does not leave its replica", self.0.get_msg_type());
    }

    /// Decodes one message, which must take up all of `bytes`. Allocates nothing for batches: they are slices
    /// of `bytes`.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(bytes: Bytes) -> Result<Self, WireError> {
        wire::decode(bytes).map(Self)
    }
}
