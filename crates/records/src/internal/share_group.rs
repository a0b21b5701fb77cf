//! Membership records of share groups (KIP-932) in `__consumer_offsets`: keys 10 to 15.
//!
//! Target assignments have the same values as in consumer groups:
//! [`TargetAssignmentMetadata`](super::TargetAssignmentMetadata) and
//! [`TargetAssignmentMember`](super::TargetAssignmentMember).

use bytes::Bytes;

use super::codec::{FieldReader, FieldWriter, GENERATION_TAG, InternalRecordError, Layout};
use super::consumer_group::{
    TopicPartitionsById, TopicUuid, read_nullable, read_partitions, read_strings, value_reader, value_writer,
    write_numbers, write_partitions, write_strings,
};

type Result<T> = std::result::Result<T, InternalRecordError>;

const MEMBER: i16 = 10;
const GROUP: i16 = 11;
const TARGET_METADATA: i16 = 12;
const TARGET_MEMBER: i16 = 13;
const CURRENT_MEMBER: i16 = 14;
const STATE_PARTITIONS: i16 = 15;

/// The subject of a share group's record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareGroupKey {
    /// A member: [`ShareGroupMember`].
    Member {
        /// The group.
        group: String,
        /// The member's id.
        member: String,
    },
    /// The group: [`ShareGroupMetadata`].
    Group {
        /// The group.
        group: String,
    },
    /// The target assignment as a whole.
    TargetMetadata {
        /// The group.
        group: String,
    },
    /// The target assignment of a member.
    TargetMember {
        /// The group.
        group: String,
        /// The member's id.
        member: String,
    },
    /// The current assignment of a member: [`ShareCurrentMemberAssignment`].
    CurrentMember {
        /// The group.
        group: String,
        /// The member's id.
        member: String,
    },
    /// The share-partitions that have a state: [`ShareGroupStatePartitions`].
    StatePartitions {
        /// The group.
        group: String,
    },
}

impl ShareGroupKey {
    /// The group that the record belongs to.
    pub fn group(&self) -> &str {
        match self {
            Self::Member { group, .. }
            | Self::Group { group }
            | Self::TargetMetadata { group }
            | Self::TargetMember { group, .. }
            | Self::CurrentMember { group, .. }
            | Self::StatePartitions { group } => group,
        }
    }

    /// Decodes a key.
    ///
    /// # Errors
    /// Truncated, not UTF-8, or of a version that does not belong to share groups.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = FieldReader::new(bytes);
        let version = reader.version_in("a share group's key", MEMBER..=STATE_PARTITIONS, i16::MAX)?;
        let group = reader.string("group id")?.to_owned();
        let mut member = || reader.string("member id").map(str::to_owned);
        Ok(match version {
            MEMBER => Self::Member { group, member: member()? },
            GROUP => Self::Group { group },
            TARGET_METADATA => Self::TargetMetadata { group },
            TARGET_MEMBER => Self::TargetMember { group, member: member()? },
            CURRENT_MEMBER => Self::CurrentMember { group, member: member()? },
            _ => Self::StatePartitions { group },
        })
    }

    /// Encodes the key.
    ///
    /// # Panics
    /// If a name is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        let (version, member) = match self {
            Self::Member { member, .. } => (MEMBER, Some(member)),
            Self::Group { .. } => (GROUP, None),
            Self::TargetMetadata { .. } => (TARGET_METADATA, None),
            Self::TargetMember { member, .. } => (TARGET_MEMBER, Some(member)),
            Self::CurrentMember { member, .. } => (CURRENT_MEMBER, Some(member)),
            Self::StatePartitions { .. } => (STATE_PARTITIONS, None),
        };
        let mut writer = FieldWriter::new(version, Layout::Fixed);
        writer.string(self.group());
        if let Some(member) = member {
            writer.string(member);
        }
        writer.finish()
    }
}

/// A share group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareGroupMetadata {
    /// Raised whenever members, subscriptions or topics change.
    pub epoch: i32,
    /// Hash of the topics that the group reads. 0 for none.
    pub metadata_hash: i64,
}

