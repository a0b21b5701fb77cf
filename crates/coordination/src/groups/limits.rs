//! Limits on the memory that clients can make a coordinator use.

use super::error::GroupError;

/// Maximum length of a group id, in bytes. Kafka's own limit comes from its record format: a text with a
/// length of 15 bits. Its clients use short ids. 1,024 bytes leave room for any scheme and keep keys, timers
/// and log lines small.
pub(crate) const GROUP_ID_BYTES_MAX: usize = 1024;

/// Maximum length of a member id, instance id and client id, in bytes, for the same reasons.
pub(crate) const MEMBER_ID_BYTES_MAX: usize = 1024;

/// Maximum number of offsets of one group. Each takes about 200 bytes and its metadata, so a group takes at
/// most 200 MB without the metadata.
pub(crate) const OFFSETS_PER_GROUP_MAX: usize = 1_000_000;

/// Maximum number of offsets in open transactions, of all groups of a coordinator.
pub(crate) const PENDING_OFFSETS_MAX: usize = 1_000_000;

/// Maximum number of producers whose epochs are remembered. For forgotten ones, the partition itself refuses
/// stale writes, at the cost of reloading the coordinator.
pub(crate) const PRODUCERS_REMEMBERED_MAX: usize = 100_000;

/// Maximum number of members per group that were given an id and have not come back with it. Each is removed
/// after its session timeout. Kafka has no limit; a client that keeps joining without an id would fill the
/// memory.
pub(crate) const PENDING_MEMBERS_MAX: usize = 10_000;

/// Maximum number of members of one group, whatever `group.max.size` says.
pub(crate) const MEMBERS_PER_GROUP_MAX: usize = 100_000;

/// Maximum number of assignment protocols of one member. Clients send one to three.
pub(crate) const PROTOCOLS_PER_MEMBER_MAX: usize = 100;

/// Maximum number of topic names that one member may subscribe to. Kafka has no limit but that of a request.
/// A member with 10,000 topics takes about 1 MB of memory, and each of its changes a record of that size.
pub(crate) const SUBSCRIBED_NAMES_MAX: usize = 10_000;

/// Maximum size of one member's subscriptions, all protocols together, in bytes. Kafka cannot write a group's
/// record, with all of its members, if it is larger than `message.max.bytes`, 1 MiB by default.
pub(crate) const MEMBER_SUBSCRIPTION_BYTES_MAX: usize = 1_048_576;

/// Maximum size of the subscriptions of all members of a group, and of their assignments, in bytes. A group's
/// record with both has to fit one batch.
pub(crate) const GROUP_SUBSCRIPTION_BYTES_MAX: usize = 16_777_216;

/// Checks a group's id. An empty id is allowed for offset requests, for compatibility with old clients.
pub(crate) fn check_group_id(id: &str, may_be_empty: bool) -> Result<(), GroupError> {
    if id.is_empty() && !may_be_empty {
        return Err(GroupError::InvalidGroupId { reason: "is empty" });
    }
    if id.len() > GROUP_ID_BYTES_MAX {
        return Err(GroupError::InvalidGroupId { reason: "has more than 1,024 bytes" });
    }
    Ok(())
}
