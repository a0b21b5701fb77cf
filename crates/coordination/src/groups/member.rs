//! The common parts of members of several kinds of groups: their identity, and the reply to their heartbeats.

use std::sync::Arc;

use bytes::Bytes;

use super::assignors::Partitions;

/// Epoch with which a member joins.
pub(crate) const EPOCH_JOIN: i32 = 0;
/// Epoch with which a member leaves.
pub(crate) const EPOCH_LEAVE: i32 = -1;

/// The identity of a member's client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The client id.
    pub client_id: String,
    /// Its address.
    pub client_host: String,
}

/// Opaque bytes of a member, with the name of their protocol.
pub type NamedBytes = (String, Bytes);

/// The reply to a heartbeat of a consumer group (KIP-848) or a share group (KIP-932).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeartbeatAnswer {
    /// The member's id.
    pub member: Arc<str>,
    /// Its current epoch.
    pub epoch: i32,
    /// The time until the next heartbeat is due, in milliseconds.
    pub heartbeat_interval_ms: i32,
    /// The partitions that it may use, if they have changed or it has asked for them.
    pub assignment: Option<Partitions>,
}
