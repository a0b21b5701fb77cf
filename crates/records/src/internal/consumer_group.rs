//! Records of consumer groups (KIP-848) in `__consumer_offsets`.
//!
//! Keys 3 to 8, and 16. Key 4 (partition metadata) was written by Kafka 4.0 only. Its value is not read, but
//! a group that has one needs a tombstone for it.

use bytes::Bytes;

use super::codec::{FieldReader, FieldWriter, InternalRecordError, Layout};

type Result<T> = std::result::Result<T, InternalRecordError>;

const GROUP: i16 = 3;
const PARTITION_METADATA: i16 = 4;
const MEMBER: i16 = 5;
const TARGET_METADATA: i16 = 6;
const TARGET_MEMBER: i16 = 7;
const CURRENT_MEMBER: i16 = 8;
const REGULAR_EXPRESSION: i16 = 16;

/// Partitions of one topic, by the topic's id.
pub type TopicPartitionsById = (TopicUuid, Vec<i32>);

/// A topic's id as stored in records.
pub type TopicUuid = [u8; 16];

/// The subject of a consumer group's record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsumerGroupKey {
    /// The group: [`ConsumerGroupMetadata`].
    Group {
        /// The group.
        group: String,
    },
    /// Topic metadata of the group, kept by Kafka 4.0. Values are not read.
    PartitionMetadata {
        /// The group.
        group: String,
    },
    /// A member: [`ConsumerGroupMember`].
    Member {
        /// The group.
        group: String,
        /// The member's id.
        member: String,
    },
    /// The target assignment as a whole: [`TargetAssignmentMetadata`].
    TargetMetadata {
        /// The group.
        group: String,
    },
    /// The target assignment of a member: [`TargetAssignmentMember`].
    TargetMember {
        /// The group.
        group: String,
        /// The member's id.
        member: String,
    },
    /// The current assignment of a member: [`CurrentMemberAssignment`].
    CurrentMember {
        /// The group.
        group: String,
        /// The member's id.
        member: String,
    },
    /// The topics that a regular expression matches: [`RegularExpression`].
    RegularExpression {
        /// The group.
        group: String,
        /// The expression.
        expression: String,
    },
}

impl ConsumerGroupKey {
    /// True if keys of this version belong to consumer groups.
    pub(crate) const fn has_version(version: i16) -> bool {
        matches!(
            version,
            GROUP
                | PARTITION_METADATA
                | MEMBER
                | TARGET_METADATA
                | TARGET_MEMBER
                | CURRENT_MEMBER
                | REGULAR_EXPRESSION
        )
    }

    /// The group that the record belongs to.
    pub fn group(&self) -> &str {
        match self {
            Self::Group { group }
            | Self::PartitionMetadata { group }
            | Self::Member { group, .. }
            | Self::TargetMetadata { group }
            | Self::TargetMember { group, .. }
            | Self::CurrentMember { group, .. }
            | Self::RegularExpression { group, .. } => group,
        }
    }

    /// Decodes a key.
    ///
    /// # Errors
    /// Truncated, not UTF-8, or of a version that does not belong to consumer groups.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = FieldReader::new(bytes);
        let version = reader.version()?;
        if !Self::has_version(version) {
            let (lowest, highest) = (GROUP, REGULAR_EXPRESSION);
            return Err(InternalRecordError::Version {
                what: "a consumer group's key",
                found: version,
                lowest,
                highest,
            });
        }
        let group = reader.string("group id")?.to_owned();
        let mut second = |field| reader.string(field).map(str::to_owned);
        Ok(match version {
            GROUP => Self::Group { group },
            PARTITION_METADATA => Self::PartitionMetadata { group },
            MEMBER => Self::Member { group, member: second("member id")? },
            TARGET_METADATA => Self::TargetMetadata { group },
            TARGET_MEMBER => Self::TargetMember { group, member: second("member id")? },
            CURRENT_MEMBER => Self::CurrentMember { group, member: second("member id")? },
            _ => Self::RegularExpression { group, expression: second("regular expression")? },
        })
    }

    /// Encodes the key.
    ///
    /// # Panics
    /// If a name is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        let (version, second) = match self {
            Self::Group { .. } => (GROUP, None),
            Self::PartitionMetadata { .. } => (PARTITION_METADATA, None),
            Self::Member { member, .. } => (MEMBER, Some(member)),
            Self::TargetMetadata { .. } => (TARGET_METADATA, None),
            Self::TargetMember { member, .. } => (TARGET_MEMBER, Some(member)),
            Self::CurrentMember { member, .. } => (CURRENT_MEMBER, Some(member)),
            Self::RegularExpression { expression, .. } => (REGULAR_EXPRESSION, Some(expression)),
        };
        let mut writer = FieldWriter::new(version, Layout::Fixed);
        writer.string(self.group());
        if let Some(second) = second {
            writer.string(second);
        }
        writer.finish()
    }
}

