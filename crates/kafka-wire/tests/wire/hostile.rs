//! Hostile bytes: decoding reports what is wrong, never panics, and takes no more memory than its budget.

use bytes::Bytes;
use tailrace_kafka_wire::messages::{
    DescribeGroupsRequest, MetadataRequest, OffsetForLeaderEpochRequest, ProduceRequest,
};
use tailrace_kafka_wire::{
    ApiKey, DecodeError, Message, Reader, RequestHeader, UNKNOWN_TAGS_MAX, Writer, decode_body,
    memory_budget_bytes,
};

use super::allocations::peak_bytes;
use super::vectors::{self, LengthMark, Random, Vector, Width};
use super::{any, schema, schema_data};

/// Decodes `bytes` and checks that the memory it took is within the budget.
fn decode(message: &schema::Message, version: i16, bytes: Bytes) -> Result<(), DecodeError> {
    let budget = memory_budget_bytes(bytes.len());
    let (result, peak) = peak_bytes(|| any::decode(message, version, bytes));
    assert!(peak <= budget, "{} v{version} took {peak} bytes, more than {budget}", message.name());
    result
}

#[test]
fn every_truncation_is_an_error() {
    for Vector { message, version, bytes, .. } in vectors::all(3, 10) {
        for length in 0..bytes.len() {
            let result = decode(message, version, bytes.slice(..length));
            assert!(result.is_err(), "{} v{version}: {length} of {} bytes", message.name(), bytes.len());
        }
    }
}

/// Returns `bytes` with the length at `mark` replaced.
fn with_length(bytes: &[u8], mark: LengthMark, length: &[u8]) -> Bytes {
    let old = match mark.width {
        Width::Two => 2,
        Width::Four => 4,
        Width::Varint => 1 + bytes[mark.position..].iter().take_while(|&&byte| byte >= 0x80).count(),
    };
    [&bytes[..mark.position], length, &bytes[mark.position + old..]].concat().into()
}

fn bombs(width: Width) -> &'static [&'static [u8]] {
    match width {
        Width::Two => &[&[0x7f, 0xff], &[0xff, 0xfe], &[0x80, 0x00]],
        Width::Four => {
            &[&[0x7f, 0xff, 0xff, 0xff], &[0x01, 0, 0, 0], &[0xff, 0xff, 0xff, 0xfe], &[0x80, 0, 0, 0]]
        }
        Width::Varint => &[
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0x80, 0x80, 0x80, 0x08],
            &[0xff, 0xff, 0xff, 0xff, 0x1f],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ],
    }
}

#[test]
fn lengths_that_are_huge_negative_or_overlong_are_errors() {
    for Vector { message, version, bytes, lengths } in vectors::all(2, 11) {
        for mark in lengths {
            for bomb in bombs(mark.width) {
                let result = decode(message, version, with_length(&bytes, mark, bomb));
                assert!(result.is_err(), "{} v{version} at {}: {bomb:x?}", message.name(), mark.position);
            }
        }
    }
}

#[test]
fn null_is_an_error_where_a_value_is_needed() {
    for Vector { message, version, bytes, lengths } in vectors::all(2, 12) {
        for mark in lengths.into_iter().filter(|mark| !mark.nullable && !mark.of_records) {
            let null: &[u8] = match mark.width {
                Width::Two => &[0xff; 2],
                Width::Four => &[0xff; 4],
                Width::Varint => &[0],
            };
            let result = decode(message, version, with_length(&bytes, mark, null));
            assert!(result.is_err(), "{} v{version} at {}", message.name(), mark.position);
        }
    }
}

#[test]
fn garbage_never_panics_and_what_decodes_can_be_encoded() {
    let mut random = Random(13);
    let mut decoded = 0;
    for _ in 0..40_000 {
        let message = schema_data::MESSAGES[random.below(schema_data::MESSAGES.len())];
        let (min, max) = message.versions;
        let version =
            min + i16::try_from(random.below(usize::from((max - min + 1).unsigned_abs()))).expect("few");
        let bytes = garbage(message, version, &mut random);
        if decode(message, version, bytes.clone()).is_err() {
            continue;
        }
        decoded += 1;
        let once = any::decode_and_encode(message, version, bytes).expect("decoded before");
        let twice = any::decode_and_encode(message, version, once.clone());
        assert_eq!(twice.as_ref(), Ok(&once), "{} v{version}", message.name());
    }
    assert!(decoded > 1000, "only {decoded} were legal: the garbage is too bad to test anything");
}

