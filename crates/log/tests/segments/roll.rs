//! When a new segment starts.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use tailrace_log::{Log, LogConfig, LogStore, PartitionIdentity, RealDisk};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_types::{LeaderEpoch, PartitionId, RaftIndex, TimestampMs, TopicId, TopicName, TopicPartition};

fn open(dir: &Path, config: LogConfig) -> Log<RealDisk> {
    let topic = TopicName::new("orders").unwrap();
    let topic_partition = TopicPartition::new(topic, PartitionId(0));
    let identity = PartitionIdentity { topic_id: TopicId([1; 16]), topic_partition };
    Log::open(&LogStore::new(RealDisk, 64), dir, &identity, config, TimestampMs(0)).unwrap().0
}

/// Appends a record of this time, while the node's clock shows `now`. Returns the bytes of the batch.
fn append(log: &mut Log<RealDisk>, timestamp: i64, now: i64) -> u64 {
    append_batch(log, 0, timestamp, now)
}

fn append_batch(log: &mut Log<RealDisk>, last_offset_delta: i32, timestamp: i64, now: i64) -> u64 {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(TimestampMs(timestamp), None, Some(&[7; 100]), &[]).unwrap();
    let bytes = builder.build();
    let header = BatchHeader {
        base_offset: log.log_end().offset(),
        leader_epoch: LeaderEpoch(1),
        last_offset_delta,
        ..BatchHeader::parse(&bytes).unwrap()
    };
    log.append(&header, log.next_raft_index(), &bytes, TimestampMs(now)).unwrap();
    bytes.len() as u64
}

/// The rule is `LogSegment.shouldRoll`: strictly more than the limit, by the records' own time.
#[test]
fn a_segment_ends_when_its_records_are_too_far_apart_in_time() {
    let data = tempfile::tempdir().unwrap();
    let config = LogConfig { segment_ms: 1_000, segment_jitter_ms: 100, ..LogConfig::default() };
    let mut log = open(&data.path().join("orders-0"), config);
    append(&mut log, 0, 5_000_000);
    append(&mut log, 900, 9_000_000);
    assert_eq!(log.reader().segment_count(), 1, "900 ms is the limit, and the clock does not count");
    append(&mut log, 901, 9_000_000);
    assert_eq!(log.reader().segment_count(), 2);
    append(&mut log, 500, 9_000_000);
    assert_eq!(log.reader().segment_count(), 2, "an older record does not end a segment");
}

#[test]
fn records_without_a_time_are_as_old_as_their_segment() {
    let data = tempfile::tempdir().unwrap();
    let config = LogConfig { segment_ms: 1_000, ..LogConfig::default() };
    let mut log = open(&data.path().join("orders-0"), config);
    append(&mut log, -1, 10_000);
    append(&mut log, -1, 11_000);
    assert_eq!(log.reader().segment_count(), 1);
    append(&mut log, -1, 11_001);
    assert_eq!(log.reader().segment_count(), 2);
}

#[test]
fn a_segment_may_be_filled_to_its_last_byte() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("orders-0");
    let one = append(&mut open(&data.path().join("orders-1"), LogConfig::default()), 0, 0);
    let mut log = open(&dir, LogConfig { segment_bytes: 3 * one, ..LogConfig::default() });
    for _ in 0..3 {
        append(&mut log, 0, 0);
    }
    assert_eq!((log.reader().segment_count(), log.reader().size_bytes()), (1, 3 * one));
    append(&mut log, 0, 0);
    assert_eq!(log.reader().segment_count(), 2);
}

/// Offsets within a segment are stored as 32 bits.
#[test]
fn a_segment_ends_before_an_offset_that_is_too_far_away() {
    let data = tempfile::tempdir().unwrap();
    let mut log = open(&data.path().join("orders-0"), LogConfig::default());
    // Compaction has left one record of two billion.
    append_batch(&mut log, i32::MAX - 1, 0, 0);
    append(&mut log, 0, 0);
    assert_eq!((log.reader().segment_count(), log.log_end().get()), (1, i64::from(i32::MAX) + 1));
    append(&mut log, 0, 0);
    append(&mut log, 0, 0);
    assert_eq!(
        log.reader().segment_count(),
        2,
        "what counts is the distance from the segment's first offset"
    );
}

#[test]
fn an_open_segment_is_closed_once_it_is_too_old_and_has_records() {
    let data = tempfile::tempdir().unwrap();
    let mut log =
        open(&data.path().join("orders-0"), LogConfig { segment_ms: 1_000, ..LogConfig::default() });
    assert!(!log.close_old_segment(TimestampMs(1_000_000)), "there is none");
    append(&mut log, 0, 5_000);
    assert!(!log.close_old_segment(TimestampMs(6_000)));
    assert!(log.reader().is_closing_due(TimestampMs(6_001)));
    assert!(log.close_old_segment(TimestampMs(6_001)));
    assert!(!log.reader().is_closing_due(TimestampMs(9_000)), "it is closed");
    assert!(!log.close_old_segment(TimestampMs(9_000)));
    append(&mut log, 0, 9_000);
    assert_eq!((log.reader().segment_count(), log.next_raft_index()), (2, RaftIndex(3)));
}
