//! Bounds of what clients can make a coordinator keep.

use super::error::GroupError;

/// Longest group id in bytes. Kafka's own bound is what fits its record: a text with a length of 15 bits. Its clients use
/// short ids; 1,024 bytes leave room for any scheme and keep keys, timers and log lines small.
pub(crate) const GROUP_ID_BYTES_MAX: usize = 1024;

/// Longest member id, instance id and client id in bytes, for the same reasons.
pub(crate) const MEMBER_ID_BYTES_MAX: usize = 1024;

/// Offsets that one group may have. Each takes about 200 bytes and its metadata, so that a group takes 200 MB at most without
/// it.
pub(crate) const OFFSETS_PER_GROUP_MAX: usize = 1_000_000;

/// Offsets in open transactions, of all groups of a coordinator.
pub(crate) const PENDING_OFFSETS_MAX: usize = 1_000_000;

/// Producers whose epochs are remembered. Of forgotten ones the partition itself refuses stale writes, at the price of
/// reading the coordinator back.
pub(crate) const PRODUCERS_REMEMBERED_MAX: usize = 100_000;

/// Members that have been given an id and have not come back with it, per group. Each is forgotten after its session
/// timeout. Kafka has no bound; a client that joins again and again without an id would fill the memory.
pub(crate) const PENDING_MEMBERS_MAX: usize = 10_000;

/// Members of one group, whatever `group.max.size` says.
pub(crate) const MEMBERS_PER_GROUP_MAX: usize = 100_000;

/// Assignment strategies that one member may offer. Clients offer one to three.
pub(crate) const PROTOCOLS_PER_MEMBER_MAX: usize = 100;

/// Names of topics that one member may subscribe to. Kafka has no bound but that of a request; a member of 10,000 topics takes
/// about 1 MB of memory, and each change of it a record of that size.
pub(crate) const SUBSCRIBED_NAMES_MAX: usize = 10_000;

/// Bytes of one member's subscriptions, all strategies together. Kafka cannot write a group's record that is larger than
/// `message.max.bytes`, 1 MiB by default, with all of its members in it.
pub(crate) const MEMBER_SUBSCRIPTION_BYTES_MAX: usize = 1_048_576;

/// Bytes of the subscriptions of all members of a group, and of their assignments. With both a group's record has to fit one
/// batch.
pub(crate) const GROUP_SUBSCRIPTION_BYTES_MAX: usize = 16_777_216;

/// Checks a group's id. The empty one is allowed where offsets alone are concerned, for the sake of old clients.
pub(crate) fn check_group_id(id: &str, may_be_empty: bool) -> Result<(), GroupError> {
    if id.is_empty() && !may_be_empty {
        return Err(GroupError::InvalidGroupId { reason: "is empty" });
    }
    if id.len() > GROUP_ID_BYTES_MAX {
        return Err(GroupError::InvalidGroupId { reason: "has more than 1,024 bytes" });
    }
    Ok(())
}
