//! The records of committed offsets.

use bytes::Bytes;
use tailrace_records::internal::OffsetKey;

use crate::coordinator::CoordinatorRecord;

/// Returns the key of a partition's offset.
pub(super) fn key(group: &str, topic: &str, partition: i32) -> Bytes {
    OffsetKey { group, topic, partition }.encode()
}

/// Returns the tombstone of an offset.
pub(super) fn tombstone(group: &str, topic: &str, partition: i32) -> CoordinatorRecord {
    CoordinatorRecord { key: key(group, topic, partition), value: None }
}
