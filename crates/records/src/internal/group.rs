//! Classic groups in `__consumer_offsets`.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::codec::{FieldReader, FieldWriter, InternalRecordError, Layout};

const KEY_VERSION: i16 = 2;

/// Versions of values, the one that Kafka 4.3 writes, and the first flexible one.
const VALUE_VERSIONS: RangeInclusive<i16> = 0..=4;
const VALUE_WRITTEN: i16 = 3;
const VALUE_FLEXIBLE: i16 = 4;
const REBALANCE_TIMEOUT_FROM: i16 = 1;
const STATE_TIMESTAMP_FROM: i16 = 2;
const INSTANCE_FROM: i16 = 3;

/// Which group it is: `GroupMetadataKey`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupKey<'a> {
    /// The group's id.
    pub group: &'a str,
}

impl<'a> GroupKey<'a> {
    /// Writes it as Kafka does.
    ///
    /// # Panics
    /// If the id is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(KEY_VERSION, Layout::Fixed);
        writer.string(self.group);
        writer.finish()
    }

    /// Reads it, version included.
    ///
    /// # Errors
    /// Truncated, another version, or not UTF-8.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        reader.version_in("the key of a group", KEY_VERSION..=KEY_VERSION, i16::MAX)?;
        Ok(Self { group: reader.string("group")? })
    }
}

/// The group: `GroupMetadataValue`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupValue<'a> {
    /// What kind of thing the members are; empty if there never were any.
    pub protocol_type: &'a str,
    /// The generation.
    pub generation: i32,
    /// The protocol that was chosen.
    pub protocol: Option<&'a str>,
    /// Id of the leader.
    pub leader: Option<&'a str>,
    /// When the group took its present state, in milliseconds since 1970; -1 if not known.
    pub state_timestamp: i64,
    /// The members.
    pub members: Vec<GroupMemberValue<'a>>,
}

/// One member: `MemberMetadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMemberValue<'a> {
    /// Its id.
    pub member: &'a str,
    /// Its static identity.
    pub instance: Option<&'a str>,
    /// The client's own name for itself.
    pub client_id: &'a str,
    /// The client's address.
    pub client_host: &'a str,
    /// How long it may take to join again, in milliseconds; -1 if not known.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent, in milliseconds.
    pub session_timeout_ms: i32,
    /// What it reads, in the group's protocol.
    pub subscription: &'a [u8],
    /// What it was given, in the group's protocol.
    pub assignment: &'a [u8],
}

impl<'a> GroupValue<'a> {
    /// Writes it as Kafka 4.3 does, in version 3.
    ///
    /// # Panics
    /// If a text is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(VALUE_WRITTEN, Layout::Fixed);
        writer.string(self.protocol_type).i32(self.generation).nullable_string(self.protocol);
        writer.nullable_string(self.leader).i64(self.state_timestamp);
        writer.array(self.members.iter(), |writer, member| {
            writer.string(member.member).nullable_string(member.instance);
            writer.string(member.client_id).string(member.client_host);
            writer.i32(member.rebalance_timeout_ms).i32(member.session_timeout_ms);
            writer.bytes(member.subscription).bytes(member.assignment);
        });
        writer.finish()
    }

    /// Reads it, version included.
    ///
    /// # Errors
    /// Truncated, another version, or not UTF-8.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        let version = reader.version_in("a group", VALUE_VERSIONS, VALUE_FLEXIBLE)?;
        let value = Self {
            protocol_type: reader.string("protocol type")?,
            generation: reader.i32("generation")?,
            protocol: reader.nullable_string("protocol")?,
            leader: reader.nullable_string("leader")?,
            state_timestamp: if version >= STATE_TIMESTAMP_FROM {
                reader.i64("state timestamp")?
            } else {
                -1
            },
            members: reader.array("members", |reader| read_member(reader, version))?,
        };
        reader.skip_tagged()?;
        Ok(value)
    }
}

fn read_member<'a>(
    reader: &mut FieldReader<'a>,
    version: i16,
) -> Result<GroupMemberValue<'a>, InternalRecordError> {
    let member = GroupMemberValue {
        member: reader.string("member id")?,
        instance: if version >= INSTANCE_FROM { reader.nullable_string("instance id")? } else { None },
        client_id: reader.string("client id")?,
        client_host: reader.string("client host")?,
        rebalance_timeout_ms: if version >= REBALANCE_TIMEOUT_FROM {
            reader.i32("rebalance timeout")?
        } else {
            -1
        },
        session_timeout_ms: reader.i32("session timeout")?,
        subscription: reader.bytes("subscription")?,
        assignment: reader.bytes("assignment")?,
    };
    reader.skip_tagged()?;
    Ok(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> GroupValue<'static> {
        let member = GroupMemberValue {
            member: "m-1",
            instance: Some("i-1"),
            client_id: "client",
            client_host: "/127.0.0.1",
            rebalance_timeout_ms: 300_000,
            session_timeout_ms: 45_000,
            subscription: b"subscription",
            assignment: b"assignment",
        };
        GroupValue {
            protocol_type: "consumer",
            generation: 7,
            protocol: Some("range"),
            leader: Some("m-1"),
            state_timestamp: 1_700_000_000_000,
            members: vec![member, GroupMemberValue { member: "m-2", instance: None, ..member }],
        }
    }

    #[test]
    fn keys_are_those_of_kafka() {
        let bytes = GroupKey { group: "g" }.encode();
        assert_eq!(&bytes[..], b"\0\x02\0\x01g");
        assert_eq!(GroupKey::decode(&bytes), Ok(GroupKey { group: "g" }));
        assert!(GroupKey::decode(b"\0\x01\0\x01g").is_err());
    }

    #[test]
    fn values_come_back_and_no_part_of_one_is_taken_for_a_whole() {
        let bytes = sample().encode();
        assert_eq!(bytes[..2], [0, 3]);
        assert_eq!(GroupValue::decode(&bytes), Ok(sample()));
        for end in 0..bytes.len() {
            assert!(GroupValue::decode(&bytes[..end]).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn an_empty_group_has_no_protocol() {
        let empty = GroupValue {
            protocol_type: "",
            generation: 0,
            protocol: None,
            leader: None,
            state_timestamp: -1,
            members: Vec::new(),
        };
        let bytes = empty.encode();
        let expected = [&b"\0\x03\0\0\0\0\0\0\xff\xff\xff\xff"[..], &[0xff; 8], &[0; 4]].concat();
        assert_eq!(&bytes[..], &expected[..]);
        assert_eq!(GroupValue::decode(&bytes), Ok(empty));
    }

    #[test]
    fn old_versions_lack_fields() {
        let zero = b"\0\0\0\x08consumer\0\0\0\x01\0\x05range\0\x01m\0\0\0\x01\0\x01m\0\x01c\0\x01h\0\0\x03\xe8\0\0\0\x01s\0\0\0\x01a";
        let value = GroupValue::decode(zero).unwrap();
        let member = value.members[0];
        assert_eq!((value.state_timestamp, member.rebalance_timeout_ms), (-1, -1));
        assert_eq!((member.session_timeout_ms, member.instance), (1000, None));
        assert_eq!((member.subscription, member.assignment), (&b"s"[..], &b"a"[..]));
    }
}
