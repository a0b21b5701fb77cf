//! Records of `__share_group_state` (KIP-932): snapshots of a share-partition's state, and updates.

use bytes::Bytes;

use super::codec::{FieldReader, FieldWriter, GENERATION_TAG, InternalRecordError, Layout, WriteField};

/// The version of a key is the kind of its record.
const SNAPSHOT: i16 = 0;
const UPDATE: i16 = 1;

/// The value of [`ShareSnapshotValue::delivery_complete_count`] that means "not set". It is not written.
pub const DELIVERY_COMPLETE_COUNT_UNKNOWN: i32 = -1;

/// The key of both kinds of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareStateKey {
    /// Whether the value is a snapshot or an update.
    pub kind: ShareStateKind,
    /// The group.
    pub group_id: String,
    /// The topic's id.
    pub topic_id: [u8; 16],
    /// The partition.
    pub partition: i32,
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareStateKind {
    /// The whole state: [`ShareSnapshotValue`].
    Snapshot,
    /// Changes: [`ShareUpdateValue`].
    Update,
}

/// A run of offsets in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareStateBatch {
    /// First offset.
    pub first_offset: i64,
    /// Last offset, inclusive.
    pub last_offset: i64,
    /// 0 available, 2 acknowledged, 4 archived.
    pub delivery_state: i8,
    /// Number of deliveries.
    pub delivery_count: i16,
}

/// The whole state of a share-partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareSnapshotValue {
    /// Number of this snapshot.
    pub snapshot_epoch: i32,
    /// Raised when the state is set by an administrator.
    pub state_epoch: i32,
    /// Epoch of the partition's leader.
    pub leader_epoch: i32,
    /// The first offset that is not final. -1 if not yet decided.
    pub start_offset: i64,
    /// Offsets after the start that are final all the same (KIP-1226), or
    /// [`DELIVERY_COMPLETE_COUNT_UNKNOWN`].
    pub delivery_complete_count: i32,
    /// When the state was created, in milliseconds since 1970.
    pub create_timestamp: i64,
    /// When the snapshot was written.
    pub write_timestamp: i64,
    /// The known states of offsets from the start on.
    pub state_batches: Vec<ShareStateBatch>,
    /// The generation of the group's states in which it was created. 0 if unknown. A tagged field of
    /// tailrace, which Kafka skips.
    pub generation: i64,
}

/// Changes since a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareUpdateValue {
    /// The snapshot's number.
    pub snapshot_epoch: i32,
    /// Epoch of the partition's leader.
    pub leader_epoch: i32,
    /// As in the snapshot. -1 if it did not change.
    pub start_offset: i64,
    /// As in the snapshot.
    pub delivery_complete_count: i32,
    /// Offsets whose state changed.
    pub state_batches: Vec<ShareStateBatch>,
}

impl ShareStateKey {
    /// Encodes the key.
    ///
    /// # Panics
    /// If the group's name is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        let version = match self.kind {
            ShareStateKind::Snapshot => SNAPSHOT,
            ShareStateKind::Update => UPDATE,
        };
        let mut writer = FieldWriter::new(version, Layout::Fixed);
        writer.string(&self.group_id).uuid(self.topic_id).i32(self.partition);
        writer.finish()
    }

    /// Decodes a key.
    ///
    /// # Errors
    /// Truncated, or of an unknown kind.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        let version = reader.version_in("a share group's state", SNAPSHOT..=UPDATE, i16::MAX)?;
        let kind = if version == SNAPSHOT { ShareStateKind::Snapshot } else { ShareStateKind::Update };
        let group_id = reader.string("GroupId")?.to_owned();
        let topic_id = reader.uuid("TopicId")?;
        Ok(Self { kind, group_id, topic_id, partition: reader.i32("Partition")? })
    }
}

fn write_batches(writer: &mut FieldWriter, batches: &[ShareStateBatch]) {
    writer.array(batches.iter(), |writer, batch| {
        writer.i64(batch.first_offset).i64(batch.last_offset);
        writer.i8(batch.delivery_state).i16(batch.delivery_count).no_tags();
    });
}

fn read_batches(reader: &mut FieldReader<'_>) -> Result<Vec<ShareStateBatch>, InternalRecordError> {
    reader.array("StateBatches", |reader| {
        let batch = ShareStateBatch {
            first_offset: reader.i64("FirstOffset")?,
            last_offset: reader.i64("LastOffset")?,
            delivery_state: reader.i8("DeliveryState")?,
            delivery_count: reader.i16("DeliveryCount")?,
        };
        reader.skip_tagged()?;
        Ok(batch)
    })
}

/// Writes the tagged fields of both values. Defaults are omitted.
fn write_tags(writer: &mut FieldWriter, delivery_complete_count: i32, generation: i64) {
    let count: WriteField<'_> = &|field| {
        field.i32(delivery_complete_count);
    };
    let ours: WriteField<'_> = &|field| {
        field.i64(generation);
    };
    let mut fields = Vec::new();
    if delivery_complete_count != DELIVERY_COMPLETE_COUNT_UNKNOWN {
        fields.push((0, count));
    }
    if generation != 0 {
        fields.push((GENERATION_TAG, ours));
    }
    writer.tags(&fields);
}