/// Starts a value. All these records have version 0 and the flexible layout.
pub(super) fn value_reader<'a>(bytes: &'a [u8], what: &'static str) -> Result<FieldReader<'a>> {
    let mut reader = FieldReader::new(bytes);
    reader.version_in(what, 0..=0, 0)?;
    Ok(reader)
}

pub(super) fn value_writer() -> FieldWriter {
    FieldWriter::new(0, Layout::Flexible)
}

pub(super) fn read_strings(reader: &mut FieldReader<'_>, field: &'static str) -> Result<Vec<String>> {
    reader.array(field, |reader| reader.string(field).map(str::to_owned))
}

pub(super) fn write_strings(writer: &mut FieldWriter, strings: &[String]) {
    writer.array(strings.iter(), |writer, text| {
        writer.string(text);
    });
}

pub(super) fn read_nullable(reader: &mut FieldReader<'_>, field: &'static str) -> Result<Option<String>> {
    reader.nullable_string(field).map(|text| text.map(str::to_owned))
}

pub(super) fn read_partitions(
    reader: &mut FieldReader<'_>,
    field: &'static str,
) -> Result<Vec<TopicPartitionsById>> {
    reader.array(field, |reader| {
        let topic = reader.uuid("topic id")?;
        let partitions = reader.array("partitions", |reader| reader.i32("partition"))?;
        reader.skip_tagged()?;
        Ok((topic, partitions))
    })
}

pub(super) fn write_partitions(writer: &mut FieldWriter, topics: &[TopicPartitionsById]) {
    writer.array(topics.iter(), |writer, (topic, partitions)| {
        writer.uuid(*topic);
        write_numbers(writer, partitions);
        writer.no_tags();
    });
}

pub(super) fn write_numbers(writer: &mut FieldWriter, numbers: &[i32]) {
    writer.array(numbers.iter(), |writer, number| {
        writer.i32(*number);
    });
}

/// A consumer group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupMetadata {
    /// Raised whenever members, subscriptions or topics change.
    pub epoch: i32,
    /// Hash of the topics that the group reads, over their ids, names and partition counts. 0 for none. Only
    /// its writer compares it.
    pub metadata_hash: i64,
}

impl ConsumerGroupMetadata {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a consumer group")?;
        let mut this = Self { epoch: reader.i32("epoch")?, metadata_hash: 0 };
        reader.tagged(|tag, field| {
            if tag == 0 {
                this.metadata_hash = field.i64("metadata hash")?;
            }
            Ok(())
        })?;
        Ok(this)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        writer.i32(self.epoch);
        end_with_i64(&mut writer, self.metadata_hash);
        writer.finish()
    }
}

/// Ends a structure with one tagged 64-bit field, which is omitted if it is zero.
fn end_with_i64(writer: &mut FieldWriter, value: i64) {
    if value == 0 {
        writer.no_tags();
    } else {
        writer.tags(&[(0, &|field: &mut FieldWriter| {
            field.i64(value);
        })]);
    }
}

/// The stored state of a member of a consumer group that uses the classic protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassicMemberMetadata {
    /// Its session timeout in milliseconds.
    pub session_timeout_ms: i32,
    /// The protocols that it offered, in its order of preference, with its subscription for each.
    pub protocols: Vec<(String, Bytes)>,
}

