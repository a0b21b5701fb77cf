//! Subscriptions and assignments of classic groups, in the format of Kafka's consumers. Members exchange them
//! through the server, which does not parse them. So the bytes may be anything.

use bytes::Bytes;
use tailrace_kafka_wire::{DecodeError, Reader};

use super::Assignment;

/// Topics or partitions to read at most: a damaged count must not exhaust memory.
const COUNT_MAX: i32 = 1_000_000;

/// The topics of a subscription; empty if the bytes are not one.
pub(super) fn subscription(bytes: Bytes) -> Vec<String> {
    read_subscription(&mut Reader::new(bytes)).unwrap_or_default()
}

/// The partitions of an assignment; empty if the bytes are not one.
pub(super) fn assignment(bytes: Bytes) -> Assignment {
    read_assignment(&mut Reader::new(bytes)).unwrap_or_default()
}

fn read_subscription(reader: &mut Reader) -> Result<Vec<String>, DecodeError> {
    reader.i16("version")?;
    let count = reader.i32("topics")?.clamp(0, COUNT_MAX);
    (0..count).map(|_| reader.string(false, "topic")).collect()
}

fn read_assignment(reader: &mut Reader) -> Result<Assignment, DecodeError> {
    reader.i16("version")?;
    let mut assignment = Assignment::new();
    for _ in 0..reader.i32("topics")?.clamp(0, COUNT_MAX) {
        let topic = reader.string(false, "topic")?;
        let count = reader.i32("partitions")?.clamp(0, COUNT_MAX);
        let partitions = (0..count).map(|_| reader.i32("partition")).collect::<Result<Vec<_>, _>>()?;
        let assigned = assignment.entry(topic).or_default();
        assigned.extend(partitions);
        assigned.sort_unstable();
    }
    Ok(assignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_consumers_write_is_read_and_anything_else_is_nothing() {
        let written = b"\0\x01\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\x05\0\0\0\x01\0\x01b\0\0\0\0\xff\xff\xff\xff";
        let expected = Assignment::from([("a".to_owned(), vec![1, 5]), ("b".to_owned(), vec![])]);
        assert_eq!(assignment(Bytes::from_static(written)), expected);
        assert_eq!(subscription(Bytes::from_static(b"\0\x03\0\0\0\x01\0\x02ab\0\0\0\0")), ["ab"]);
        for odd in [&b""[..], b"x", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\x01\0\x01a\x7f\xff\xff\xff"] {
            assert_eq!(assignment(Bytes::from_static(odd)), Assignment::new());
            assert_eq!(subscription(Bytes::from_static(&odd[..odd.len().min(6)])), Vec::<String>::new());
        }
    }
}