/// Returns pure noise, or a valid message with some bytes changed.
fn garbage(message: &'static schema::Message, version: i16, random: &mut Random) -> Bytes {
    if random.one_in(3) {
        // Small numbers are more likely to be read as lengths.
        return (0..random.below(200)).map(|_| (random.next() >> (56 + random.below(8))) as u8).collect();
    }
    let mut bytes = vectors::vector(message, version, random).bytes.to_vec();
    for _ in 0..random.below(4) {
        if !bytes.is_empty() {
            let position = random.below(bytes.len());
            bytes[position] = random.next() as u8;
        }
    }
    bytes.into()
}

#[test]
fn headers_of_garbage_never_panic() {
    let mut random = Random(14);
    for _ in 0..40_000 {
        let mut bytes: Vec<u8> = (0..random.below(40)).map(|_| (random.next() >> 58) as u8).collect();
        if let Some(high) = bytes.first_mut() {
            *high = 0;
        }
        let budget = memory_budget_bytes(bytes.len());
        let (_, peak) = peak_bytes(|| RequestHeader::decode(&mut Reader::new(bytes.into())));
        assert!(peak <= budget, "{peak} bytes");
    }
}

#[test]
fn many_tiny_elements_meet_the_limit_of_memory() {
    // MetadataRequest v9: each topic is an empty name and an empty list of tagged fields.
    const TOPICS: u32 = 500_000;
    const LIMIT: usize = 8 << 20;
    let mut writer = Writer::new();
    writer.varint(TOPICS + 1);
    for _ in 0..TOPICS {
        writer.i16(0x0100);
    }
    writer.i32(0);
    let bytes = any::joined(&writer.into_parts());
    let budget = memory_budget_bytes(bytes.len());
    let (result, peak) = peak_bytes(|| decode_body::<MetadataRequest>(Reader::new(bytes.clone()), 9));
    assert!(result.is_ok() && peak <= budget, "{peak} bytes");
    let (result, peak) = peak_bytes(|| {
        let mut reader = Reader::new(bytes);
        reader.limit_memory(LIMIT);
        decode_body::<MetadataRequest>(reader, 9)
    });
    assert!(
        matches!(result, Err(DecodeError::MemoryBudget { field: "MetadataRequest.topics", .. })),
        "{result:?}"
    );
    assert!(peak <= LIMIT, "{peak} bytes");
}

/// Allocators return no block of fewer than 32 bytes, and keep a length beside each.
#[test]
fn short_strings_are_counted_as_the_pieces_that_they_take() {
    // DescribeGroupsRequest v5 with one-letter names.
    const GROUPS: usize = 4_000;
    let mut writer = Writer::new();
    writer.varint(u32::try_from(GROUPS + 1).expect("few"));
    for _ in 0..GROUPS {
        writer.string("m", true, "group").expect("short");
    }
    writer.i16(0);
    let bytes = any::joined(&writer.into_parts());
    let mut reader = Reader::new(bytes);
    let request = DescribeGroupsRequest::decode(&mut reader, 5).expect("it is legal");
    assert_eq!(request.groups.len(), GROUPS);
    assert!(reader.memory_bytes() >= GROUPS * (size_of::<String>() + 32), "{}", reader.memory_bytes());
}

#[test]
fn an_honest_request_of_many_small_topics_stays_within_the_budget() {
    const TOPICS: usize = 100_000;
    let mut writer = Writer::new();
    writer.varint(u32::try_from(TOPICS + 1).expect("few"));
    for index in 0..TOPICS {
        writer.string(&format!("t{index}"), true, "name").expect("short");
        writer.varint(0);
    }
    writer.i32(0x0100_0000);
    let mut bytes = any::joined(&writer.into_parts()).to_vec();
    bytes.truncate(bytes.len() - 4);
    bytes.extend([1, 0, 0, 0]);
    let request = decode_body::<MetadataRequest>(Reader::new(bytes.into()), 9).expect("within the budget");
    assert_eq!(request.topics.map(|topics| topics.len()), Some(TOPICS));
}

