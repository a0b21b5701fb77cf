//! Records of `__jetstream_state`: the durable consumers of streams, and which leader of a stream may write
//! them. Kafka has nothing of the kind. docs/format.md has the bytes.

use bytes::Bytes;

use super::codec::{FieldReader, FieldWriter, InternalRecordError, Layout};

/// The version of a key is the kind of its record.
const LEADER: i16 = 0;
const SNAPSHOT: i16 = 1;
const UPDATE: i16 = 2;

/// The key of all kinds of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConsumersKey {
    /// The id of the stream's topic.
    pub topic_id: [u8; 16],
    /// What the value is.
    pub kind: StreamConsumersKind,
}

/// The kind of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamConsumersKind {
    /// Who may write: [`ConsumersLeaderValue`].
    Leader,
    /// The configuration and the whole state of this consumer: [`ConsumerSnapshotValue`].
    Snapshot(String),
    /// What has changed of this consumer since its snapshot: [`ConsumerUpdateValue`].
    Update(String),
}

/// Which leader of a stream may write the states of its consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumersLeaderValue {
    /// The epoch in which it leads the stream.
    pub leader_epoch: i32,
    /// The generation in which it writes.
    pub generation: i64,
    /// Its last write.
    pub sequence: i64,
}

/// The configuration and the whole state of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSnapshotValue {
    /// The stream's name in JetStream.
    pub stream: String,
    /// The consumer's configuration, as JSON.
    pub config: String,
    /// When it was created, in nanoseconds since 1970.
    pub created_ns: i64,
    /// The state.
    pub state: Bytes,
}

/// What has changed of a consumer since its snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerUpdateValue {
    /// The changes.
    pub state: Bytes,
}

impl StreamConsumersKey {
    /// Encodes the key.
    ///
    /// # Panics
    /// If the consumer's name is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        let (kind, consumer) = match &self.kind {
            StreamConsumersKind::Leader => (LEADER, ""),
            StreamConsumersKind::Snapshot(consumer) => (SNAPSHOT, &**consumer),
            StreamConsumersKind::Update(consumer) => (UPDATE, &**consumer),
        };
        let mut writer = FieldWriter::new(kind, Layout::Fixed);
        writer.uuid(self.topic_id);
        if kind != LEADER {
            writer.string(consumer);
        }
        writer.finish()
    }

    /// Decodes a key.
    ///
    /// # Errors
    /// Truncated, or of an unknown kind.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        let version = reader.version_in("a stream's consumers", LEADER..=UPDATE, i16::MAX)?;
        let topic_id = reader.uuid("TopicId")?;
        let kind = match version {
            LEADER => StreamConsumersKind::Leader,
            SNAPSHOT => StreamConsumersKind::Snapshot(reader.string("Consumer")?.to_owned()),
            _ => StreamConsumersKind::Update(reader.string("Consumer")?.to_owned()),
        };
        Ok(Self { topic_id, kind })
    }
}

impl ConsumersLeaderValue {
    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(0, Layout::Flexible);
        writer.i32(self.leader_epoch).i64(self.generation).i64(self.sequence).no_tags();
        writer.finish()
    }

    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        reader.version_in("the leader of a stream's consumers", 0..=0, 0)?;
        let value = Self {
            leader_epoch: reader.i32("LeaderEpoch")?,
            generation: reader.i64("Generation")?,
            sequence: reader.i64("Sequence")?,
        };
        reader.skip_tagged()?;
        Ok(value)
    }
}

impl ConsumerSnapshotValue {
    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(0, Layout::Flexible);
        writer.string(&self.stream).string(&self.config).i64(self.created_ns).bytes(&self.state).no_tags();
        writer.finish()
    }

    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        reader.version_in("a consumer of a stream", 0..=0, 0)?;
        let value = Self {
            stream: reader.string("Stream")?.to_owned(),
            config: reader.string("Config")?.to_owned(),
            created_ns: reader.i64("CreatedNs")?,
            state: Bytes::copy_from_slice(reader.bytes("State")?),
        };
        reader.skip_tagged()?;
        Ok(value)
    }
}

impl ConsumerUpdateValue {
    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(0, Layout::Flexible);
        writer.bytes(&self.state).no_tags();
        writer.finish()
    }

    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        reader.version_in("an update of a stream's consumer", 0..=0, 0)?;
        let value = Self { state: Bytes::copy_from_slice(reader.bytes("State")?) };
        reader.skip_tagged()?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    const TOPIC_HEX: &str = "0102030405060708090a0b0c0d0e0f10";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn key(kind: StreamConsumersKind) -> StreamConsumersKey {
        StreamConsumersKey { topic_id: TOPIC, kind }
    }

    fn snapshot() -> ConsumerSnapshotValue {
        ConsumerSnapshotValue {
            stream: "S".to_owned(),
            config: "{}".to_owned(),
            created_ns: 5,
            state: Bytes::from_static(&[7, 8]),
        }
    }

    #[test]
    fn they_have_the_bytes_of_the_format_and_come_back() {
        let kinds = [
            (StreamConsumersKind::Leader, format!("0000{TOPIC_HEX}")),
            (StreamConsumersKind::Snapshot("C".to_owned()), format!("0001{TOPIC_HEX}000143")),
            (StreamConsumersKind::Update("C".to_owned()), format!("0002{TOPIC_HEX}000143")),
        ];
        for (kind, bytes) in kinds {
            let key = key(kind);
            assert_eq!(hex(&key.encode()), bytes);
            assert_eq!(StreamConsumersKey::decode(&key.encode()), Ok(key));
        }
        let leader = ConsumersLeaderValue { leader_epoch: 3, generation: 4, sequence: 5 };
        assert_eq!(hex(&leader.encode()), "0000000000030000000000000004000000000000000500");
        assert_eq!(ConsumersLeaderValue::decode(&leader.encode()), Ok(leader));
        assert_eq!(hex(&snapshot().encode()), "00000253037b7d000000000000000503070800");
        assert_eq!(ConsumerSnapshotValue::decode(&snapshot().encode()), Ok(snapshot()));
        let update = ConsumerUpdateValue { state: Bytes::from_static(&[9]) };
        assert_eq!(hex(&update.encode()), "0000020900");
        assert_eq!(ConsumerUpdateValue::decode(&update.encode()), Ok(update));
    }

    #[test]
    fn every_cut_is_an_error() {
        let bytes = snapshot().encode();
        for cut in 0..bytes.len() {
            assert!(ConsumerSnapshotValue::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let bytes = key(StreamConsumersKind::Update("C".to_owned())).encode();
        for cut in 0..bytes.len() {
            assert!(StreamConsumersKey::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}
