//! Aborted transactions whose marker compaction has removed, on replicas. Each replica compacts
//! independently, and takes over what others know.

#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tailrace_log::{Disk, DiskFile, HashSecret, KeyMap, LogConfig, LogError, OpenMode, Unhurried};
use tailrace_records::{BatchBuilder, BatchOptions, split_batches};
use tailrace_replication::raft::Replica;
use tailrace_replication::{CompactionPolicy, Producers, TransactionMarker};
use tailrace_sim::{CrashMode, SimDisk};
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};

use crate::common::committed::{Isolation, consume, try_consume};
use crate::common::trio::{NOW, Trio, cut_off, open_with, options};

const LATER: TimestampMs = TimestampMs(NOW.0 + 10_000);
const MORE: [&str; 5] = ["c0", "c1", "other-0", "other-1", "more"];

fn config() -> LogConfig {
    LogConfig { segment_bytes: 600, preallocate_bytes: 0, ..LogConfig::default() }
}

fn append(trio: &mut Trio, key: &str, sequence: Option<i32>) {
    let transactional = sequence.is_some();
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id: ProducerId(if transactional { 7 } else { -1 }),
        producer_epoch: ProducerEpoch(if transactional { 0 } else { -1 }),
        base_sequence: sequence.unwrap_or(-1),
        transactional,
        ..BatchOptions::default()
    });
    let value = vec![b'v'; if transactional { 5 } else { 500 }];
    builder.push(NOW, Some(key.as_bytes()), Some(&value), &[]).unwrap();
    let (header, bytes) = builder.build_with_header();
    let guard = trio.at(1).begin_verification(&header, false, NOW);
    trio.at(1).append(&header, bytes, Some(guard), NOW).unwrap();
    trio.talk(cut_off(3));
}

/// The producer aborts `a`, then commits `c0` and `c1`. Replica 3 receives none of it.
fn transactions(trio: &mut Trio) {
    trio.lead(1);
    for (sequence, (key, committed)) in (0..).zip([("a", false), ("c0", true), ("c1", true)]) {
        append(trio, key, Some(sequence));
        end(trio, committed);
    }
    append(trio, "other-0", None);
    append(trio, "other-1", None);
    trio.beat(1, 4, cut_off(3));
}

fn end(trio: &mut Trio, committed: bool) {
    let marker = TransactionMarker {
        producer_id: ProducerId(7),
        producer_epoch: ProducerEpoch(0),
        coordinator_epoch: 0,
        committed,
        epochs_are_bumped: false,
    };
    trio.at(1).append_marker(&marker, NOW).unwrap();
    trio.talk(cut_off(3));
}

fn compact(replica: &mut Replica<SimDisk>, now: TimestampMs) {
    let policy =
        CompactionPolicy { min_lag_ms: 0, max_lag_ms: i64::MAX, delete_retention_ms: 100, io_bytes: 1000 };
    let mut map = KeyMap::new(1 << 16, 0.9, HashSecret([1, 2]));
    let mut round = replica.begin_compaction(&policy, now).unwrap().expect("there is something to compact");
    round.index(&mut map, &mut Unhurried).unwrap();
    while let Some(rewritten) = round.rewrite_next(&map, &mut Unhurried).unwrap() {
        let trim = replica.install_compacted(rewritten).unwrap().ok().unwrap();
        let result = trim.run();
        replica.finish_trim(&trim, &result);
        result.unwrap();
    }
}

fn checkpoint(replica: &mut Replica<SimDisk>) {
    let ticket = replica.begin_sync(true).unwrap();
    let result = ticket.run();
    replica.finish_sync(&ticket, &result, NOW);
    result.unwrap();
}

fn keys(replica: &Replica<SimDisk>) -> Vec<String> {
    let consumed = consume(&replica.reader(), Isolation::Committed);
    consumed.into_iter().map(|record| String::from_utf8(record.key).unwrap()).collect()
}

fn snapshots(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new("/data/t-0");
    let names = disk.read_dir(dir).unwrap().into_iter().map(|entry| entry.name);
    let paths = names.filter(|name| name.ends_with(".snapshot")).map(|name| dir.join(name));
    paths.map(|path| (path.clone(), disk.content(&path).unwrap())).collect()
}

fn listed(disk: &SimDisk) -> usize {
    let (_, newest) = snapshots(disk).pop().unwrap();
    Producers::from_snapshot(&newest[32..]).unwrap().aborted().len()
}

