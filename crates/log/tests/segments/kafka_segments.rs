//! Segments that a real Kafka wrote open unchanged: the index is rebuilt, and every offset can be read.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use tailrace_log::{Log, LogConfig, LogStore, PartitionIdentity, RealDisk, Recovery, inspect};
use tailrace_records::{DecodedBatch, split_batches};
use tailrace_types::{Offset, PartitionId, RaftIndex, TimestampMs, TopicId, TopicName, TopicPartition};

const NOW: TimestampMs = TimestampMs(1_800_000_000_000);

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kafka-4.3.1").join(name)
}

fn copied(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture(name)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    dir
}

fn identity(name: &str) -> PartitionIdentity {
    let topic = TopicName::new(name.strip_suffix("-0").unwrap()).unwrap();
    PartitionIdentity {
        topic_id: TopicId([1; 16]),
        topic_partition: TopicPartition::new(topic, PartitionId(0)),
    }
}

fn opened(dir: &Path, name: &str) -> (Log<RealDisk>, Recovery) {
    let store = LogStore::new(RealDisk, 16);
    Log::open(&store, dir, &identity(name), LogConfig::default(), NOW).unwrap()
}

#[test]
fn every_batch_is_indexed_and_read_back() {
    for (name, batches, end) in [("plain-0", 107, 252), ("compacted-0", 5, 241)] {
        let dir = copied(name);
        let (log, recovery) = opened(dir.path(), name);
        assert!(recovery.truncated.is_none(), "{recovery:?}");
        assert_eq!(log.log_end().offset(), Offset(end), "{name}");
        let reader = log.reader();
        let found: Vec<_> = reader.headers(Offset(0)).map(Result::unwrap).collect();
        let indexes: Vec<_> = found.iter().map(|(row, _)| row.raft_index.0).collect();
        assert_eq!(indexes, (1..=batches).collect::<Vec<_>>());
        let mut next = Offset(0);
        while let Some(slice) = reader.read(next, Offset(end), 1 << 20, true).unwrap() {
            for split in split_batches(&slice.read().unwrap()) {
                let (_, bytes) = split.unwrap();
                assert!(DecodedBatch::new(bytes, 1 << 20).unwrap().records().all(|record| record.is_ok()));
            }
            next = slice.next_offset;
        }
        assert_eq!(next, Offset(end));
    }
}

#[test]
fn once_opened_it_is_a_log_like_any_other() {
    let dir = copied("compacted-0");
    let (log, _) = opened(dir.path(), "compacted-0");
    let (next, size) = (log.next_raft_index(), log.reader().size_bytes());
    log.close(None).unwrap();
    let store = LogStore::new(RealDisk, 16);
    let config = LogConfig::default();
    let (log, recovery) = Log::open(&store, dir.path(), &identity("compacted-0"), config, NOW).unwrap();
    assert!(recovery.clean, "{recovery:?}");
    assert!(next > RaftIndex(1));
    assert_eq!((log.next_raft_index(), log.reader().size_bytes()), (next, size));
    assert!(inspect::verify_dir(&RealDisk, dir.path()).unwrap().is_sound());
}

/// For an offset in a hole left by compaction the answer is the next batch, even in the next segment.
#[test]
fn every_offset_in_a_hole_leads_to_the_next_batch() {
    let dir = copied("compacted-0");
    let (log, _) = opened(dir.path(), "compacted-0");
    let reader = log.reader();
    let batches: Vec<_> = reader.headers(Offset(0)).map(|found| found.unwrap().1).collect();
    let end = log.log_end().offset();
    assert!(
        batches.windows(2).any(|pair| pair[0].next_offset() < pair[1].base_offset)
            || batches[0].base_offset > Offset(0)
    );
    for offset in 0..end.0 {
        let wanted = batches.iter().find(|b| b.last_offset() >= Offset(offset)).unwrap();
        let slice = reader.read(Offset(offset), end, 1, true).unwrap().unwrap();
        assert_eq!(slice.base_offset, wanted.base_offset, "offset {offset}");
        assert_eq!(slice.bytes() as usize, wanted.total_bytes());
        assert_eq!(slice.next_offset, wanted.next_offset());
    }
}

#[test]
fn every_bound_is_kept() {
    let dir = copied("plain-0");
    let (log, _) = opened(dir.path(), "plain-0");
    let reader = log.reader();
    let batches: Vec<_> = reader.headers(Offset(0)).map(|found| found.unwrap().1).collect();
    for from in (0..252).step_by(7) {
        for bytes_max in (0..3000).step_by(97) {
            for upto in [from + 1, from + 20, 252] {
                let (from, upto) = (Offset(from), Offset(upto.min(252)));
                let first = batches.iter().position(|b| b.last_offset() >= from).unwrap();
                let segment_end = if from < Offset(251) { Offset(251) } else { Offset(252) };
                let mut wanted = 0;
                for batch in &batches[first..] {
                    let bytes = wanted + batch.total_bytes();
                    if batch.next_offset() > upto.min(segment_end) || bytes > bytes_max {
                        break;
                    }
                    wanted = bytes;
                }
                let found = reader.read(from, upto, bytes_max as u64, false).unwrap();
                assert_eq!(
                    found.map_or(0, |slice| slice.bytes() as usize),
                    wanted,
                    "{from} {upto} {bytes_max}"
                );
            }
        }
    }
}

#[test]
fn records_are_found_by_time_within_compressed_batches() {
    let dir = copied("plain-0");
    let (log, _) = opened(dir.path(), "plain-0");
    let reader = log.reader();
    let end = log.log_end().offset();
    let mut records = Vec::new();
    for (row, header) in reader.headers(Offset(0)).map(Result::unwrap) {
        let slice = reader.read(row.base_offset, row.next_offset(), 0, true).unwrap().unwrap();
        let bytes = slice.read().unwrap();
        let batch = DecodedBatch::new(&bytes, 1 << 20).unwrap();
        assert_eq!(*batch.header(), header);
        records.extend(batch.records().map(|r| r.map(|r| (r.offset, r.timestamp)).unwrap()));
    }
    for timestamp in 1_699_999_999_990..1_700_000_000_300 {
        let wanted = records.iter().copied().find(|record| record.1 >= TimestampMs(timestamp));
        let found = reader.offset_for_time(TimestampMs(timestamp), end).unwrap();
        assert_eq!(found.map(|found| (found.0, found.1)), wanted, "{timestamp}");
    }
    let largest = records.iter().map(|r| r.1).max().unwrap();
    let wanted = records.iter().copied().find(|r| r.1 == largest);
    assert_eq!(reader.max_timestamp(end).unwrap().map(|f| (f.0, f.1)), wanted);
}

#[test]
fn an_unindexed_folder_can_be_verified_and_dumped() {
    let report = inspect::verify_dir(&RealDisk, &fixture("plain-0")).unwrap();
    assert_eq!(report.all_problems().count(), 0, "{report:?}");
    assert_eq!(report.segments.iter().map(|s| s.batches).sum::<u64>() as usize, {
        inspect::dump_dir(&RealDisk, &fixture("plain-0")).unwrap().map(Result::unwrap).count()
    });
    assert_eq!(report.segments.last().unwrap().next_offset, Offset(252));
}
