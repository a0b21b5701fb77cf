//! Compares `validate` with what Apache Kafka 4.3.1 answered to the same bytes, and with what it stored.
//!
//! `fixtures/answers.tsv` is data: each row has a batch, Kafka's error code, and the bytes that Kafka then
//! had in its log. Deliberate differences are listed below with their reasons.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use tailrace_records::*;
use tailrace_types::TimestampMs;

/// Kafka's error codes that occur here.
const UNKNOWN_SERVER_ERROR: i16 = -1;
const CORRUPT_MESSAGE: i16 = 2;
const MESSAGE_TOO_LARGE: i16 = 10;
const INVALID_TIMESTAMP: i16 = 32;
const INVALID_RECORD: i16 = 87;

/// Returns Kafka's code for an error of `validate`. Kafka answers corrupt compressed data with an unhandled
/// exception.
fn code(error: &BatchError) -> i16 {
    use BatchError as E;
    match error {
        E::Length { .. } | E::UnknownMagic { .. } | E::Checksum { .. } => CORRUPT_MESSAGE,
        E::TooLarge { .. } | E::ExpandsTooLarge { .. } => MESSAGE_TOO_LARGE,
        E::InvalidTimestamps(_) => INVALID_TIMESTAMP,
        E::UnknownCompression { .. } | E::Decompression { .. } => UNKNOWN_SERVER_ERROR,
        E::Incomplete { .. } | E::OldMagic { .. } | E::SecondBatch { .. } | E::BaseOffset { .. } => {
            INVALID_RECORD
        }
        E::Count { .. } | E::Control | E::Sequence { .. } | E::Record { .. } | E::TrailingBytes { .. } => {
            INVALID_RECORD
        }
        E::InvalidRecords(_) => INVALID_RECORD,
        E::Full { .. } => unreachable!("only the builder says so"),
    }
}

struct Row {
    name: &'static str,
    topic: &'static str,
    sent: Vec<u8>,
    code: i16,
    indices: Vec<i32>,
    time_ms: i64,
    stored: Vec<u8>,
}

fn rows() -> impl Iterator<Item = Row> {
    include_str!("../fixtures/answers.tsv").lines().map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, topic, sent, code, indices, time_ms, stored] = fields[..] else { panic!("{line}") };
        let indices = indices.split(',').filter(|i| !i.is_empty()).map(|i| i.parse().unwrap()).collect();
        let (code, time_ms) = (code.parse().unwrap(), time_ms.parse().unwrap());
        Row { name, topic, sent: unhex(sent), code, indices, time_ms, stored: unhex(stored) }
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// The topics that `fixtures/ask_kafka.py` creates.
fn rules(row: &Row) -> AppendRules {
    let mut rules = AppendRules::kafka_defaults(TimestampMs(row.time_ms));
    match row.topic {
        "plain" => {}
        "small" => rules.batch_bytes_max = 1000,
        "small_uncompressed" => (rules.batch_bytes_max, rules.compression) = (1000, Some(Compression::None)),
        "recent" => rules.timestamp_before_max_ms = 86_400_000,
        "compacted" => rules.keys_required = true,
        "time" => rules.timestamp_type = TimestampType::LogAppendTime,
        "time_gzip" => {
            rules.timestamp_type = TimestampType::LogAppendTime;
            rules.compression = Some(Compression::Gzip);
        }
        codec => rules.compression = Some(codec.parse().unwrap()),
    }
    if let Ok(stored) = BatchHeader::parse(&row.stored)
        && rules.timestamp_type == TimestampType::LogAppendTime
    {
        rules.now = stored.max_timestamp;
    }
    rules
}

#[test]
fn each_answer_is_kafkas_or_differs_for_a_reason() {
    let mut unexplained = Vec::new();
    let mut deviations: BTreeMap<&str, (i16, i16)> = DEVIATIONS.iter().map(|d| (d.0, (d.1, d.2))).collect();
    for row in rows() {
        let answer = validate(row.sent.clone().into(), &rules(&row));
        let ours = answer.as_ref().map_or_else(code, |_| 0);
        match deviations.remove(row.name) {
            Some(expected) if expected == (row.code, ours) => {}
            None if row.code == ours => same(&row, answer),
            expected => {
                unexplained.push(format!("{}: {expected:?}, Kafka {}, {answer:?}", row.name, row.code))
            }
        }
    }
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
    assert!(deviations.is_empty(), "no row for {deviations:?}");
}

/// If the codes are equal, the same records must be rejected, or the same bytes stored.
fn same(row: &Row, answer: Result<Validated, BatchError>) {
    let name = row.name;
    match answer {
        Err(BatchError::InvalidRecords(rejections) | BatchError::InvalidTimestamps(rejections)) => {
            let indices: Vec<i32> = rejections.records.iter().map(|r| r.index).collect();
            assert_eq!(indices, row.indices, "{name}");
        }
        Err(_) => {}
        Ok(validated) => {
            let mut header = check(&validated.bytes).unwrap();
            assert_eq!(header, validated.header, "{name}");
            let stored = check(&row.stored).unwrap();
            (header.base_offset, header.leader_epoch) = (stored.base_offset, stored.leader_epoch);
            if header == stored {
                assert_eq!(validated.bytes[PREFIX_BYTES..], row.stored[PREFIX_BYTES..], "{name}");
            } else {
                assert_ne!(
                    stored.attributes.compression(),
                    Ok(Compression::None),
                    "{name} {header:?} {stored:?}"
                );
                same_but_for_the_compressed_bytes(name, (header, &validated.bytes), (stored, &row.stored));
            }
        }
    }
}