#[test]
fn a_frame_has_so_many_unknown_tagged_fields_at_most() {
    let frame = |fields: usize| {
        let mut writer = Writer::new();
        writer.i32(-1);
        writer.varint(1);
        writer.varint(u32::try_from(fields).expect("few"));
        for tag in 0..fields {
            writer.varint(1000 + u32::try_from(tag).expect("few"));
            // Smaller fields meet the memory budget first.
            writer.varint(4);
            writer.i32(7);
        }
        any::joined(&writer.into_parts())
    };
    let decode = |fields| decode_body::<OffsetForLeaderEpochRequest>(Reader::new(frame(fields)), 4);
    assert!(decode(UNKNOWN_TAGS_MAX).is_ok());
    let error = decode(UNKNOWN_TAGS_MAX + 1).expect_err("one too many");
    assert!(matches!(error, DecodeError::TooManyUnknownTags { max: UNKNOWN_TAGS_MAX, .. }), "{error}");
    // Fields that would be decoded and dropped cost next to nothing.
    let bytes = frame(500_000);
    let (result, peak) = peak_bytes(|| decode_body::<OffsetForLeaderEpochRequest>(Reader::new(bytes), 4));
    assert!(result.is_err());
    assert!(peak <= 256 * UNKNOWN_TAGS_MAX, "{peak} bytes");
}

#[test]
fn errors_name_field_and_position() {
    // acks, timeout, then one topic whose name of two bytes is truncated after one.
    let bytes = Bytes::from_static(&[0xff, 0xff, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 2, b'a']);
    let error = decode_body::<ProduceRequest>(Reader::new(bytes), 8).expect_err("it is cut off");
    assert_eq!(
        error.to_string(),
        "ProduceRequest.topic_data at byte 8: expected at most 0 elements in 3 bytes, found a count of 1"
    );
    let bytes = Bytes::from_static(&[0xff, 0xff, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 5, b'a', 0, 0, 0]);
    let error = decode_body::<ProduceRequest>(Reader::new(bytes), 8).expect_err("it is cut off");
    assert_eq!(
        error,
        DecodeError::Truncated { field: "TopicProduceData.name", position: 14, needed: 5, remaining: 4 }
    );
    let bytes = Bytes::from_static(&[0xff, 0xff, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 2, b'a', 0xff, 0, 0, 0, 0]);
    let error = decode_body::<ProduceRequest>(Reader::new(bytes), 8).expect_err("it is no UTF-8");
    assert_eq!(error, DecodeError::NotUtf8 { field: "TopicProduceData.name", position: 15 });
}

#[test]
fn an_unknown_version_is_an_error_for_a_body_only() {
    let versions = ApiKey::Produce.versions();
    let error = decode_body::<ProduceRequest>(Reader::new(Bytes::new()), 14).expect_err("there is no 14");
    assert_eq!(error, DecodeError::UnsupportedVersion { message: "ProduceRequest", version: 14, versions });
    // ApiVersions v99 with a flexible header: the header decodes, so that the server can answer.
    let bytes = Bytes::from_static(&[0, 18, 0, 99, 0, 0, 0, 7, 0, 1, b'c', 0, 1, 2, 3]);
    let mut reader = Reader::new(bytes);
    let header = RequestHeader::decode(&mut reader).expect("a header");
    assert_eq!((header.api_key, header.api_version, header.correlation_id), (ApiKey::ApiVersions, 99, 7));
    assert_eq!((header.client_id.as_deref(), reader.remaining()), (Some("c"), 3));
    let unknown = RequestHeader::decode(&mut Reader::new(Bytes::from_static(&[3, 0, 0, 0, 0, 0, 0, 7])));
    assert_eq!(unknown, Err(DecodeError::UnknownApiKey { key: 768 }));
}
