//! What members of several kinds of groups have in common: who they are, and what they are told.

use std::sync::Arc;

use bytes::Bytes;

use super::assignors::Partitions;

/// Epoch with which a member joins.
pub(crate) const EPOCH_JOIN: i32 = 0;
/// Epoch with which a member leaves.
pub(crate) const EPOCH_LEAVE: i32 = -1;

/// Who a member is and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The client's own name for itself.
    pub client_id: String,
    /// Its address.
    pub client_host: String,
}

/// Opaque bytes of a member, under the name of the protocol that understands them.
pub type NamedBytes = (String, Bytes);

/// The answer to a heartbeat of a consumer group (KIP-848) or a share group (KIP-932).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeartbeatAnswer {
    /// The member's id.
    pub member: Arc<str>,
    /// The epoch that it is in now.
    pub epoch: i32,
    /// When the next heartbeat is due, in milliseconds.
    pub heartbeat_interval_ms: i32,
    /// The partitions that it may use, if that has changed or it has asked.
    pub assignment: Option<Partitions>,
}
