//! A partition whose state contradicts itself panics before it reports the state to anyone.

use tailrace_log::{Log, LogConfig, LogStore, PartitionIdentity, RealDisk};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_types::{
    HighWatermark, LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, RaftIndex, TimestampMs,
    TopicId, TopicName, TopicPartition,
};

use crate::producers::Producers;
use crate::reader::PartitionReader;
use crate::{Durability, Policy, SnapshotError, Solo};

const NOW: TimestampMs = TimestampMs(1_000_000);

fn identity() -> PartitionIdentity {
    let topic_partition = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
    PartitionIdentity { topic_id: TopicId([1; 16]), topic_partition }
}

/// A batch of producer 7 with two records.
fn batch(base_offset: i64, epoch: i16, base_sequence: i32) -> (BatchHeader, bytes::Bytes) {
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id: ProducerId(7),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence,
        ..BatchOptions::default()
    });
    (0..2).for_each(|_| builder.push(NOW, None, Some(b"v"), &[]).unwrap());
    let (header, bytes) = builder.build_with_header();
    (BatchHeader { base_offset: Offset(base_offset), leader_epoch: LeaderEpoch(1), ..header }, bytes)
}

/// The reader of a partition with records 0 and 1, none committed.
fn reader() -> (PartitionReader<RealDisk>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (dir, store) = (folder.path().join("t-0"), LogStore::new(RealDisk, 16));
    let (mut log, _) = Log::open(&store, &dir, &identity(), LogConfig::default(), NOW).unwrap();
    let (header, bytes) = batch(0, 0, 0);
    log.append(&header, RaftIndex(1), &bytes, NOW).unwrap();
    (PartitionReader::new(log.reader(), HighWatermark(0), Offset(0), LeaderEpoch(1)), folder)
}

#[test]
#[should_panic(expected = "the high watermark went to 3, beyond the log's end 2")]
fn the_high_watermark_is_not_beyond_the_log() {
    reader().0.raise_high_watermark(HighWatermark(3));
}

#[test]
#[should_panic(expected = "the high watermark went back from 2 to 1")]
fn the_high_watermark_does_not_go_back() {
    let (reader, _folder) = reader();
    reader.raise_high_watermark(HighWatermark(2));
    reader.raise_high_watermark(HighWatermark(1));
}

#[test]
#[should_panic(expected = "the last stable offset went to 1, beyond the high watermark 0")]
fn the_last_stable_offset_is_not_beyond_the_high_watermark() {
    reader().0.raise_last_stable_offset(Offset(1));
}

#[test]
#[should_panic(expected = "the last stable offset went back from 2 to 1")]
fn the_last_stable_offset_does_not_go_back() {
    let (reader, _folder) = reader();
    reader.raise_high_watermark(HighWatermark(2));
    reader.raise_last_stable_offset(Offset(2));
    reader.raise_last_stable_offset(Offset(1));
}

#[cfg(feature = "raft")]
#[test]
#[should_panic(expected = "the leader epoch went back from 5 to 4")]
fn the_leader_epoch_does_not_go_back() {
    let (reader, _folder) = reader();
    reader.raise_epoch(LeaderEpoch(5));
    reader.raise_epoch(LeaderEpoch(4));
}

/// A table in which producer 7 has written sequences 0 and 1 of epoch 3 at offsets 10 and 11.
fn producers() -> Producers {
    let mut producers = Producers::default();
    producers.remember(&batch(10, 3, 0).0, NOW);
    producers
}

#[test]
#[should_panic(expected = "sequence 3 of producer 7 is appended after 1")]
fn a_gap_in_sequences_is_not_appended() {
    producers().assert_continues(&batch(12, 3, 3).0);
}

#[test]
#[should_panic(expected = "producer 7 went back from epoch 3 to 2")]
fn an_epoch_of_the_past_is_not_appended() {
    producers().assert_continues(&batch(12, 2, 0).0);
}

#[test]
#[should_panic(expected = "producer 7 has offset 11 already, and appends at 11")]
fn an_offset_is_not_given_twice() {
    producers().assert_continues(&batch(11, 3, 2).0);
}

#[test]
fn what_follows_is_appended() {
    producers().assert_continues(&batch(12, 3, 2).0);
    producers().assert_continues(&batch(12, 4, 0).0);
}

/// A file's content is no invariant. With such a table, the next marker or batch would panic the partition.
#[test]
fn a_table_that_tells_of_what_comes_behind_it_is_as_good_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, store) = (folder.path().join("t-0"), LogStore::new(RealDisk, 16));
    let open = || {
        let policy = Policy {
            durability: Durability::Strict,
            timestamp_type: tailrace_records::TimestampType::CreateTime,
            producer_expiration_ms: 86_400_000,
        };
        Solo::open(&store, &dir, &identity(), LogConfig::default(), policy, NOW).unwrap().0
    };
    let (mut log, _) = Log::open(&store, &dir, &identity(), LogConfig::default(), NOW).unwrap();
    let (header, bytes) = batch(0, 0, 0);
    log.append(&header, RaftIndex(1), &bytes, NOW).unwrap();
    log.close(Some(producers().to_sections())).unwrap();
    let mut solo = open();
    let known = solo.producers().get(ProducerId(7)).map(|state| (state.epoch, state.last_sequence()));
    assert_eq!(known, Some((ProducerEpoch(0), 1)), "what the log tells");
    solo.begin_epoch().unwrap();
    let (header, bytes) = batch(0, 0, 2);
    assert_eq!(solo.append(&header, &bytes, NOW).unwrap().base_offset, Offset(2));
}

#[test]
fn a_table_with_impossible_batches_is_refused() {
    let mut table = Producers::default();
    for number in 0..5 {
        table.remember(&batch(10 * i64::from(number), 0, 2 * number).0, NOW);
    }
    let good = table.snapshot();
    assert!(Producers::from_snapshot(&good).is_ok());
    // One producer: the number of its batches is at byte 6 + 30, and each batch takes 32 bytes.
    let (count_at, first_at) = (36, 37);
    assert_eq!(good[count_at], 5);
    let refused = Err(SnapshotError::Batches { producer: ProducerId(7) });
    let mut more = good.to_vec();
    let last = more[first_at + 4 * 32..first_at + 5 * 32].to_vec();
    more.splice(first_at + 5 * 32..first_at + 5 * 32, last.clone());
    more[count_at] = 6;
    assert_eq!(Producers::from_snapshot(&more), refused);
    let mut disordered = good.to_vec();
    disordered[first_at..first_at + 32].copy_from_slice(&last);
    assert_eq!(Producers::from_snapshot(&disordered), refused);
}