/// A member of a consumer group, as it described itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupMember {
    /// Its instance id, if it is a static member.
    pub instance_id: Option<String>,
    /// Its rack.
    pub rack_id: Option<String>,
    /// The client id.
    pub client_id: String,
    /// The client's address.
    pub client_host: String,
    /// Topics that it reads, by name.
    pub subscribed_topic_names: Vec<String>,
    /// Topics that it reads, by pattern. Both null and empty mean none.
    pub subscribed_topic_regex: Option<String>,
    /// How long it may take to revoke partitions, in milliseconds. -1 if unknown.
    pub rebalance_timeout_ms: i32,
    /// The assignor that it prefers.
    pub server_assignor: Option<String>,
    /// Set for a member that uses the classic protocol.
    pub classic: Option<ClassicMemberMetadata>,
}

impl ConsumerGroupMember {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, not UTF-8, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a consumer group's member")?;
        let mut this = Self {
            instance_id: read_nullable(&mut reader, "instance id")?,
            rack_id: read_nullable(&mut reader, "rack id")?,
            client_id: reader.string("client id")?.to_owned(),
            client_host: reader.string("client host")?.to_owned(),
            subscribed_topic_names: read_strings(&mut reader, "subscribed topic names")?,
            subscribed_topic_regex: read_nullable(&mut reader, "subscribed topic regex")?,
            rebalance_timeout_ms: reader.i32("rebalance timeout")?,
            server_assignor: read_nullable(&mut reader, "server assignor")?,
            classic: None,
        };
        reader.tagged(|tag, field| {
            if tag == 0 {
                this.classic = read_classic(field)?;
            }
            Ok(())
        })?;
        Ok(this)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        writer.nullable_string(self.instance_id.as_deref()).nullable_string(self.rack_id.as_deref());
        writer.string(&self.client_id).string(&self.client_host);
        write_strings(&mut writer, &self.subscribed_topic_names);
        writer.nullable_string(self.subscribed_topic_regex.as_deref()).i32(self.rebalance_timeout_ms);
        writer.nullable_string(self.server_assignor.as_deref());
        match &self.classic {
            None => writer.no_tags(),
            Some(classic) => writer.tags(&[(0, &|field: &mut FieldWriter| write_classic(field, classic))]),
        };
        writer.finish()
    }
}

/// A nullable structure starts with a byte: -1 for null, otherwise 1.
fn read_classic(reader: &mut FieldReader<'_>) -> Result<Option<ClassicMemberMetadata>> {
    if reader.i8("classic member metadata")? < 0 {
        return Ok(None);
    }
    let session_timeout_ms = reader.i32("session timeout")?;
    let protocols = reader.array("supported protocols", |reader| {
        let name = reader.string("protocol name")?.to_owned();
        let metadata = Bytes::copy_from_slice(reader.bytes("protocol metadata")?);
        reader.skip_tagged()?;
        Ok((name, metadata))
    })?;
    reader.skip_tagged()?;
    Ok(Some(ClassicMemberMetadata { session_timeout_ms, protocols }))
}

fn write_classic(writer: &mut FieldWriter, classic: &ClassicMemberMetadata) {
    writer.i8(1).i32(classic.session_timeout_ms);
    writer.array(classic.protocols.iter(), |writer, (name, metadata)| {
        writer.string(name).bytes(metadata).no_tags();
    });
    writer.no_tags();
}

/// The target assignment of a consumer group or share group as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetAssignmentMetadata {
    /// The group epoch for which it was computed.
    pub epoch: i32,
    /// When it was computed (KIP-1263), in milliseconds. 0 if unknown.
    pub timestamp_ms: i64,
}

impl TargetAssignmentMetadata {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a target assignment")?;
        let mut this = Self { epoch: reader.i32("assignment epoch")?, timestamp_ms: 0 };
        reader.tagged(|tag, field| {
            if tag == 0 {
                this.timestamp_ms = field.i64("assignment timestamp")?;
            }
            Ok(())
        })?;
        Ok(this)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        writer.i32(self.epoch);
        end_with_i64(&mut writer, self.timestamp_ms);
        writer.finish()
    }
}

/// The target assignment of a member of a consumer group or share group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetAssignmentMember {
    /// The partitions.
    pub partitions: Vec<TopicPartitionsById>,
}