/// Reads the delivery complete count and the generation.
fn read_tags(reader: &mut FieldReader<'_>) -> Result<(i32, i64), InternalRecordError> {
    let (mut count, mut generation) = (DELIVERY_COMPLETE_COUNT_UNKNOWN, 0);
    reader.tagged(|tag, field| {
        match tag {
            0 => count = field.i32("DeliveryCompleteCount")?,
            GENERATION_TAG => generation = field.i64("generation")?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((count, generation))
}

impl ShareSnapshotValue {
    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(0, Layout::Flexible);
        writer.i32(self.snapshot_epoch).i32(self.state_epoch).i32(self.leader_epoch).i64(self.start_offset);
        writer.i64(self.create_timestamp).i64(self.write_timestamp);
        write_batches(&mut writer, &self.state_batches);
        write_tags(&mut writer, self.delivery_complete_count, self.generation);
        writer.finish()
    }

    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        reader.version_in("a snapshot of a share group's state", 0..=0, 0)?;
        let mut value = Self {
            snapshot_epoch: reader.i32("SnapshotEpoch")?,
            state_epoch: reader.i32("StateEpoch")?,
            leader_epoch: reader.i32("LeaderEpoch")?,
            start_offset: reader.i64("StartOffset")?,
            delivery_complete_count: DELIVERY_COMPLETE_COUNT_UNKNOWN,
            create_timestamp: reader.i64("CreateTimestamp")?,
            write_timestamp: reader.i64("WriteTimestamp")?,
            state_batches: read_batches(&mut reader)?,
            generation: 0,
        };
        (value.delivery_complete_count, value.generation) = read_tags(&mut reader)?;
        Ok(value)
    }
}

impl ShareUpdateValue {
    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(0, Layout::Flexible);
        writer.i32(self.snapshot_epoch).i32(self.leader_epoch).i64(self.start_offset);
        write_batches(&mut writer, &self.state_batches);
        write_tags(&mut writer, self.delivery_complete_count, 0);
        writer.finish()
    }

    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        reader.version_in("an update of a share group's state", 0..=0, 0)?;
        let mut value = Self {
            snapshot_epoch: reader.i32("SnapshotEpoch")?,
            leader_epoch: reader.i32("LeaderEpoch")?,
            start_offset: reader.i64("StartOffset")?,
            delivery_complete_count: DELIVERY_COMPLETE_COUNT_UNKNOWN,
            state_batches: read_batches(&mut reader)?,
        };
        (value.delivery_complete_count, _) = read_tags(&mut reader)?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn batch() -> ShareStateBatch {
        ShareStateBatch { first_offset: 5, last_offset: 9, delivery_state: 2, delivery_count: 1 }
    }

    fn snapshot(delivery_complete_count: i32) -> ShareSnapshotValue {
        ShareSnapshotValue {
            snapshot_epoch: 1,
            state_epoch: 2,
            leader_epoch: 3,
            start_offset: 4,
            delivery_complete_count,
            create_timestamp: 6,
            write_timestamp: 7,
            state_batches: vec![batch()],
            generation: 0,
        }
    }

    // The bytes that Kafka 4.3.1's generated classes write (MessageUtil.toVersionPrefixedBytes).
    const KEY: &str = "00010001670102030405060708090a0b0c0d0e0f1000000003";
    const SNAPSHOT_PLAIN: &str = concat!(
        "0000",
        "00000001",
        "00000002",
        "00000003",
        "0000000000000004",
        "0000000000000006",
        "0000000000000007",
        "02",
        "0000000000000005",
        "0000000000000009",
        "02",
        "0001",
        "00",
        "00"
    );
    const UPDATE_TAGGED: &str = concat!(
        "0000",
        "00000001",
        "00000003",
        "0000000000000004",
        "02",
        "0000000000000005",
        "0000000000000009",
        "02",
        "0001",
        "00",
        "01",
        "00",
        "04",
        "00000005"
    );

    #[test]
    fn they_are_kafkas_bytes_and_come_back() {
        let topic_id = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        let key =
            ShareStateKey { kind: ShareStateKind::Update, group_id: "g".to_owned(), topic_id, partition: 3 };
        assert_eq!(hex(&key.encode()), KEY);
        assert_eq!(ShareStateKey::decode(&key.encode()), Ok(key));
        let plain = snapshot(DELIVERY_COMPLETE_COUNT_UNKNOWN);
        assert_eq!(hex(&plain.encode()), SNAPSHOT_PLAIN);
        let ours = ShareSnapshotValue { generation: 1 << 40, ..snapshot(5) };
        for value in [plain, snapshot(5), ours] {
            assert_eq!(ShareSnapshotValue::decode(&value.encode()), Ok(value));
        }
        let update = ShareUpdateValue {
            snapshot_epoch: 1,
            leader_epoch: 3,
            start_offset: 4,
            delivery_complete_count: 5,
            state_batches: vec![batch()],
        };
        assert_eq!(hex(&update.encode()), UPDATE_TAGGED);
        assert_eq!(ShareUpdateValue::decode(&update.encode()), Ok(update));
    }

    #[test]
    fn every_cut_is_an_error() {
        let bytes = ShareSnapshotValue { generation: 9, ..snapshot(5) }.encode();
        for cut in 0..bytes.len() {
            assert!(ShareSnapshotValue::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}