impl ShareGroupMetadata {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a share group")?;
        let this = Self { epoch: reader.i32("epoch")?, metadata_hash: reader.i64("metadata hash")? };
        reader.skip_tagged()?;
        Ok(this)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        writer.i32(self.epoch).i64(self.metadata_hash).no_tags();
        writer.finish()
    }
}

/// A member of a share group, as it described itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareGroupMember {
    /// Its rack.
    pub rack_id: Option<String>,
    /// The client id.
    pub client_id: String,
    /// The client's address.
    pub client_host: String,
    /// Topics that it reads.
    pub subscribed_topic_names: Vec<String>,
}

impl ShareGroupMember {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, not UTF-8, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a share group's member")?;
        let this = Self {
            rack_id: read_nullable(&mut reader, "rack id")?,
            client_id: reader.string("client id")?.to_owned(),
            client_host: reader.string("client host")?.to_owned(),
            subscribed_topic_names: read_strings(&mut reader, "subscribed topic names")?,
        };
        reader.skip_tagged()?;
        Ok(this)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        writer.nullable_string(self.rack_id.as_deref()).string(&self.client_id).string(&self.client_host);
        write_strings(&mut writer, &self.subscribed_topic_names);
        writer.no_tags();
        writer.finish()
    }
}

/// The current assignment of a member of a share group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareCurrentMemberAssignment {
    /// The member's epoch.
    pub epoch: i32,
    /// The previous member epoch.
    pub previous_epoch: i32,
    /// Always 1, stable. Share-partitions need not be revoked before others use them.
    pub state: i8,
    /// The partitions.
    pub assigned: Vec<TopicPartitionsById>,
}

impl ShareCurrentMemberAssignment {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a share group member's current assignment")?;
        let this = Self {
            epoch: reader.i32("member epoch")?,
            previous_epoch: reader.i32("previous member epoch")?,
            state: reader.i8("state")?,
            assigned: read_partitions(&mut reader, "assigned partitions")?,
        };
        reader.skip_tagged()?;
        Ok(this)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        writer.i32(self.epoch).i32(self.previous_epoch).i8(self.state);
        write_partitions(&mut writer, &self.assigned);
        writer.no_tags();
        writer.finish()
    }
}

/// Partitions of a topic, with the topic's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedTopicPartitions {
    /// The topic's id.
    pub topic: TopicUuid,
    /// The topic's name.
    pub name: String,
    /// Its partitions.
    pub partitions: Vec<i32>,
}

/// The share-partitions of a group that have a state at the share coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareGroupStatePartitions {
    /// Partitions whose state is being created.
    pub initializing: Vec<NamedTopicPartitions>,
    /// Partitions whose state exists.
    pub initialized: Vec<NamedTopicPartitions>,
    /// Topics, by id and name, whose state is being deleted.
    pub deleting: Vec<(TopicUuid, String)>,
    /// The generation of the group's states in which it creates them. 0 if unknown. A tagged field of
    /// tailrace, which Kafka skips.
    pub generation: i64,
}

impl ShareGroupStatePartitions {
    /// Decodes a value.
    ///
    /// # Errors
    /// Truncated, not UTF-8, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = value_reader(bytes, "a share group's state partitions")?;
        let mut this = Self {
            initializing: reader.array("initializing topics", read_named)?,
            initialized: reader.array("initialized topics", read_named)?,
            deleting: reader.array("deleting topics", |reader| {
                let topic = (reader.uuid("topic id")?, reader.string("topic name")?.to_owned());
                reader.skip_tagged()?;
                Ok(topic)
            })?,
            generation: 0,
        };
        reader.tagged(|tag, field| {
            if tag == GENERATION_TAG {
                this.generation = field.i64("generation")?;
            }
            Ok(())
        })?;
        Ok(this)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Bytes {
        let mut writer = value_writer();
        writer.array(self.initializing.iter(), write_named).array(self.initialized.iter(), write_named);
        writer.array(self.deleting.iter(), |writer, (topic, name)| {
            writer.uuid(*topic).string(name).no_tags();
        });
        match self.generation {
            0 => writer.no_tags(),
            generation => writer.tags(&[(GENERATION_TAG, &|field: &mut FieldWriter| {
                field.i64(generation);
            })]),
        };
        writer.finish()
    }
}

