//! Classic groups in `__consumer_offsets`.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::codec::{FieldReader, FieldWriter, InternalRecordError, Layout};

const KEY_VERSION: i16 = 2;

/// Versions of values, the version that Kafka 4.3 writes, and the first flexible one.
const VALUE_VERSIONS: RangeInclusive<i16> = 0..=4;
const VALUE_WRITTEN: i16 = 3;
const VALUE_FLEXIBLE: i16 = 4;
const REBALANCE_TIMEOUT_FROM: i16 = 1;
const STATE_TIMESTAMP_FROM: i16 = 2;
const INSTANCE_FROM: i16 = 3;

/// The key of a classic group: `GroupMetadataKey`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupKey<'a> {
    /// The group's id.
    pub group: &'a str,
}

impl<'a> GroupKey<'a> {
    /// Encodes the key as Kafka does.
    ///
    /// # Panics
    /// If the id is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(KEY_VERSION, Layout::Fixed);
        writer.string(self.group);
        writer.finish()
    }

    /// Decodes a key, version included.
    ///
    /// # Errors
    /// Truncated, another version, or not UTF-8.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        reader.version_in("the key of a group", KEY_VERSION..=KEY_VERSION, i16::MAX)?;
        Ok(Self { group: reader.string("group")? })
    }
}

/// The value of a classic group: `GroupMetadataValue`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupValue<'a> {
    /// The protocol type of the members. Empty if there never were any.
    pub protocol_type: &'a str,
    /// The group's generation.
    pub generation: i32,
    /// The chosen protocol.
    pub protocol: Option<&'a str>,
    /// The leader's member id.
    pub leader: Option<&'a str>,
    /// When the group entered its current state, in milliseconds since 1970. -1 if unknown.
    pub state_timestamp: i64,
    /// The members.
    pub members: Vec<GroupMemberValue<'a>>,
}

/// One member: `MemberMetadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMemberValue<'a> {
    /// The member id.
    pub member: &'a str,
    /// Its instance id, if it is a static member.
    pub instance: Option<&'a str>,
    /// The client id.
    pub client_id: &'a str,
    /// The client's address.
    pub client_host: &'a str,
    /// How long it may take to rejoin, in milliseconds. -1 if unknown.
    pub rebalance_timeout_ms: i32,
    /// The session timeout in milliseconds.
    pub session_timeout_ms: i32,
    /// Its subscription, in the format of the group's protocol.
    pub subscription: &'a [u8],
    /// Its assignment, in the format of the group's protocol.
    pub assignment: &'a [u8],
}

impl<'a> GroupValue<'a> {
    /// Encodes the value as Kafka 4.3 does, in version 3.
    ///
    /// # Panics
    /// If a string is longer than 32,767 bytes.
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

    /// Decodes a value, version included.
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
    fn every_other_version_is_read() {
        let member = GroupMemberValue {
            member: "m",
            instance: None,
            client_id: "c",
            client_host: "h",
            rebalance_timeout_ms: 7,
            session_timeout_ms: 1000,
            subscription: b"s",
            assignment: b"a",
        };
        let value = GroupValue {
            protocol_type: "consumer",
            generation: 1,
            protocol: Some("range"),
            leader: Some("m"),
            state_timestamp: 9,
            members: vec![member],
        };
        let head = b"\0\x08consumer\0\0\0\x01\0\x05range\0\x01m";
        let names = b"\0\0\0\x01\0\x01m\0\x01c\0\x01h";
        let tail = b"\0\0\x03\xe8\0\0\0\x01s\0\0\0\x01a";
        let unknown = GroupValue { state_timestamp: -1, ..value.clone() };
        let zero = [&b"\0\0"[..], head, names, tail].concat();
        let members = vec![GroupMemberValue { rebalance_timeout_ms: -1, ..member }];
        assert_eq!(GroupValue::decode(&zero), Ok(GroupValue { members, ..unknown.clone() }));
        let one = [&b"\0\x01"[..], head, names, b"\0\0\0\x07", tail].concat();
        assert_eq!(GroupValue::decode(&one), Ok(unknown));
        let two = [&b"\0\x02"[..], head, b"\0\0\0\0\0\0\0\x09", names, b"\0\0\0\x07", tail].concat();
        assert_eq!(GroupValue::decode(&two), Ok(value.clone()));
        let four = [
            &b"\0\x04\x09consumer\0\0\0\x01\x06range\x02m\0\0\0\0\0\0\0\x09"[..],
            b"\x02\x02m\x02i\x02c\x02h\0\0\0\x07\0\0\x03\xe8\x02s\x02a\0\0",
        ];
        let members = vec![GroupMemberValue { instance: Some("i"), ..member }];
        assert_eq!(GroupValue::decode(&four.concat()), Ok(GroupValue { members, ..value }));
    }
}