impl TargetAssignmentMember {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a member's target assignment")?;
        let partitions = read_partitions(&mut reader, "topic partitions")?;
        reader.skip_tagged()?;
        Ok(Self { partitions })
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        write_partitions(&mut writer, &self.partitions);
        writer.no_tags();
        writer.finish()
    }
}

/// Partitions of one topic that a member has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldPartitions {
    /// The topic.
    pub topic: TopicUuid,
    /// Its partitions.
    pub partitions: Vec<i32>,
    /// For each partition, the epoch in which the member got it (KIP-1251). `None` if that was not recorded.
    pub epochs: Option<Vec<i32>>,
}

/// The current assignment of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentMemberAssignment {
    /// The member's epoch. -2 for a static member that left temporarily.
    pub epoch: i32,
    /// The previous member epoch.
    pub previous_epoch: i32,
    /// Its progress towards the target: 1 stable, 2 has to revoke partitions, 3 waits for partitions of other
    /// members.
    pub state: i8,
    /// The partitions that it may use.
    pub assigned: Vec<HeldPartitions>,
    /// The partitions that it has not revoked yet.
    pub pending_revocation: Vec<HeldPartitions>,
}

impl CurrentMemberAssignment {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, of another version, or with a number of epochs that differs from the number of partitions.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a member's current assignment")?;
        let this = Self {
            epoch: reader.i32("member epoch")?,
            previous_epoch: reader.i32("previous member epoch")?,
            state: reader.i8("state")?,
            assigned: reader.array("assigned partitions", read_held)?,
            pending_revocation: reader.array("partitions pending revocation", read_held)?,
        };
        reader.skip_tagged()?;
        Ok(this)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        writer.i32(self.epoch).i32(self.previous_epoch).i8(self.state);
        writer.array(self.assigned.iter(), write_held).array(self.pending_revocation.iter(), write_held);
        writer.no_tags();
        writer.finish()
    }
}

fn read_held(reader: &mut FieldReader<'_>) -> Result<HeldPartitions> {
    let topic = reader.uuid("topic id")?;
    let partitions = reader.array("partitions", |reader| reader.i32("partition"))?;
    let mut epochs = None;
    reader.tagged(|tag, field| {
        if tag == 0 {
            epochs = field.nullable_array("assignment epochs", |field| field.i32("assignment epoch"))?;
        }
        Ok(())
    })?;
    if epochs.as_ref().is_some_and(|epochs| epochs.len() != partitions.len()) {
        let reason = "is not of the length of its partitions";
        return Err(InternalRecordError::Invalid { field: "assignment epochs", reason });
    }
    Ok(HeldPartitions { topic, partitions, epochs })
}

fn write_held(writer: &mut FieldWriter, held: &HeldPartitions) {
    writer.uuid(held.topic);
    write_numbers(writer, &held.partitions);
    match &held.epochs {
        None => writer.no_tags(),
        Some(epochs) => writer.tags(&[(0, &|field: &mut FieldWriter| write_numbers(field, epochs))]),
    };
}

/// The topics that a group's regular expression matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegularExpression {
    /// Topic names.
    pub topics: Vec<String>,
    /// Version of the metadata that was searched, by its writer's count.
    pub version: i64,
    /// When it was searched, in milliseconds.
    pub timestamp_ms: i64,
}