fn read_named(reader: &mut FieldReader<'_>) -> Result<NamedTopicPartitions> {
    let this = NamedTopicPartitions {
        topic: reader.uuid("topic id")?,
        name: reader.string("topic name")?.to_owned(),
        partitions: reader.array("partitions", |reader| reader.i32("partition"))?,
    };
    reader.skip_tagged()?;
    Ok(this)
}

fn write_named(writer: &mut FieldWriter, topic: &NamedTopicPartitions) {
    writer.uuid(topic.topic).string(&topic.name);
    write_numbers(writer, &topic.partitions);
    writer.no_tags();
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
        let group = || "work".to_owned();
        let member = || "m-1".to_owned();
        let keys = [
            (10, ShareGroupKey::Member { group: group(), member: member() }),
            (11, ShareGroupKey::Group { group: group() }),
            (12, ShareGroupKey::TargetMetadata { group: group() }),
            (13, ShareGroupKey::TargetMember { group: group(), member: member() }),
            (14, ShareGroupKey::CurrentMember { group: group(), member: member() }),
            (15, ShareGroupKey::StatePartitions { group: group() }),
        ];
        for (version, key) in keys {
            let bytes = key.encode();
            assert_eq!(bytes[..2], i16::to_be_bytes(version));
            assert_eq!(ShareGroupKey::decode(&bytes).as_ref(), Ok(&key));
            every_cut_fails(&bytes, ShareGroupKey::decode);
        }
        assert!(ShareGroupKey::decode(&[0, 9, 0, 0]).is_err());
    }

    #[test]
    fn values_come_back() {
        let group = ShareGroupMetadata { epoch: 4, metadata_hash: -5 };
        let bytes = group.encode();
        assert_eq!(ShareGroupMetadata::decode(&bytes), Ok(group));
        every_cut_fails(&bytes, ShareGroupMetadata::decode);

        let member = ShareGroupMember {
            rack_id: None,
            client_id: "c".to_owned(),
            client_host: "/::1".to_owned(),
            subscribed_topic_names: vec!["jobs".to_owned()],
        };
        let bytes = member.encode();
        assert_eq!(ShareGroupMember::decode(&bytes), Ok(member));
        every_cut_fails(&bytes, ShareGroupMember::decode);

        let assigned = vec![([1; 16], vec![0, 1])];
        let current = ShareCurrentMemberAssignment { epoch: 2, previous_epoch: 1, state: 1, assigned };
        let bytes = current.encode();
        assert_eq!(ShareCurrentMemberAssignment::decode(&bytes), Ok(current));
        every_cut_fails(&bytes, ShareCurrentMemberAssignment::decode);

        let named =
            NamedTopicPartitions { topic: [1; 16], name: "jobs".to_owned(), partitions: vec![0, 1, 2] };
        let state = ShareGroupStatePartitions {
            initializing: vec![named.clone()],
            initialized: vec![NamedTopicPartitions { partitions: vec![], ..named }],
            deleting: vec![([2; 16], "old".to_owned())],
            generation: 0,
        };
        let plain = state.encode();
        assert_eq!(ShareGroupStatePartitions::decode(&plain).as_ref(), Ok(&state));
        every_cut_fails(&plain, ShareGroupStatePartitions::decode);
        let state = ShareGroupStatePartitions { generation: 7, ..state };
        let bytes = state.encode();
        assert_eq!(bytes.len(), plain.len() + 2 + 1 + 8, "the tag, its size, the number");
        assert_eq!(ShareGroupStatePartitions::decode(&bytes), Ok(state));
        every_cut_fails(&bytes, ShareGroupStatePartitions::decode);
    }
}
