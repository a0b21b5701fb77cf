//! `partition.meta`.

use tailrace_types::{PartitionId, TopicId, TopicName, TopicPartition};

use super::bytes::{Writer, i32_at, u16_at};
use super::{FormatError, check_sealed};
use crate::PartitionIdentity;

const MAGIC: &[u8; 8] = b"TRPARTN\n";
const FIXED_BYTES: usize = 34;
/// The largest file: a name of 249 bytes.
pub(crate) const BYTES_MAX: u64 = 1024;

pub(crate) fn encode(identity: &PartitionIdentity) -> Vec<u8> {
    let name = identity.topic_partition.topic.as_str().as_bytes();
    let name_bytes = u16::try_from(name.len()).expect("a topic's name has at most 249 bytes");
    Writer::with_lead(MAGIC, FIXED_BYTES + name.len() + 4)
        .raw(&identity.topic_id.0)
        .i32(identity.topic_partition.partition.0)
        .u16(name_bytes)
        .raw(name)
        .sealed()
}

pub(crate) fn decode(bytes: &[u8]) -> Result<PartitionIdentity, FormatError> {
    check_sealed(bytes, MAGIC)?;
    if bytes.len() < FIXED_BYTES + 4 {
        return Err(FormatError::damaged(0, format!("{} bytes, too short", bytes.len())));
    }
    let end = FIXED_BYTES + usize::from(u16_at(bytes, 32));
    if bytes.len() != end + 4 {
        return Err(FormatError::damaged(32, format!("{} bytes, expected {}", bytes.len(), end + 4)));
    }
    let name = std::str::from_utf8(&bytes[FIXED_BYTES..end]).unwrap_or_default();
    let topic = TopicName::new(name).map_err(|error| FormatError::damaged(34, error.to_string()))?;
    let mut id = [0; 16];
    id.copy_from_slice(&bytes[12..28]);
    Ok(PartitionIdentity {
        topic_id: TopicId(id),
        topic_partition: TopicPartition::new(topic, PartitionId(i32_at(bytes, 28))),
    })
}