/// Replica 1 leads, and its third round removes the marker that aborts `a`. Replica 3 knows nothing of all
/// this. Returns the leader's snapshots from before the third round.
fn without_marker() -> (Trio, Vec<(PathBuf, Vec<u8>)>) {
    let mut trio = Trio::with(&config());
    transactions(&mut trio);
    compact(trio.at(1), NOW);
    append(&mut trio, "more", None);
    trio.beat(1, 4, cut_off(3));
    compact(trio.at(1), NOW);
    append(&mut trio, "last", None);
    trio.beat(1, 4, cut_off(3));
    checkpoint(trio.at(1));
    let before = snapshots(&trio.disks[0]);
    assert_eq!(listed(&trio.disks[0]), 1, "the marker was removed too early");
    compact(trio.at(1), LATER);
    assert!(trio.at(1).producers().aborted().is_empty(), "the marker was not removed");
    (trio, before)
}

#[test]
fn a_replica_heals_at_a_start() {
    for stale in [false, true] {
        let (mut trio, before) = without_marker();
        assert_eq!(listed(&trio.disks[0]), 0, "the round did not write the snapshot");
        let disk = trio.disks[0].crash(CrashMode::LoseAll);
        if stale {
            for (path, content) in before {
                let file = disk.open(&path, OpenMode::Truncate).unwrap();
                file.write_all_at(&[IoSlice::new(&content)], 0).unwrap();
            }
            assert_eq!(listed(&disk), 1);
        }
        trio.replicas[0] = open_with(&disk, config(), options(1, &[1, 2, 3])).unwrap();
        trio.disks[0] = disk;
        assert!(trio.at(1).producers().aborted().is_empty(), "stale: {stale}");
        trio.lead(2);
        assert!(keys(trio.at(1)).starts_with(&MORE.map(str::to_owned)), "stale: {stale}");
    }
}

/// The leader's log extends beyond what is applied, so the leader sends the newest snapshot on its disk,
/// which is from before its last round.
#[test]
fn a_replica_that_gets_an_older_table_from_the_leader_does_not_inherit_the_fault() {
    let (mut trio, before) = without_marker();
    // This batch is not committed, so the offered snapshot does not contain it.
    let (header, bytes) = crate::common::trio::batch("not committed");
    trio.at(1).append(&header, bytes, None, NOW).unwrap();
    trio.sync(1);
    for (path, content) in before {
        let file = trio.disks[0].open(&path, OpenMode::Truncate).unwrap();
        file.write_all_at(&[IoSlice::new(&content)], 0).unwrap();
    }
    assert_eq!(listed(&trio.disks[0]), 1);
    trio.beat(1, 8, cut_off(2));
    trio.beat(1, 8, |_, _| false);
    assert_eq!(trio.at(3).counters().snapshots_installed, 1);
    assert!(trio.at(3).producers().aborted().is_empty(), "replica 3 has a stale list");
    assert!(keys(trio.at(3)).starts_with(&MORE.map(str::to_owned)), "{:?}", keys(trio.at(3)));
    let disk = trio.disks[2].crash(CrashMode::LoseAll);
    trio.replicas[2] = open_with(&disk, config(), options(3, &[1, 2, 3])).unwrap();
    assert!(trio.at(3).producers().aborted().is_empty(), "replica 3 has a stale list after a restart");
}

