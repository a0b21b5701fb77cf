//! Committed offsets in `__consumer_offsets`.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::codec::{FieldReader, FieldWriter, InternalRecordError, Layout};

/// Versions of keys of offsets. Both have the same fields. Kafka writes the second.
const KEY_VERSIONS: RangeInclusive<i16> = 0..=1;
const KEY_WRITTEN: i16 = 1;

/// Versions of values, and the first flexible one.
const VALUE_VERSIONS: RangeInclusive<i16> = 0..=4;
const VALUE_FLEXIBLE: i16 = 4;
/// The only version with an expiry time.
const VALUE_WITH_EXPIRY: i16 = 1;
/// First version with a leader epoch.
const LEADER_EPOCH_FROM: i16 = 3;
const TOPIC_ID_TAG: u32 = 0;

/// The key of a committed offset: `OffsetCommitKey`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetKey<'a> {
    /// The group's id.
    pub group: &'a str,
    /// The topic's name.
    pub topic: &'a str,
    /// The partition's number.
    pub partition: i32,
}

impl<'a> OffsetKey<'a> {
    /// Encodes the key as Kafka does.
    ///
    /// # Panics
    /// If a string is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(KEY_WRITTEN, Layout::Fixed);
        writer.string(self.group).string(self.topic).i32(self.partition);
        writer.finish()
    }

    /// Decodes a key, version included.
    ///
    /// # Errors
    /// Truncated, another version, or not UTF-8.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        reader.version_in("the key of an offset", KEY_VERSIONS, i16::MAX)?;
        Ok(Self {
            group: reader.string("group")?,
            topic: reader.string("topic")?,
            partition: reader.i32("partition")?,
        })
    }
}

/// The value of a committed offset: `OffsetCommitValue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetValue<'a> {
    /// The next record to read.
    pub offset: i64,
    /// Leader epoch of the last record read, -1 for none.
    pub leader_epoch: i32,
    /// The client's own metadata.
    pub metadata: &'a str,
    /// When it was committed, in milliseconds since 1970.
    pub commit_timestamp: i64,
    /// When it expires. -1 if the broker decides.
    pub expire_timestamp: i64,
    /// The topic's id, zeros if there is none.
    pub topic_id: [u8; 16],
}

impl<'a> OffsetValue<'a> {
    /// Encodes the value as Kafka 4.3 does: in version 4, or in version 1 if there is an expiry time. Version
    /// 1 omits the leader epoch and the topic id.
    ///
    /// # Panics
    /// If there is an expiry time and the metadata is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        if self.expire_timestamp != -1 {
            let mut writer = FieldWriter::new(VALUE_WITH_EXPIRY, Layout::Fixed);
            writer.i64(self.offset).string(self.metadata);
            writer.i64(self.commit_timestamp).i64(self.expire_timestamp);
            return writer.finish();
        }
        let mut writer = FieldWriter::new(*VALUE_VERSIONS.end(), Layout::Flexible);
        writer.i64(self.offset).i32(self.leader_epoch).string(self.metadata).i64(self.commit_timestamp);
        let topic_id = self.topic_id;
        if topic_id == [0; 16] {
            writer.no_tags();
        } else {
            let write = move |field: &mut FieldWriter| {
                field.uuid(topic_id);
            };
            writer.tags(&[(TOPIC_ID_TAG, &write)]);
        }
        writer.finish()
    }

    /// Decodes a value, version included.
    ///
    /// # Errors
    /// Truncated, another version, or not UTF-8.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        let version = reader.version_in("an offset", VALUE_VERSIONS, VALUE_FLEXIBLE)?;
        let offset = reader.i64("offset")?;
        let leader_epoch = if version >= LEADER_EPOCH_FROM { reader.i32("leader epoch")? } else { -1 };
        let metadata = reader.string("metadata")?;
        let commit_timestamp = reader.i64("commit timestamp")?;
        let expire_timestamp =
            if version == VALUE_WITH_EXPIRY { reader.i64("expire timestamp")? } else { -1 };
        let mut topic_id = [0; 16];
        reader.tagged(|tag, field| {
            if tag == TOPIC_ID_TAG {
                topic_id = field.uuid("topic id")?;
            }
            Ok(())
        })?;
        Ok(Self { offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: OffsetValue<'_> = OffsetValue {
        offset: 42,
        leader_epoch: 3,
        metadata: "note",
        commit_timestamp: 1_700_000_000_000,
        expire_timestamp: -1,
        topic_id: [7; 16],
    };

    #[test]
    fn keys_are_those_of_kafka() {
        let key = OffsetKey { group: "g", topic: "t", partition: 5 };
        let bytes = key.encode();
        assert_eq!(&bytes[..], b"\0\x01\0\x01g\0\x01t\0\0\0\x05");
        assert_eq!(OffsetKey::decode(&bytes), Ok(key));
        let old = b"\0\0\0\x01g\0\x01t\0\0\0\x05";
        assert_eq!(OffsetKey::decode(old), Ok(key), "version 0 has the same fields");
        assert!(OffsetKey::decode(b"\0\x02\0\x01g\0\x01t\0\0\0\x05").is_err());
        assert!(OffsetKey::decode(&bytes[..7]).is_err());
    }

    #[test]
    fn values_come_back() {
        let bytes = VALUE.encode();
        assert_eq!(bytes[..2], [0, 4]);
        assert_eq!(OffsetValue::decode(&bytes), Ok(VALUE));
        let anonymous = OffsetValue { topic_id: [0; 16], ..VALUE };
        assert_eq!(OffsetValue::decode(&anonymous.encode()), Ok(anonymous));
        for end in 0..bytes.len() {
            assert!(OffsetValue::decode(&bytes[..end]).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn a_time_of_expiry_takes_the_old_version() {
        let value = OffsetValue { expire_timestamp: 9, ..VALUE };
        let bytes = value.encode();
        assert_eq!(bytes[..2], [0, 1]);
        let expected = OffsetValue { leader_epoch: -1, topic_id: [0; 16], ..value };
        assert_eq!(OffsetValue::decode(&bytes), Ok(expected));
    }

    #[test]
    fn every_old_version_is_read() {
        let head = |version: u8| [&[0, version][..], &42_i64.to_be_bytes()].concat();
        let tail = [&b"\0\x04note"[..], &1_700_000_000_000_i64.to_be_bytes()].concat();
        let plain = OffsetValue { leader_epoch: -1, topic_id: [0; 16], ..VALUE };
        for version in [0, 2] {
            assert_eq!(OffsetValue::decode(&[head(version), tail.clone()].concat()), Ok(plain));
        }
        let with_epoch = [head(3), 3_i32.to_be_bytes().to_vec(), tail].concat();
        assert_eq!(OffsetValue::decode(&with_epoch), Ok(OffsetValue { leader_epoch: 3, ..plain }));
    }
}
