//! Batches that are lost for good, and unfinished rounds of compaction: neither may bring back, or remove,
//! anything else.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::path::PathBuf;

use bytes::Bytes;
use tailrace_log::{
    CompactionLimits, CompactionSettings, Disk, HashSecret, KeyMap, LogConfig, RepairOptions, Unhurried,
    repair_dir,
};
use tailrace_records::{BatchBuilder, BatchOptions, DecodedBatch, split_batches};
use tailrace_sim::{CrashMode, SimDisk};
use tailrace_types::{HighWatermark, Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::common;
use crate::common::damage::copy;
use crate::common::{SimLog, append, dir, open, read_all};

/// Each segment holds two or three batches.
fn small() -> LogConfig {
    LogConfig { segment_bytes: 220, preallocate_bytes: 0, ..LogConfig::default() }
}

fn record(key: &str, value: Option<&str>) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(TimestampMs(1), Some(key.as_bytes()), value.map(str::as_bytes), &[]).unwrap();
    builder.build()
}

const PRODUCER: ProducerId = ProducerId(7);

fn transactional(sequence: i32, key: &str) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id: PRODUCER,
        producer_epoch: ProducerEpoch(0),
        base_sequence: sequence,
        transactional: true,
        ..BatchOptions::default()
    });
    builder.push(TimestampMs(1), Some(key.as_bytes()), Some(b"in a transaction"), &[]).unwrap();
    builder.build()
}

fn marker(commit: bool) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id: PRODUCER,
        producer_epoch: ProducerEpoch(0),
        transactional: true,
        control: true,
        ..BatchOptions::default()
    });
    builder.push(TimestampMs(1), Some(&[0, 0, 0, u8::from(commit)]), Some(&[0; 6]), &[]).unwrap();
    builder.build()
}

/// Runs one round at `now`, of at most `groups` groups.
fn compact(log: &mut SimLog, now: i64, groups: usize) {
    let end = log.log_end().offset();
    let settings = CompactionSettings {
        limits: CompactionLimits { stable: end, min_lag_ms: 0, max_lag_ms: 1 << 40, now: TimestampMs(now) },
        committed: HighWatermark(end.get()),
        delete_retention_ms: 10,
        io_bytes: 4096,
        producers: HashMap::new(),
    };
    let mut map = KeyMap::new(1 << 20, 0.9, HashSecret([1, 2]));
    let Some(mut round) = log.begin_compaction(settings).unwrap() else { return };
    round.index(&mut map, &mut Unhurried).unwrap();
    for _ in 0..groups {
        let Some(rewritten) = round.rewrite_next(&map, &mut Unhurried).unwrap() else { return };
        let trim = log
            .install_compacted(rewritten, || None)
            .unwrap()
            .unwrap_or_else(|_| panic!("its segments still exist"));
        trim.run().unwrap();
        log.mark_checkpointed(trim.checkpoint());
    }
}

/// Returns the offsets of a key's records.
fn offsets_of(log: &SimLog, key: &str) -> Vec<i64> {
    let content = read_all(log, Offset(0)).unwrap();
    let mut found = Vec::new();
    for batch in split_batches(&content) {
        let (header, bytes) = batch.unwrap();
        if header.attributes.is_control() {
            continue;
        }
        for record in DecodedBatch::new(bytes, 1 << 20).unwrap().records() {
            let record = record.unwrap();
            if record.key == Some(key.as_bytes()) {
                found.push(record.offset.get());
            }
        }
    }
    found
}

/// Only the lost marker said whether the record of the transaction counts. So the record must not be removed,
/// and must not replace the older one, however the producer's next transaction ended.
#[test]
fn what_a_lost_marker_has_ended_stays_beside_what_it_may_have_replaced() {
    for lost_is_commit in [false, true] {
        for next in [None, Some(false), Some(true)] {
            let disk = common::disk(1);
            let (mut log, _) = open(&disk, &small()).unwrap();
            append(&mut log, &record("k", Some("old"))).unwrap();
            append(&mut log, &transactional(0, "k")).unwrap();
            append(&mut log, &marker(lost_is_commit)).unwrap();
            if let Some(commit) = next {
                append(&mut log, &transactional(1, "other")).unwrap();
                append(&mut log, &marker(commit)).unwrap();
            }
            for number in 0..6 {
                append(&mut log, &record(&format!("later {number}"), Some("value"))).unwrap();
            }
            log.close(None).unwrap();
            flip_batch_at(&disk, Offset(2));
            let options = RepairOptions { give_up: true, ..RepairOptions::default() };
            repair_dir(&disk, &dir(), &options).unwrap();
            let (mut log, _) = open(&disk, &small()).unwrap();
            for round in 0..3 {
                append(&mut log, &record("later 0", Some("again"))).unwrap();
                compact(&mut log, 1000 + 100 * round, usize::MAX);
                assert_eq!(offsets_of(&log, "k"), [0, 1], "{lost_is_commit} {next:?} round {round}");
            }
            if next == Some(false) {
                assert_eq!(
                    offsets_of(&log, "other"),
                    [] as [i64; 0],
                    "records that were certainly aborted are removed"
                );
            }
            assert!(offsets_of(&log, "later 0").len() < 4, "the log was compacted");
        }
    }
}

