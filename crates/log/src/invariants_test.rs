//! A log whose state contradicts itself panics before it reports or does anything wrong.

use std::sync::atomic::Ordering::Release;

use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_types::{
    HighWatermark, LeaderEpoch, Offset, PartitionId, RaftIndex, TimestampMs, TopicId, TopicName,
    TopicPartition,
};

use crate::config::{LogConfig, PartitionIdentity};
use crate::log::Log;
use crate::real::RealDisk;
use crate::store::LogStore;

const NOW: TimestampMs = TimestampMs(1_000_000);

/// A log with records 0 to 9 and a segment for every five.
fn log() -> (Log<RealDisk>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let topic_partition = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
    let identity = PartitionIdentity { topic_id: TopicId([1; 16]), topic_partition };
    let config = LogConfig { segment_bytes: 5 * 69, ..LogConfig::default() };
    let store = LogStore::new(RealDisk, 16);
    let (mut log, _) = Log::open(&store, &folder.path().join("t-0"), &identity, config, NOW).unwrap();
    (0..10).for_each(|_| append(&mut log));
    assert_eq!(log.reader().segment_count(), 2);
    log.sync().unwrap();
    (log, folder)
}

fn append(log: &mut Log<RealDisk>) {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(NOW, None, Some(b"v"), &[]).unwrap();
    let bytes = builder.build();
    let base_offset = log.log_end().offset();
    let header =
        BatchHeader { base_offset, leader_epoch: LeaderEpoch(1), ..BatchHeader::parse(&bytes).unwrap() };
    log.append(&header, log.next_raft_index(), &bytes, NOW).unwrap();
}

#[test]
#[should_panic(expected = "an append moved the log end from 10 to 10")]
fn an_append_moves_the_log_end_forward() {
    log().0.reader.raise_log_end(Offset(10));
}

#[test]
#[should_panic(expected = "10 is durable of a log that ends at 7")]
fn no_more_is_durable_than_there_is() {
    let (mut log, _folder) = log();
    let plan = log.sync_plan();
    log.reader.set_log_end(Offset(7));
    log.mark_durable(&plan);
}

#[test]
#[should_panic(expected = "the log start went to 11, beyond the log end 10")]
fn the_log_does_not_start_beyond_its_end() {
    log().0.reader.raise_log_start(Offset(11));
}

#[test]
#[should_panic(expected = "the log start went back from 5 to 3")]
fn the_log_start_does_not_go_back() {
    let (log, _folder) = log();
    log.reader.raise_log_start(Offset(5));
    log.reader.raise_log_start(Offset(3));
}

#[test]
#[should_panic(expected = "a log from 5 to 3")]
fn a_log_does_not_end_before_it_starts() {
    let (log, _folder) = log();
    log.reader.raise_log_start(Offset(5));
    log.reader.set_log_end(Offset(3));
}

#[test]
#[should_panic(expected = "the epoch went back from 7 to 1")]
fn the_epoch_does_not_go_back() {
    let (mut log, _folder) = log();
    log.last_epoch = LeaderEpoch(7);
    log.begin_epoch(LeaderEpoch(1), Offset(10));
}

/// Retention may remove only whole segments below the new log start.
#[test]
#[should_panic(
    expected = "records from 0 on are kept, and a segment goes that reaches up to Some(Offset(5))"
)]
fn a_segment_that_has_records_above_the_log_start_does_not_go() {
    let _ = log().0.trim(1, Offset(0), None);
}

#[test]
#[should_panic(expected = "is cut off at")]
fn a_log_is_not_cut_off_behind_its_end() {
    let (mut log, _folder) = log();
    let cut = log.cut_at(RaftIndex(8)).unwrap();
    log.reader.log_end.store(3, Release);
    let _ = log.carry_out(cut, RaftIndex(8));
}

/// A row on disk is no invariant: the log takes no more writes, and the process continues.
#[test]
fn a_row_that_tells_of_more_than_the_log_has_is_damage() {
    let (mut log, _folder) = log();
    log.reader.log_end.store(3, Release);
    let error = log.truncate_from(RaftIndex(8)).unwrap_err();
    assert!(error.to_string().contains("which the log does not reach"), "{error}");
    assert!(log.poisoned().is_some());
}

#[test]
fn what_is_legal_goes_through() {
    let (mut log, _folder) = log();
    log.config.retention_records = Some(5);
    let trim = log.retain(HighWatermark(10), NOW).unwrap();
    assert_eq!((trim.log_start(), log.log_start()), (Offset(5), Offset(5)));
    log.truncate_from(RaftIndex(9)).unwrap();
    append(&mut log);
    assert_eq!(log.log_end().offset(), Offset(9));
}
