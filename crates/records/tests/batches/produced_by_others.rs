//! Segments that Kafka wrote for its own Java producer and for librdkafka. Every batch passes, and every
//! record can be read.
//!
//! `fixtures/README.md` describes how they were made.

use bytes::Bytes;
use tailrace_records::*;
use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

const TIME: i64 = 1_700_000_000_000;

macro_rules! fixtures {
    ($($name:literal),* $(,)?) => { &[$(($name, include_bytes!(concat!("../fixtures/", $name, ".log")))),*] };
}

/// The segments with the thirty records, their own timestamps and no markers.
const SEGMENTS: &[(&str, &[u8])] = fixtures![
    "java-none",
    "java-gzip",
    "java-snappy",
    "java-lz4",
    "java-zstd",
    "librdkafka-none",
    "librdkafka-gzip",
    "librdkafka-snappy",
    "librdkafka-lz4",
    "librdkafka-zstd",
];

/// Key, value and headers of record `i`, by the same rule as in the fixtures' programs.
fn assert_is(record: &Record<'_>, i: i64) {
    let key = match i % 5 {
        0 => None,
        1 => Some(String::new()),
        _ => Some(format!("key-{i}")),
    };
    let value = (i % 7 != 3).then(|| format!("value-{i} ").repeat((i * 13 % 40) as usize));
    let header = format!("x{i}");
    let headers =
        [Header { key: b"h", value: Some(header.as_bytes()) }, Header { key: b"null", value: None }];
    assert_eq!(record.key, key.as_ref().map(|k| k.as_bytes()), "key of {i}");
    assert_eq!(record.value, value.as_ref().map(|v| v.as_bytes()), "value of {i}");
    assert_eq!(record.headers.collect::<Vec<_>>(), headers[..(i % 3) as usize], "headers of {i}");
}

/// Restores the batch as its producer sent it, before the server stamped the first sixteen bytes.
fn as_sent(batch: &[u8]) -> Bytes {
    let mut sent = batch.to_vec();
    sent[..LENGTH_OFFSET].fill(0);
    sent[LEADER_EPOCH_OFFSET..PREFIX_BYTES].fill(0xff);
    sent.into()
}

#[test]
fn every_codec_of_java_and_librdkafka() {
    for (name, segment) in SEGMENTS {
        let mut next = 0;
        for batch in split_batches(segment) {
            let (header, bytes) = batch.unwrap();
            assert_eq!(check(bytes).as_ref(), Ok(&header), "{name}");
            let codec = header.attributes.compression().unwrap();
            assert!(name.ends_with(codec.name()), "{name} {codec}");
            let sent = as_sent(bytes);
            let valid = validate(sent.clone(), &AppendRules::kafka_defaults(TimestampMs(TIME))).unwrap();
            assert_eq!(valid.bytes.as_ptr(), sent.as_ptr(), "{name}: the bytes stay where they are");
            let decoded = DecodedBatch::new(bytes, 1 << 20).unwrap();
            for record in decoded.records_with(Strictness::Strict) {
                let record = record.unwrap();
                assert_eq!(
                    (record.offset, record.timestamp),
                    (Offset(next), TimestampMs(TIME + next)),
                    "{name}"
                );
                assert_is(&record, next);
                next += 1;
            }
            assert_eq!(header.next_offset(), Offset(next), "{name}");
        }
        assert_eq!(next, 30, "{name}");
    }
}

#[test]
fn log_append_time_is_the_batchs() {
    let segment = include_bytes!("../fixtures/java-append-time.log");
    let batch = DecodedBatch::new(segment, 1 << 20).unwrap();
    assert_eq!(batch.header().attributes.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(batch.header().base_timestamp, TimestampMs(TIME));
    assert_eq!((batch.header().record_count, batch.records().count()), (30, 30));
    for (i, record) in (0..).zip(batch.records()) {
        let record = record.unwrap();
        assert_eq!(record.timestamp, batch.header().max_timestamp);
        assert_eq!(record.timestamp_delta, i);
        assert_is(&record, i);
    }
}

#[test]
fn transactions_and_their_markers() {
    let segment = include_bytes!("../fixtures/java-transactions.log");
    let headers: Vec<BatchHeader> = split_batches(segment).map(|b| b.unwrap().0).collect();
    let seen: Vec<_> = headers
        .iter()
        .map(|h| {
            (
                h.base_offset.0,
                h.record_count,
                h.attributes.is_control(),
                h.producer_epoch.0,
                h.last_sequence(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [(0, 15, false, 0, 14), (15, 1, true, 1, -1), (16, 15, false, 1, 14), (31, 1, true, 2, -1)]
    );
    assert!(headers.iter().all(|h| h.attributes.is_transactional() && h.has_producer_id()));
    for (batch, kind) in split_batches(segment).skip(1).step_by(2).zip([1u8, 0]) {
        let (_, bytes) = batch.unwrap();
        let batch = DecodedBatch::new(bytes, 1 << 20).unwrap();
        let marker = batch.records().next().unwrap().unwrap();
        assert_eq!(marker.key, Some(&[0, 0, 0, kind][..]), "version 0; 1 commits, 0 aborts");
        let refused = validate(as_sent(bytes), &AppendRules::kafka_defaults(TimestampMs(TIME)));
        assert_eq!(refused, Err(BatchError::Control));
        // Reading it and building it again yields what Kafka wrote.
        let read = EndTransactionMarker::read(bytes).unwrap().unwrap();
        assert_eq!(read.committed, kind == 1);
        let header = batch.header();
        let (id, epoch, time) = (header.producer_id, header.producer_epoch, header.max_timestamp);
        let (_, built) = read.build(id, epoch, time, TimestampType::CreateTime);
        assert_eq!(built[PREFIX_BYTES..], bytes[PREFIX_BYTES..]);
    }
}

/// A header byte by byte: the first batch of `java-none.log`, as Kafka's DumpLogSegments displays it.
#[test]
fn a_header_of_the_java_producer() {
    let segment = include_bytes!("../fixtures/java-none.log");
    let header = BatchHeader::parse(segment).unwrap();
    let crc = u32::from_be_bytes(segment[CRC_OFFSET..ATTRIBUTES_OFFSET].try_into().unwrap());
    let expected = BatchHeader {
        base_offset: Offset(0),
        batch_length: segment.len() as i32 - 12,
        leader_epoch: LeaderEpoch(0),
        magic: 2,
        crc,
        attributes: Attributes(0),
        last_offset_delta: 29,
        base_timestamp: TimestampMs(TIME),
        max_timestamp: TimestampMs(TIME + 29),
        producer_id: ProducerId(0),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        record_count: 30,
    };
    assert_eq!(header, expected);
    assert_eq!(header.to_bytes(), segment[..HEADER_BYTES]);
    assert_eq!(header.prefix(), segment[..PREFIX_BYTES]);
    assert_eq!(header.total_bytes(), segment.len());
}

#[test]
fn our_builder_writes_the_java_producers_bytes() {
    let segment = include_bytes!("../fixtures/java-none.log");
    let theirs = DecodedBatch::new(segment, 1 << 20).unwrap();
    let options = BatchOptions {
        leader_epoch: LeaderEpoch(0),
        producer_id: ProducerId(0),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options);
    for record in theirs.records() {
        let record = record.unwrap();
        let headers: Vec<_> = record.headers.map(|h| (h.key, h.value)).collect();
        builder.push(record.timestamp, record.key, record.value, &headers).unwrap();
    }
    assert_eq!(builder.bytes_estimate(), segment.len());
    assert_eq!(builder.build()[..], segment[..]);
}