/// Flips a bit in the body of the batch at this offset.
fn flip_batch_at(disk: &SimDisk, offset: Offset) {
    let (log, _) = open(disk, &small()).unwrap();
    let (header, number) = (0..)
        .zip(log.reader().headers(Offset(0)))
        .map(|(number, found)| (found.unwrap().0, number))
        .find(|(row, _)| row.base_offset == offset)
        .unwrap();
    assert!(number < 64);
    let base = log.reader().segment_bounds(offset).unwrap().0;
    log.close(None).unwrap();
    let file = dir().join(format!("{:020}.log", base.get()));
    disk.damage(&file, |bytes| bytes[header.end_position() as usize - 1] ^= 1);
}

/// The tombstone's horizon has passed, but the round that set it has not recorded how far it has come.
#[test]
fn a_tombstone_stays_until_a_whole_round_has_seen_to_what_it_deletes() {
    let disk = common::disk(1);
    let (mut log, _) = open(&disk, &small()).unwrap();
    append(&mut log, &record("k", Some("old"))).unwrap();
    append(&mut log, &record("k", None)).unwrap();
    for number in 0..12 {
        append(&mut log, &record(&format!("key {}", number % 5), Some("value"))).unwrap();
    }
    for round in 0..4 {
        compact(&mut log, 1000 + 100 * round, 1);
        assert_eq!(log.reader().first_dirty(), Offset(0), "no round has completed");
        assert_eq!(offsets_of(&log, "k"), [1], "round {round}");
    }
    compact(&mut log, 2000, usize::MAX);
    assert_eq!(offsets_of(&log, "k"), [1], "the first complete round");
    compact(&mut log, 3000, usize::MAX);
    assert_eq!(offsets_of(&log, "k"), [] as [i64; 0]);
}

/// Segments that hold more.
fn medium() -> LogConfig {
    LogConfig { segment_bytes: 1500, ..small() }
}

fn records(log: &SimLog) -> Vec<Vec<i64>> {
    (0..60).map(|key| offsets_of(log, &format!("k{key}"))).collect()
}

/// Writes a closed log with holes, and returns the offsets of its records.
fn compacted_log(disk: &SimDisk) -> Vec<Vec<i64>> {
    let (mut log, _) = open(disk, &medium()).unwrap();
    for number in 0..60 {
        let key = if number % 3 == 0 { 0 } else { number };
        append(&mut log, &record(&format!("k{key}"), Some("value"))).unwrap();
    }
    compact(&mut log, 1000, 100);
    let records = records(&log);
    log.close(None).unwrap();
    records
}

/// Returns the path of the compacted segment with the most batches.
fn largest_compacted(disk: &SimDisk) -> PathBuf {
    let names = disk.read_dir(&dir()).unwrap().into_iter().map(|entry| entry.name);
    let compacted = |name: &String| name.ends_with(".log") && name.matches('.').count() == 2;
    let count = |name: &String| split_batches(&disk.content(&dir().join(name)).unwrap()).count();
    let name = names.filter(compacted).max_by_key(count).unwrap();
    assert!(count(&name) > 4, "{name}");
    dir().join(name)
}

/// Compaction leaves holes. The offset of a batch is known only from its row, and from bytes that no checksum
/// covers. Both are damaged.
#[test]
fn a_compacted_batch_whose_offset_and_row_are_damaged_comes_back_from_a_copy() {
    for (at, row_is_gone) in (0..8).chain(12..16).flat_map(|at| [(at, false), (at, true)]) {
        let disk = common::disk(1);
        let expected = compacted_log(&disk);
        let source = copy(&disk);
        let file = largest_compacted(&disk);
        let before = disk.content(&file).unwrap();
        let position: usize = split_batches(&before).take(2).map(|batch| batch.unwrap().1.len()).sum();
        disk.damage(&file, |log| log[position + at] ^= 0x40);
        let index = file.with_extension("index");
        match row_is_gone {
            true => disk.damage(&index, |rows| rows[64 + 2 * 64..64 + 3 * 64].fill(0)),
            false => disk.damage(&index, |rows| rows[64 + 2 * 64 + 45] ^= 1),
        }
        let what = format!("byte {at}, row gone: {row_is_gone}");
        let options = RepairOptions { sources: vec![source], give_up: false };
        repair_dir(&disk, &dir(), &options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let (log, _) = open(&disk, &medium()).unwrap();
        assert_eq!(records(&log), expected, "{what}");
        assert!(log.reader().damaged().is_empty(), "{what}: {:?}", log.reader().damaged());
    }
}

/// Found in a soak test: a flipped byte in the offset or epoch of a row took the batch out of service.
#[test]
fn a_damaged_row_of_a_compacted_batch_costs_nothing() {
    let mut holes = 0;
    for number in 1.. {
        let disk = common::disk(1);
        let expected = compacted_log(&disk);
        let file = largest_compacted(&disk);
        let content = disk.content(&file).unwrap();
        let batches: Vec<_> = split_batches(&content).map(|batch| batch.unwrap().0).collect();
        let Some(batch) = batches.get(number) else { break };
        holes += usize::from(batch.base_offset > batches[number - 1].next_offset());
        for at in 0..64 {
            let disk = disk.crash(CrashMode::LoseAll);
            disk.damage(&file.with_extension("index"), |rows| rows[64 + number * 64 + at] ^= 0x10);
            let (mut log, _) = open(&disk, &medium()).unwrap();
            log.repair_index(batch.base_offset).unwrap();
            let what = format!("row {number}, byte {at}: {:?}", log.reader().damaged());
            assert!(log.reader().damaged().is_empty(), "{what}");
            assert_eq!(records(&log), expected, "{what}");
        }
    }
    assert!(holes > 2, "{holes} batches after a hole");
}