/// Recompressed: the compressed bytes differ between implementations, the records do not.
fn same_but_for_the_compressed_bytes(
    name: &str,
    (mut ours, bytes): (BatchHeader, &[u8]),
    (stored, kafkas): (BatchHeader, &[u8]),
) {
    (ours.batch_length, ours.crc) = (stored.batch_length, stored.crc);
    assert_eq!(ours, stored, "{name}");
    assert_eq!(records(bytes), records(kafkas), "{name}");
}

/// The records as text. Unused attributes are omitted, and header keys become UTF-8, because Kafka changes
/// both when it recompresses.
fn records(bytes: &[u8]) -> Vec<String> {
    let batch = DecodedBatch::new(bytes, 1 << 20).unwrap();
    let record = |r: Record<'_>| {
        let headers: Vec<_> = r.headers.map(|h| (h.key_text(), h.value)).collect();
        format!("{} {} {:?} {:?} {headers:?}", r.offset_delta, r.timestamp, r.key, r.value)
    };
    batch.records().map(|r| record(r.unwrap())).collect()
}

/// Name, Kafka's code, our code.
const DEVIATIONS: &[(&str, i16, i16)] = &[
    // Decided where transactional ids are known, not here.
    ("transactional_without_producer_id", 53, 0),
    // Kafka's encoder refuses timestamps that its own validation has accepted, with an unhandled exception.
    ("timestamp_minus_2_recompressed_none", UNKNOWN_SERVER_ERROR, 0),
    ("timestamp_minus_2_recompressed_lz4", UNKNOWN_SERVER_ERROR, 0),
    // Kafka stores offset deltas with gaps or repetitions, so that two records share an offset, or a fetch
    // from one offset starts at another. If the batch is compressed, Kafka fails with an unhandled exception.
    // If it recompresses the batch, it repairs them.
    ("record_deltas_0_2_none", 0, INVALID_RECORD),
    ("record_deltas_0_2_lz4", UNKNOWN_SERVER_ERROR, INVALID_RECORD),
    ("record_deltas_0_2_zstd", UNKNOWN_SERVER_ERROR, INVALID_RECORD),
    ("record_deltas_0_2_to_gzip", 0, INVALID_RECORD),
    ("record_deltas_1_0_none", 0, INVALID_RECORD),
    ("record_deltas_1_0_lz4", UNKNOWN_SERVER_ERROR, INVALID_RECORD),
    ("record_deltas_1_0_zstd", UNKNOWN_SERVER_ERROR, INVALID_RECORD),
    ("record_deltas_1_0_to_gzip", 0, INVALID_RECORD),
    ("record_deltas_0_0_none", 0, INVALID_RECORD),
    ("record_deltas_0_0_lz4", UNKNOWN_SERVER_ERROR, INVALID_RECORD),
    ("record_deltas_0_0_zstd", UNKNOWN_SERVER_ERROR, INVALID_RECORD),
    ("record_deltas_0_0_to_gzip", 0, INVALID_RECORD),
    // Kafka does not compare a record's length with its fields if the batch is compressed, and so stores
    // batches that no consumer can read.
    ("record_length_negative_lz4", 0, INVALID_RECORD),
    ("record_length_negative_zstd", 0, INVALID_RECORD),
    ("record_length_beyond_lz4", 0, INVALID_RECORD),
    ("record_length_beyond_zstd", 0, INVALID_RECORD),
    ("record_length_short_lz4", 0, INVALID_RECORD),
    ("record_length_short_zstd", 0, INVALID_RECORD),
    ("record_length_short_two_records_lz4", 0, INVALID_RECORD),
    ("record_length_short_two_records_zstd", 0, INVALID_RECORD),
    ("record_length_max_lz4", 0, INVALID_RECORD),
    ("record_length_max_zstd", 0, INVALID_RECORD),
    // An unhandled exception in Kafka, which answers similar batches with INVALID_RECORD.
    ("record_length_varint_too_long_none", UNKNOWN_SERVER_ERROR, INVALID_RECORD),
    ("record_length_varint_too_long_to_gzip", UNKNOWN_SERVER_ERROR, INVALID_RECORD),
    // Kafka reads as many records as the header declares. It ignores compressed bytes after them, and LZ4's
    // content checksum. Other clients' readers fail on both.
    ("gzip_followed_by_zero", 0, UNKNOWN_SERVER_ERROR),
    ("gzip_followed_by_text", 0, UNKNOWN_SERVER_ERROR),
    ("snappy_followed_by_zero", 0, UNKNOWN_SERVER_ERROR),
    ("lz4_followed_by_zero", 0, UNKNOWN_SERVER_ERROR),
    ("lz4_followed_by_text", 0, UNKNOWN_SERVER_ERROR),
    ("lz4_twice", 0, UNKNOWN_SERVER_ERROR),
    ("lz4_content_checksum_wrong", 0, UNKNOWN_SERVER_ERROR),
];