impl RegularExpression {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, not UTF-8, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a regular expression")?;
        let this = Self {
            topics: read_strings(&mut reader, "topics")?,
            version: reader.i64("version")?,
            timestamp_ms: reader.i64("timestamp")?,
        };
        reader.skip_tagged()?;
        Ok(this)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        write_strings(&mut writer, &self.topics);
        writer.i64(self.version).i64(self.timestamp_ms).no_tags();
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_cut_fails<T>(bytes: &Bytes, decode: impl Fn(&[u8]) -> Result<T>) {
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut} of {}", bytes.len());
        }
    }

    #[test]
    fn keys_come_back() {
        let group = || "orders".to_owned();
        let member = || "m-1".to_owned();
        let keys = [
            (3, ConsumerGroupKey::Group { group: group() }),
            (4, ConsumerGroupKey::PartitionMetadata { group: group() }),
            (5, ConsumerGroupKey::Member { group: group(), member: member() }),
            (6, ConsumerGroupKey::TargetMetadata { group: group() }),
            (7, ConsumerGroupKey::TargetMember { group: group(), member: member() }),
            (8, ConsumerGroupKey::CurrentMember { group: group(), member: member() }),
            (16, ConsumerGroupKey::RegularExpression { group: group(), expression: "a.*".to_owned() }),
        ];
        for (version, key) in keys {
            let bytes = key.encode();
            assert_eq!(bytes[..2], i16::to_be_bytes(version));
            assert_eq!(ConsumerGroupKey::decode(&bytes).as_ref(), Ok(&key));
            every_cut_fails(&bytes, ConsumerGroupKey::decode);
        }
        assert!(ConsumerGroupKey::decode(&[0, 2, 0, 0]).is_err(), "a classic group's key");
    }

    #[test]
    fn groups_are_laid_out_as_kafka_does() {
        let with_hash = ConsumerGroupMetadata { epoch: 7, metadata_hash: 9 };
        let bytes = with_hash.encode();
        assert_eq!(bytes[..], [0, 0, 0, 0, 0, 7, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(ConsumerGroupMetadata::decode(&bytes), Ok(with_hash));
        every_cut_fails(&bytes, ConsumerGroupMetadata::decode);
        let without = ConsumerGroupMetadata { epoch: 7, metadata_hash: 0 };
        assert_eq!(without.encode()[..], [0, 0, 0, 0, 0, 7, 0]);
    }

    #[test]
    fn members_come_back_with_and_without_the_classic_part() {
        let plain = ConsumerGroupMember {
            instance_id: None,
            rack_id: Some("r".to_owned()),
            client_id: "c".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            subscribed_topic_names: vec!["a".to_owned(), "b".to_owned()],
            subscribed_topic_regex: Some(String::new()),
            rebalance_timeout_ms: 300_000,
            server_assignor: Some("range".to_owned()),
            classic: None,
        };
        let protocols = vec![("range".to_owned(), Bytes::from_static(b"\0\x01"))];
        let classic = Some(ClassicMemberMetadata { session_timeout_ms: 45_000, protocols });
        for member in [plain.clone(), ConsumerGroupMember { classic, ..plain }] {
            let bytes = member.encode();
            assert_eq!(ConsumerGroupMember::decode(&bytes), Ok(member));
            every_cut_fails(&bytes, ConsumerGroupMember::decode);
        }
    }

    #[test]
    fn assignments_come_back() {
        let target = TargetAssignmentMember { partitions: vec![([7; 16], vec![0, 3]), ([8; 16], vec![])] };
        let bytes = target.encode();
        assert_eq!(TargetAssignmentMember::decode(&bytes), Ok(target));
        every_cut_fails(&bytes, TargetAssignmentMember::decode);

        let held = HeldPartitions { topic: [7; 16], partitions: vec![1, 2], epochs: Some(vec![4, 5]) };
        let current = CurrentMemberAssignment {
            epoch: 5,
            previous_epoch: 4,
            state: 2,
            assigned: vec![held.clone()],
            pending_revocation: vec![HeldPartitions { epochs: None, ..held.clone() }],
        };
        let bytes = current.encode();
        assert_eq!(CurrentMemberAssignment::decode(&bytes), Ok(current.clone()));
        every_cut_fails(&bytes, CurrentMemberAssignment::decode);

        let short = HeldPartitions { epochs: Some(vec![4]), ..held };
        let wrong = CurrentMemberAssignment { assigned: vec![short], ..current };
        assert!(CurrentMemberAssignment::decode(&wrong.encode()).is_err());

        let metadata = TargetAssignmentMetadata { epoch: 3, timestamp_ms: 1_700_000_000_000 };
        assert_eq!(TargetAssignmentMetadata::decode(&metadata.encode()), Ok(metadata));
    }

    #[test]
    fn expressions_come_back() {
        let topics = vec!["a".to_owned(), "ab".to_owned()];
        let expression = RegularExpression { topics, version: 12, timestamp_ms: 34 };
        let bytes = expression.encode();
        assert_eq!(RegularExpression::decode(&bytes), Ok(expression));
        every_cut_fails(&bytes, RegularExpression::decode);
    }
}
