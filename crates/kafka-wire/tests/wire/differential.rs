//! Compares this crate with `kafka-protocol`, which others generated from the definitions of Kafka 4.1. Each
//! reads what the other writes.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

use super::schema::Message;
use super::{any, vectors};

/// Keys and versions that `kafka-protocol` lacks in the request, the response or both: those of Kafka 4.2 and
/// 4.3, and some that it left out. The round trips still test them. A test fails if one of them works by now.
const UNKNOWN_TO_IT: &[(ApiKeyCode, i16)] = &[
    (2, 11), // ListOffsets
    (8, 10), // OffsetCommit
    (9, 10), // OffsetFetch
    (22, 6), // InitProducerId, unstable
    (27, 2), // WriteTxnMarkers
    (35, 5), // DescribeLogDirs
    (78, 2), // ShareFetch
    (79, 2), // ShareAcknowledge
    (90, 1), // DescribeShareGroupOffsets
];

type ApiKeyCode = i16;

/// A value decoded by `kafka-protocol`.
#[derive(Debug, PartialEq)]
enum Theirs {
    Request(Box<RequestKind>),
    Response(Box<ResponseKind>),
}

impl Theirs {
    fn decode(message: &Message, version: i16, bytes: &Bytes) -> Result<Self, String> {
        let key = ApiKey::try_from(message.key).map_err(|()| "no such key".to_owned())?;
        let mut left = bytes.clone();
        let value = if message.request {
            RequestKind::decode(key, &mut left, version).map(|kind| Self::Request(Box::new(kind)))
        } else {
            ResponseKind::decode(key, &mut left, version).map(|kind| Self::Response(Box::new(kind)))
        };
        let value = value.map_err(|error| format!("{error:#}"))?;
        if left.is_empty() { Ok(value) } else { Err(format!("{} bytes were left", left.len())) }
    }

    fn encode(&self, version: i16) -> Result<Bytes, String> {
        let mut bytes = BytesMut::new();
        let result = match self {
            Self::Request(kind) => kind.encode(&mut bytes, version),
            Self::Response(kind) => kind.encode(&mut bytes, version),
        };
        result.map(|()| bytes.freeze()).map_err(|error| format!("{error:#}"))
    }
}

#[test]
fn both_crates_understand_each_other() {
    let mut failures = Vec::new();
    let mut compared = 0;
    for vector in vectors::all(8, 3) {
        let (message, version) = (vector.message, vector.version);
        if UNKNOWN_TO_IT.contains(&(message.key, version)) {
            continue;
        }
        match compare(message, version, &vector.bytes) {
            Ok(()) => compared += 1,
            Err(reason) => failures.push(format!("{} v{version}: {reason}", message.name())),
        }
    }
    failures.dedup();
    assert!(failures.is_empty(), "{compared} agreed, but:\n{}", failures.join("\n"));
}

#[test]
fn what_is_listed_as_unknown_to_that_crate_is_so() {
    for vector in vectors::all(1, 4).filter(|vector| vector.message.request) {
        let (message, version) = (vector.message, vector.version);
        let understood = Theirs::decode(message, version, &vector.bytes).is_ok();
        let listed = UNKNOWN_TO_IT.contains(&(message.key, version));
        assert_eq!(understood, !listed, "{} v{version}", message.name());
    }
}

fn compare(message: &Message, version: i16, vector: &Bytes) -> Result<(), String> {
    let theirs = Theirs::decode(message, version, vector)?;
    let their_bytes = theirs.encode(version)?;
    let ours = any::decode_and_encode(message, version, their_bytes.clone()).map_err(|e| e.to_string())?;
    if ours != their_bytes {
        return Err("we read what they wrote and write something else".to_owned());
    }
    let our_bytes = any::decode_and_encode(message, version, vector.clone()).map_err(|e| e.to_string())?;
    if Theirs::decode(message, version, &our_bytes)? != theirs {
        return Err("they read what we wrote as something else".to_owned());
    }
    if our_bytes != their_bytes {
        return Err("the two write different bytes".to_owned());
    }
    Ok(())
}
