//! The embedded protocol `consumer`, versions 0 to 3: subscriptions and assignments that classic members
//! exchange. Brokers need not parse them, unless such a member is in a consumer group. Later versions only
//! add fields.

use bytes::Bytes;
use tailrace_records::internal::{FieldReader, FieldWriter, InternalRecordError, Layout};

/// The protocol type of members that use it.
pub(crate) const PROTOCOL_TYPE: &str = "consumer";

/// Highest known version.
const VERSION_MAX: i16 = 3;

type Result<T> = std::result::Result<T, InternalRecordError>;

/// A member's subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) version: i16,
    pub(crate) topics: Vec<String>,
    /// The member's partitions by topic name. Older clients do not send them: they give up all partitions
    /// before they join.
    pub(crate) owned: Vec<(String, Vec<i32>)>,
    pub(crate) rack: Option<String>,
}

impl Subscription {
    /// Parses a subscription.
    ///
    /// # Errors
    /// The bytes are malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = FieldReader::new(bytes);
        let version = read_version(&mut reader)?;
        let topics = reader.array("topics", |reader| reader.string("topic").map(str::to_owned))?;
        // Private data of the client's assignor, such as the generation of its partitions.
        reader.nullable_bytes("user data")?;
        let owned = if version >= 1 { read_topics(&mut reader)? } else { Vec::new() };
        if version >= 2 {
            reader.i32("generation")?;
        }
        let rack = if version >= 3 { reader.nullable_string("rack id")?.map(str::to_owned) } else { None };
        Ok(Self { version, topics, owned, rack })
    }

    /// Encodes a subscription, without user data.
    #[cfg(test)]
    pub(crate) fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(self.version, Layout::Fixed);
        writer.array(self.topics.iter(), |writer, topic| {
            writer.string(topic);
        });
        writer.nullable_bytes(None);
        if self.version >= 1 {
            write_topics(&mut writer, &self.owned);
        }
        if self.version >= 2 {
            writer.i32(-1);
        }
        if self.version >= 3 {
            writer.nullable_string(self.rack.as_deref());
        }
        writer.finish()
    }
}

fn read_version(reader: &mut FieldReader<'_>) -> Result<i16> {
    let version = reader.version()?;
    if version < 0 {
        return Err(InternalRecordError::Invalid { field: "version", reason: "is negative" });
    }
    Ok(version.min(VERSION_MAX))
}

fn read_topics(reader: &mut FieldReader<'_>) -> Result<Vec<(String, Vec<i32>)>> {
    reader.array("topic partitions", |reader| {
        let name = reader.string("topic")?.to_owned();
        Ok((name, reader.array("partitions", |reader| reader.i32("partition"))?))
    })
}

fn write_topics(writer: &mut FieldWriter, topics: &[(String, Vec<i32>)]) {
    writer.array(topics.iter(), |writer, (name, partitions)| {
        writer.string(name);
        writer.array(partitions.iter(), |writer, partition| {
            writer.i32(*partition);
        });
    });
}

/// An assignment that a leader has given to a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assigned {
    /// Partitions by topic name.
    pub(crate) topics: Vec<(String, Vec<i32>)>,
    /// True if there is data of the client's own assignor, which only that assignor could produce.
    pub(crate) has_user_data: bool,
}

/// Parses an assignment. Empty bytes are an empty assignment.
///
/// # Errors
/// The bytes are malformed.
pub(crate) fn decode_assignment(bytes: &[u8]) -> Result<Assigned> {
    if bytes.is_empty() {
        return Ok(Assigned::default());
    }
    let mut reader = FieldReader::new(bytes);
    read_version(&mut reader)?;
    let topics = read_topics(&mut reader)?;
    let has_user_data = reader.nullable_bytes("user data")?.is_some_and(|data| !data.is_empty());
    Ok(Assigned { topics, has_user_data })
}

/// Encodes an assignment, in the version of the member's subscription.
pub(crate) fn encode_assignment(version: i16, topics: &[(String, Vec<i32>)]) -> Bytes {
    let mut writer = FieldWriter::new(version, Layout::Fixed);
    write_topics(&mut writer, topics);
    writer.nullable_bytes(None);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_of_all_versions_come_back() {
        for version in 0..=3 {
            let subscription = Subscription {
                version,
                topics: vec!["a".to_owned()],
                owned: if version >= 1 { vec![("a".to_owned(), vec![0, 2])] } else { Vec::new() },
                rack: (version >= 3).then(|| "r".to_owned()),
            };
            let bytes = subscription.encode();
            assert_eq!(Subscription::decode(&bytes), Ok(subscription));
            for cut in 0..bytes.len() {
                assert!(Subscription::decode(&bytes[..cut]).is_err(), "version {version} cut at {cut}");
            }
        }
    }

    #[test]
    fn assignments_come_back() {
        let topics = vec![("a".to_owned(), vec![0, 1]), ("b".to_owned(), vec![])];
        let bytes = encode_assignment(1, &topics);
        assert_eq!(decode_assignment(&bytes), Ok(Assigned { topics, has_user_data: false }));
        assert_eq!(decode_assignment(b""), Ok(Assigned::default()));
        for cut in 1..bytes.len() {
            assert!(decode_assignment(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn user_data_is_skipped_in_subscriptions_and_noticed_in_assignments() {
        let subscription =
            b"\0\x01\0\0\0\x01\0\x01a\0\0\0\x04\0\0\0\x07\0\0\0\x01\0\x01a\0\0\0\x01\0\0\0\x02";
        let found = Subscription::decode(subscription).expect("it is whole");
        assert_eq!((found.topics, found.owned), (vec!["a".to_owned()], vec![("a".to_owned(), vec![2])]));
        let assigned = decode_assignment(b"\0\x01\0\0\0\0\0\0\0\x01!");
        assert_eq!(assigned, Ok(Assigned { topics: vec![], has_user_data: true }));
    }
}