/// The replica's own list has the transaction, and the copy lacks its marker. At no moment may the list apply
/// to the copy.
#[test]
fn readers_of_a_replica_that_installs_a_snapshot_miss_nothing_committed() {
    let mut trio = Trio::with(&config());
    transactions(&mut trio);
    trio.beat(1, 8, |_, _| false);
    assert_eq!(trio.at(3).producers().aborted().len(), 1);
    for now in [NOW, NOW, LATER] {
        append(&mut trio, "more", None);
        append(&mut trio, "last", None);
        trio.beat(1, 4, cut_off(3));
        compact(trio.at(1), now);
    }
    assert!(trio.at(1).producers().aborted().is_empty(), "the marker was not removed");
    let (reader, answers) = (trio.at(3).reader(), Arc::new(Mutex::new(Vec::new())));
    let (seen, is_reading) = (Arc::clone(&answers), AtomicBool::new(false));
    trio.disks[2].observe(move |_| {
        // Reading looks at the disk, too, so do not recurse.
        if is_reading.swap(true, Relaxed) {
            return;
        }
        let consumed = try_consume(&reader, Isolation::Committed);
        seen.lock().unwrap().push(consumed.map(|records| records.into_iter().map(|r| r.key).collect()));
        is_reading.store(false, Relaxed);
    });
    trio.beat(1, 8, |_, _| false);
    trio.disks[2].observe(|_| ());
    assert_eq!(trio.at(3).counters().snapshots_installed, 1);
    let mut refused = 0;
    for answer in answers.lock().unwrap().drain(..) {
        match answer {
            Ok(keys) => {
                let keys: Vec<Vec<u8>> = keys;
                assert!(keys.starts_with(&[b"c0".to_vec(), b"c1".to_vec()]), "{keys:?}");
            }
            Err(LogError::BeingExchanged) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0, "no reader read during the exchange");
    assert!(
        keys(trio.at(3)).starts_with(&["c0", "c1", "other-0", "other-1"].map(str::to_owned)),
        "{:?}",
        keys(trio.at(3))
    );
}

/// Both replicas have compacted equally far, but only the other one's last round ran after the marker's
/// delete horizon.
#[test]
fn a_segment_that_is_mended_from_a_replica_without_the_marker_takes_the_transaction_with_it() {
    let mut trio = Trio::with(&config());
    transactions(&mut trio);
    for (key, last) in [("more", false), ("last", true)] {
        for id in [1, 2] {
            compact(trio.at(id), NOW);
        }
        append(&mut trio, key, None);
        trio.beat(1, 4, cut_off(3));
        if last {
            compact(trio.at(1), LATER);
            compact(trio.at(2), NOW);
        }
    }
    assert_eq!((trio.at(1).producers().aborted().len(), trio.at(2).producers().aborted().len()), (0, 1));
    let logs = |disk: &SimDisk| {
        let names = disk.read_dir(Path::new("/data/t-0")).unwrap().into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".log")).map(|name| Path::new("/data/t-0").join(name)).next()
    };
    let damaged = logs(&trio.disks[1]).unwrap();
    // Damage every batch, including the marker.
    trio.disks[1].damage(&damaged, |bytes| {
        let mut at = 0;
        while at + 12 <= bytes.len() {
            at += 12 + u32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
            bytes[at - 1] ^= 0x10;
        }
    });
    let reader = trio.at(2).reader();
    for target in reader.log().scrub_targets() {
        reader.log().scrub(&target, &mut Unhurried).unwrap();
    }
    assert!(!reader.log().damaged().is_empty());
    for _ in 0..60 {
        (1..=2).for_each(|id| trio.at(id).tick(NOW));
        trio.talk(cut_off(3));
    }
    assert_eq!(trio.at(2).counters().segments_mended, 1);
    assert!(trio.at(2).producers().aborted().is_empty(), "the marker no longer exists");
    assert!(keys(trio.at(2)).starts_with(&MORE.map(str::to_owned)), "{:?}", keys(trio.at(2)));
}

/// A start finds one batch damaged, which may be a marker, and rebuilds the table of producers without it.
/// Until the batch is repaired, nothing behind it is stable. Then readers of committed records get the same
/// as elsewhere.
#[test]
fn a_table_that_was_read_over_damage_is_read_again() {
    let mut waited = 0;
    for number in 0.. {
        let mut trio = Trio::with(&LogConfig { preallocate_bytes: 0, ..LogConfig::default() });
        trio.lead(1);
        for (sequence, (key, committed)) in
            (0..).zip([("a", false), ("c0", true), ("b", false), ("c1", true), ("d", false)])
        {
            append(&mut trio, key, Some(sequence));
            end(&mut trio, committed);
        }
        append(&mut trio, "other", None);
        trio.beat(1, 4, |_, _| false);
        let expected = keys(trio.at(1));
        assert_eq!(expected, ["c0", "c1", "other"]);
        let disk = trio.disks[1].crash(CrashMode::KeepAll);
        let file = Path::new("/data/t-0/00000000000000000000.log");
        let content = disk.content(file).unwrap();
        let batches: Vec<_> =
            split_batches(&content).map_while(Result::ok).map(|(header, _)| header).collect();
        // A batch that is not known to be synced would be truncated.
        let Some(batch) = batches[..batches.len() - 1].get(number) else { break };
        let end: usize = batches[..=number].iter().map(|batch| batch.total_bytes()).sum();
        disk.damage(file, |bytes| bytes[end - 1] ^= 1);
        trio.replicas[1] = open_with(&disk, config(), options(2, &[1, 2, 3])).unwrap();
        trio.disks[1] = disk;
        if !trio.at(2).damaged().is_empty() {
            waited += 1;
            trio.beat(1, 1, |from, _| from == 2);
            let stable = trio.at(2).reader().last_stable_offset();
            assert!(stable <= batch.base_offset, "last stable offset {stable}, but {batch:?} is damaged");
            assert!(expected.starts_with(&keys(trio.at(2))));
        }
        for _ in 0..60 {
            (1..=3).for_each(|id| trio.at(id).tick(NOW));
            trio.talk(|_, _| false);
        }
        for id in 1..=3 {
            assert_eq!(trio.at(id).damaged(), []);
            assert_eq!(keys(trio.at(id)), expected, "replica {id}, {batch:?} was damaged");
            assert_eq!(trio.at(id).producers().aborted().len(), 3);
        }
    }
    assert!(waited > 5, "{waited}");
}
