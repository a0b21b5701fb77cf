//! What the log does with bytes that it did not write: it heals what can be derived, refuses what cannot, and
//! never answers wrongly.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;

use crate::common;
use crate::common::damage::{copy, scrub_segments, served};
use crate::common::{append, append_in, batch, dir, identity, open, read_all, small_segments};
use tailrace_log::{
    Disk, FORMAT_VERSION, Log, LogError, LogStore, Overlay, PRODUCERS, PartitionIdentity, RepairOptions,
    RepairStep, Sections, inspect, repair_dir,
};
use tailrace_sim::{CrashMode, Effect, Rule, SimDisk};
use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs, TopicId};

fn file(name: &str) -> PathBuf {
    dir().join(name)
}

fn log_file(base: i64) -> PathBuf {
    file(&format!("{base:020}.log"))
}

fn index_file(base: i64) -> PathBuf {
    file(&format!("{base:020}.index"))
}

/// Writes thirty batches of three records in several segments, with an entry without records at offset 30,
/// and closes the log.
fn closed_log(disk: &SimDisk) -> Vec<u8> {
    let (mut log, _) = open(disk, &small_segments()).unwrap();
    for number in 0..30 {
        if number == 10 {
            log.append_entry(log.next_raft_index(), LeaderEpoch(2), b"leader").unwrap();
        }
        append(&mut log, &batch(3, 100, 1000 + number, number as u8)).unwrap();
    }
    let content = read_all(&log, Offset(0)).unwrap();
    assert!(log.reader().segment_count() > 2);
    log.close(None).unwrap();
    content
}

fn raft_indexes(log: &common::SimLog) -> Vec<u64> {
    log.reader().headers(Offset(0)).map(|found| found.unwrap().0.raft_index.0).collect()
}

#[test]
fn a_clean_stop_reads_no_batch_and_no_index() {
    let disk = common::disk(1);
    let content = closed_log(&disk);
    disk.record();
    let (log, recovery) = open(&disk, &small_segments()).unwrap();
    assert!(recovery.clean && recovery.truncated.is_none(), "{recovery:?}");
    let opened: Vec<_> = disk.take_recording().into_iter().map(|op| op.path).collect();
    assert!(opened.iter().all(|path| path.extension().is_none_or(|e| e == "meta")), "{opened:?}");
    assert_eq!(read_all(&log, Offset(0)).unwrap(), content);
    assert_eq!(log.last_epoch(), LeaderEpoch(2));
    assert_eq!(log.next_raft_index(), RaftIndex(32));
}

#[test]
fn a_missing_short_or_headless_index_is_rebuilt() {
    type Change = fn(&SimDisk, PathBuf);
    let changes: [Change; 4] = [
        |disk, path| disk.remove_file(&path).unwrap(),
        |disk, path| disk.damage(&path, |bytes| bytes.truncate(100)),
        |disk, path| disk.damage(&path, |bytes| bytes.clear()),
        |disk, path| disk.damage(&path, |bytes| bytes[17] ^= 1),
    ];
    for change in changes {
        let disk = common::disk(1);
        let content = closed_log(&disk);
        let indexes = raft_indexes(&open(&disk, &small_segments()).unwrap().0);
        let bases: Vec<_> = disk.read_dir(&dir()).unwrap();
        for entry in bases.iter().filter(|e| e.name.ends_with(".index")) {
            change(&disk, file(&entry.name));
        }
        let (mut log, _) = open(&disk, &small_segments()).unwrap();
        assert_eq!(read_all(&log, Offset(0)).unwrap(), content);
        assert_eq!(raft_indexes(&log), indexes);
        append(&mut log, &batch(1, 10, 0, 0)).unwrap();
        assert!(inspect::verify_dir(&disk, &dir()).unwrap().is_sound());
    }
}

#[test]
fn a_damaged_row_is_an_error_until_the_index_is_repaired() {
    let disk = common::disk(1);
    let content = closed_log(&disk);
    disk.damage(&index_file(0), |bytes| bytes[64 + 3 * 64 + 5] ^= 0x10);
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    let error = log.reader().headers(Offset(0)).find_map(Result::err).unwrap();
    let LogError::Damaged { file, position, .. } = error else { panic!("{error}") };
    assert_eq!((file, position), (index_file(0), 64 + 3 * 64));
    assert!(!inspect::verify_dir(&disk, &dir()).unwrap().is_sound());
    assert_eq!(log.reader().damaged_indexes(), [Offset(0)]);
    assert!(!log.reader().has_wrong(), "no wrong batch");
    log.repair_index(Offset(0)).unwrap();
    assert_eq!(log.reader().damaged_indexes(), []);
    assert_eq!(read_all(&log, Offset(0)).unwrap(), content);
    assert!(inspect::verify_dir(&disk, &dir()).unwrap().is_sound());
}

#[test]
fn a_row_of_another_segment_is_not_believed() {
    let disk = common::disk(1);
    closed_log(&disk);
    let index = disk.content(&index_file(0)).unwrap();
    let other =
        disk.read_dir(&dir()).unwrap().into_iter().filter(|e| e.name.ends_with(".index")).nth(1).unwrap();
    disk.damage(&file(&other.name), |bytes| bytes[64..128].copy_from_slice(&index[64..128]));
    let (log, _) = open(&disk, &small_segments()).unwrap();
    assert!(log.reader().headers(Offset(0)).any(|found| matches!(found, Err(LogError::Damaged { .. }))));
}

#[test]
fn what_is_left_of_a_segment_that_was_cut_short_is_served() {
    let bytes = batch(3, 100, 0, 0).len();
    for keep in [0, 10, 2 * bytes, 2 * bytes + 10] {
        let disk = common::disk(1);
        closed_log(&disk);
        disk.damage(&log_file(0), |log| log.truncate(keep));
        let (mut log, recovery) = open(&disk, &small_segments()).unwrap();
        assert!(recovery.damaged[0].damage.reason.contains("durable"), "{recovery:?}");
        let first_segment = log.reader().segment_bounds(Offset(0)).unwrap().1.0 / 3;
        let whole = (keep / bytes) as i64;
        let expected: Vec<_> = (whole..first_segment).map(|number| number * 3).collect();
        assert_eq!(served(&log).1, expected, "{keep} bytes");
        append(&mut log, &batch(1, 10, 0, 0)).unwrap();
        log.close(None).unwrap();
        let (log, recovery) = open(&disk, &small_segments()).unwrap();
        assert_eq!((served(&log).1, recovery.clean), (expected, true), "also known after a restart");
    }
}

/// A read from that offset on reports what is wrong, or returns the records once they are back. It used to be
/// an error forever.
#[test]
fn a_time_in_a_damaged_batch_leads_to_its_first_offset() {
    let disk = common::disk(1);
    closed_log(&disk);
    let bytes = batch(3, 100, 0, 0).len();
    disk.damage(&log_file(0), |log| log[2 * bytes + 100] ^= 1);
    let (log, _) = open(&disk, &small_segments()).unwrap();
    let (reader, end, epoch) = (log.reader(), log.log_end().offset(), LeaderEpoch(1));
    let look = |time| reader.offset_for_time(TimestampMs(time), end).unwrap();
    // Batch number n has the times 1000 + n to 1002 + n.
    assert_eq!(look(1003), Some((Offset(5), TimestampMs(1003), epoch)));
    assert_eq!(look(1004), Some((Offset(6), TimestampMs(1004), epoch)));
    assert_eq!(look(1005), Some((Offset(11), TimestampMs(1005), epoch)));
    let found = reader.take_found_damage();
    let bytes = bytes as u64;
    assert!(
        matches!(&found[..], [damage] if damage.file == log_file(0) && damage.position == 2 * bytes),
        "{found:?}"
    );
    assert_eq!(served(&log).1, [6], "the batch is out of service once a lookup has read it");
    assert_eq!(look(1004), Some((Offset(6), TimestampMs(1004), epoch)));
    assert!(reader.take_found_damage().is_empty(), "the damage was already reported");
    assert_eq!(reader.offset_for_time(TimestampMs(1004), Offset(6)).unwrap(), None);
}

#[test]
fn damage_of_a_header_is_reported_by_the_read_that_meets_it() {
    let disk = common::disk(1);
    closed_log(&disk);
    let bytes = batch(3, 100, 0, 0).len();
    // The byte that says which format the batch has.
    disk.damage(&log_file(0), |log| log[2 * bytes + 16] ^= 1);
    let (log, _) = open(&disk, &small_segments()).unwrap();
    let reader = log.reader();
    let read: Vec<i64> = reader.headers(Offset(0)).map(|found| found.unwrap().0.base_offset.0).collect();
    assert!(read.contains(&3) && !read.contains(&6) && read.contains(&9), "{read:?}");
    let found = reader.take_found_damage();
    assert!(
        matches!(&found[..], [damage] if damage.file == log_file(0) && damage.position == 2 * bytes as u64),
        "{found:?}"
    );
}

#[test]
fn a_time_in_a_segment_that_is_gone_leads_to_its_first_offset() {
    let disk = common::disk(1);
    closed_log(&disk);
    let (log, _) = open(&disk, &small_segments()).unwrap();
    disk.remove_file(&log_file(0)).unwrap();
    let (reader, end) = (log.reader(), log.log_end().offset());
    let next = reader.segment_bounds(Offset(0)).unwrap().1.0;
    let look = |time| reader.offset_for_time(TimestampMs(time), end).unwrap().map(|found| (found.0, found.1));
    // The largest time of the segment's last batch. The next batch has one later time, that of its last
    // record.
    let largest = 1001 + next / 3;
    assert_eq!(look(1000), Some((Offset(0), TimestampMs(largest))));
    assert_eq!(look(largest + 1), Some((Offset(next + 2), TimestampMs(largest + 1))));
}

#[test]
fn a_segment_that_is_missing_is_named_and_the_others_are_served() {
    for lost in [0, 3 * 3 * 3] {
        let disk = common::disk(1);
        closed_log(&disk);
        let segments = disk.read_dir(&dir()).unwrap().into_iter().filter(|e| e.name.ends_with(".log"));
        let segments: Vec<_> = segments.map(|e| e.name).collect();
        let base = segments
            .iter()
            .filter_map(|name| name[..20].parse().ok())
            .rfind(|base: &i64| *base <= lost)
            .unwrap();
        disk.remove_file(&log_file(base)).unwrap();
        let (mut log, _) = open(&disk, &small_segments()).unwrap();
        let (good, bad) = served(&log);
        assert!(good.len() + bad.len() == 30 && bad.contains(&base), "{good:?} {bad:?}");
        append(&mut log, &batch(1, 10, 0, 0)).unwrap();
        assert_eq!(log.log_end().offset(), Offset(91), "no offset is assigned twice");
    }
}

/// This holds for the last segment, too. The next append starts a new segment.
#[test]
fn ten_bytes_cut_off_the_active_segment_cost_one_batch() {
    let disk = common::disk(1);
    closed_log(&disk);
    let segments = disk.read_dir(&dir()).unwrap().into_iter().filter(|e| e.name.ends_with(".log"));
    let last = segments.map(|e| e.name).max().unwrap();
    disk.damage(&file(&last), |log| log.truncate(log.len() - 10));
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    assert_eq!(served(&log).1, [87]);
    append(&mut log, &batch(1, 10, 0, 0)).unwrap();
    assert_eq!((log.log_end().offset(), served(&log).1), (Offset(91), vec![87]));
    log.close(None).unwrap();
    let (log, _) = open(&disk, &small_segments()).unwrap();
    assert_eq!((log.log_end().offset(), served(&log).1), (Offset(91), vec![87]));
}

/// Writes twenty batches in one segment, of which the first ten are synced, without a checkpoint.
fn half_synced() -> SimDisk {
    let disk = common::disk(1);
    let config = tailrace_log::LogConfig { segment_bytes: 1 << 20, ..small_segments() };
    let (mut log, _) = open(&disk, &config).unwrap();
    for number in 0..20 {
        if number == 10 {
            log.sync().unwrap();
        }
        append(&mut log, &batch(1, 100, 0, number)).unwrap();
    }
    disk.crash(CrashMode::KeepAll)
}

fn batch_bytes() -> usize {
    batch(1, 100, 0, 0).len()
}

#[test]
fn a_bad_batch_that_was_synced_stays_in_its_place_and_the_rest_is_served() {
    for number in [5, 9] {
        let disk = half_synced();
        disk.damage(&log_file(0), |bytes| bytes[number * batch_bytes() + 70] ^= 1);
        let (mut log, recovery) = open(&disk, &small_segments()).unwrap();
        assert!(recovery.damaged[0].damage.reason.contains("durable"), "{recovery:?}");
        assert_eq!(recovery.truncated, None);
        assert_eq!((log.log_end().offset(), served(&log).1), (Offset(20), vec![number as i64]));
        append(&mut log, &batch(1, 10, 0, 0)).unwrap();
        assert_eq!((log.log_end().offset(), served(&log).1), (Offset(21), vec![number as i64]));
    }
}

#[test]
fn a_bad_batch_that_was_synced_and_a_torn_tail_are_told_apart() {
    let disk = half_synced();
    disk.damage(&log_file(0), |bytes| bytes[5 * batch_bytes() + 70] ^= 1);
    disk.damage(&log_file(0), |bytes| bytes[15 * batch_bytes() + 70] ^= 1);
    let (log, recovery) = open(&disk, &small_segments()).unwrap();
    assert_eq!((log.log_end().offset(), served(&log).1), (Offset(15), vec![5]));
    assert_eq!(recovery.truncated.unwrap().position, 15 * batch_bytes() as u64);
}

#[test]
fn a_synced_end_that_is_missing_is_damage_and_no_torn_tail() {
    let disk = half_synced();
    disk.damage(&log_file(0), |bytes| bytes.truncate(8 * batch_bytes() + 10));
    let (mut log, recovery) = open(&disk, &small_segments()).unwrap();
    assert_eq!((served(&log).1, recovery.truncated), (vec![8, 9], None));
    assert_eq!(log.log_end().offset(), Offset(10));
    append(&mut log, &batch(1, 10, 0, 0)).unwrap();
    assert_eq!((log.log_end().offset(), served(&log).1), (Offset(11), vec![8, 9]));
}

/// Its row is needed to know how far the damaged batch extends.
#[test]
fn a_bad_batch_that_was_synced_and_has_no_row_takes_the_partition_offline() {
    let disk = half_synced();
    disk.damage(&log_file(0), |bytes| bytes[5 * batch_bytes() + 70] ^= 1);
    disk.damage(&index_file(0), |rows| rows[64 + 5 * 64 + 3] ^= 1);
    let before = disk.content(&log_file(0));
    let error = open(&disk, &small_segments()).err().unwrap();
    let LogError::Damaged { file, position, reason } = error else { panic!("{error}") };
    assert_eq!((file, position), (log_file(0), 5 * batch_bytes() as u64));
    assert!(reason.contains("durable"), "{reason}");
    assert_eq!(disk.content(&log_file(0)), before, "nothing is cut");
}

#[test]
fn a_damaged_identity_is_written_again_where_the_checkpoint_says_the_same() {
    let disk = common::disk(1);
    let content = closed_log(&disk);
    for change in [|bytes: &mut Vec<u8>| bytes[20] ^= 1, |bytes: &mut Vec<u8>| bytes.clear()] {
        disk.damage(&file("partition.meta"), change);
        let (log, recovery) = open(&disk, &small_segments()).unwrap();
        assert!(recovery.notes[0].contains("partition.meta"), "{recovery:?}");
        assert_eq!(read_all(&log, Offset(0)).unwrap(), content);
        assert_eq!(tailrace_log::read_identity(&disk, &dir()).unwrap(), Some(identity()));
    }
}

#[test]
fn a_bad_batch_that_was_never_synced_is_a_torn_tail() {
    let disk = half_synced();
    disk.damage(&log_file(0), |bytes| bytes[15 * batch_bytes() + 70] ^= 1);
    let (log, recovery) = open(&disk, &small_segments()).unwrap();
    assert_eq!(log.log_end().offset(), Offset(15));
    let torn = recovery.truncated.unwrap();
    assert_eq!((torn.position, torn.bytes), (15 * batch_bytes() as u64, 5 * batch_bytes() as u64));
    assert!(torn.valid_batches_follow);
    assert_eq!(read_all(&log, Offset(0)).unwrap().len(), 15 * batch_bytes());
}

#[test]
fn a_lost_checkpoint_costs_a_full_read_and_nothing_else() {
    let disk = common::disk(1);
    let content = closed_log(&disk);
    disk.damage(&file("checkpoint"), |bytes| bytes[40] ^= 1);
    let (log, recovery) = open(&disk, &small_segments()).unwrap();
    assert!(!recovery.clean && recovery.notes.len() == 1, "{recovery:?}");
    assert_eq!(recovery.bytes_read, content.len() as u64);
    assert_eq!(read_all(&log, Offset(0)).unwrap(), content);
    assert_eq!((log.next_raft_index(), log.last_epoch()), (RaftIndex(32), LeaderEpoch(2)));
    assert_eq!(log.reader().epoch_at(Offset(29)), Some(LeaderEpoch(1)));
    assert_eq!(log.reader().epoch_at(Offset(30)), Some(LeaderEpoch(2)));
}

#[test]
fn a_torn_side_file_loses_only_its_torn_end() {
    let disk = common::disk(1);
    closed_log(&disk);
    disk.damage(&file("entries"), |bytes| bytes.extend_from_slice(&[7; 20]));
    let (mut log, recovery) = open(&disk, &small_segments()).unwrap();
    assert_eq!((log.entries().len(), recovery.notes.len()), (1, 1));
    log.append_entry(RaftIndex(32), LeaderEpoch(3), b"").unwrap();
    append_in(&mut log, &batch(1, 1, 0, 0), LeaderEpoch(3)).unwrap();
    log.close(None).unwrap();
    let (log, _) = open(&disk, &small_segments()).unwrap();
    assert_eq!((log.entries().len(), log.last_epoch()), (2, LeaderEpoch(3)));
}

#[test]
fn a_damaged_side_file_head_is_named() {
    let disk = common::disk(1);
    closed_log(&disk);
    disk.damage(&file("entries"), |bytes| bytes[13] ^= 1);
    let error = open(&disk, &small_segments()).err().unwrap();
    assert!(matches!(&error, LogError::Damaged { file: found, .. } if *found == file("entries")), "{error}");
}

#[test]
fn another_identity_is_refused() {
    let disk = common::disk(1);
    closed_log(&disk);
    let other = PartitionIdentity { topic_id: TopicId([8; 16]), ..identity() };
    let store = LogStore::new(disk.clone(), 4);
    let error = Log::open(&store, &dir(), &other, small_segments(), common::NOW).err().unwrap();
    assert!(matches!(error, LogError::IdentityMismatch { .. }), "{error}");
}

/// Files that start with a version, and the position of the checksum over everything before it. `None` if it
/// is at the end.
const VERSIONED: [(&str, Option<usize>); 4] = [
    ("partition.meta", None),
    ("checkpoint", None),
    ("entries", Some(12)),
    ("00000000000000000000.index", Some(60)),
];

#[test]
fn a_newer_format_is_refused_by_every_file_that_has_a_version() {
    for (name, crc_at) in VERSIONED {
        let disk = common::disk(1);
        closed_log(&disk);
        disk.damage(&file(name), |bytes| {
            bytes[8] = 9;
            let crc_at = crc_at.unwrap_or(bytes.len() - 4);
            let crc = crc32c::crc32c(&bytes[..crc_at]);
            bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
        });
        let result = open(&disk, &small_segments()).and_then(|(log, _)| read_all(&log, Offset(0)));
        let error = result.err().unwrap();
        assert!(
            matches!(error, LogError::NewerFormat { found: 9, supported: FORMAT_VERSION, .. }),
            "{name}: {error}"
        );
        assert!(error.to_string().contains("format version 9"), "{error}");
    }
}

/// Found in a soak test: a flipped bit in a version kept the partition offline, as if a newer tailrace had
/// written it.
#[test]
fn a_flipped_bit_of_a_version_is_damage_and_no_newer_format() {
    for (name, _) in VERSIONED {
        for bit in 0..32 {
            let disk = common::disk(1);
            let content = closed_log(&disk);
            disk.damage(&file(name), |bytes| bytes[8 + bit / 8] ^= 1 << (bit % 8));
            match open(&disk, &small_segments()) {
                Ok((mut log, _)) => {
                    scrub(&mut log);
                    assert_eq!(read_all(&log, Offset(0)).unwrap(), content, "{name}, bit {bit}");
                }
                Err(LogError::Damaged { file: found, .. }) => assert_eq!(found, file(name), "bit {bit}"),
                Err(error) => panic!("{name}, bit {bit}: {error}"),
            }
        }
    }
}

/// Seed 87 of whole nodes: a misdirected write left the magic intact, but not the version.
#[test]
fn a_write_that_went_astray_behind_the_magic_is_damage_and_no_newer_format() {
    for (name, _) in VERSIONED {
        for first in [0, 4, 9, 240, 255] {
            let disk = common::disk(1);
            let content = closed_log(&disk);
            let mut astray = vec![0xA5; 512];
            astray[..4].copy_from_slice(&[first, 0, 0, 0]);
            disk.damage(&file(name), |bytes| {
                bytes.iter_mut().skip(8).zip(&astray).for_each(|(b, new)| *b = *new)
            });
            match open(&disk, &small_segments()) {
                Ok((mut log, _)) => {
                    scrub(&mut log);
                    assert_eq!(read_all(&log, Offset(0)).unwrap(), content, "{name}, version {first}");
                }
                Err(LogError::Damaged { file: found, .. }) => {
                    assert_eq!(found, file(name), "version {first}")
                }
                Err(error) => panic!("{name}, version {first}: {error}"),
            }
        }
    }
}

#[test]
fn a_damaged_batch_is_found_by_the_verifier() {
    let disk = common::disk(1);
    closed_log(&disk);
    let sound = inspect::verify_dir(&disk, &dir()).unwrap();
    assert_eq!(sound.all_problems().count(), 0, "{sound:?}");
    assert_eq!(sound.segments.iter().map(|s| s.records).sum::<u64>(), 90);
    assert_eq!((sound.entries, sound.recovery_point), (1, Some(Offset(90))));
    disk.damage(&log_file(0), |bytes| bytes[100] ^= 1);
    let report = inspect::verify_dir(&disk, &dir()).unwrap();
    let problem = report.all_problems().next().unwrap();
    assert!(!report.is_sound() && problem.file == log_file(0) && problem.position == 0, "{problem:?}");
    assert_eq!(inspect::dump_dir(&disk, &dir()).unwrap().filter(Result::is_err).count(), 1);
}

/// Whatever a power failure leaves of a truncation is one of the possible ends of the log, and never damage:
/// seeds 18115 of clusters and 21552 of groups. The state of producers at the old end is gone for good.
#[test]
fn a_truncation_that_power_cuts_short_leaves_a_log_that_opens() {
    for cut_at in [4, 12, 25, 30] {
        for after in 0.. {
            let disk = common::disk(1000 * cut_at + after);
            let (mut log, _) = open(&disk, &small_segments()).unwrap();
            for number in 0..30 {
                append(&mut log, &batch(3, 100, 1000 + number, number as u8)).unwrap();
                log.sync().unwrap();
            }
            log.checkpoint(Some(Sections::of(PRODUCERS, 1, &b"at the old end"[..]))).unwrap();
            let (content, old_end) = (read_all(&log, Offset(0)).unwrap(), log.log_end().offset());
            let (path_ends, times) = (String::new(), u64::MAX);
            disk.add_rule(Rule { kind: None, path_ends, after, times, effect: Effect::Eio });
            let result = log.truncate_from(RaftIndex(cut_at));
            let kept = Offset(3 * (cut_at as i64 - 1));
            for _ in 0..8 {
                let crashed = disk.crash(CrashMode::Random);
                let context = format!("cut at {cut_at}, power fails after {after} operations");
                let (mut log, _) =
                    open(&crashed, &small_segments()).unwrap_or_else(|error| panic!("{context}: {error}"));
                let found = read_all(&log, Offset(0)).unwrap();
                assert!(content.starts_with(&found) && log.log_end().offset() >= kept, "{context}");
                log.truncate_from(RaftIndex(cut_at)).unwrap();
                for _ in 0..30 {
                    append_in(&mut log, &batch(3, 100, 5000, 99), LeaderEpoch(7)).unwrap();
                }
                log.sync().unwrap();
                assert!(log.log_end().offset() > old_end);
                let (_, recovery) = open(&crashed.crash(CrashMode::Random), &small_segments()).unwrap();
                let sections = recovery.snapshot;
                assert!(sections.is_none(), "{context}: {sections:?} are of other batches");
            }
            if result.is_ok() {
                break;
            }
        }
    }
}

fn scrub(log: &mut common::SimLog) -> usize {
    scrub_segments(log).len()
}

#[test]
fn what_lies_before_and_behind_a_damaged_batch_is_served() {
    let disk = common::disk(1);
    closed_log(&disk);
    let bytes = batch(3, 100, 0, 0).len();
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    disk.damage(&log_file(0), |log| log[2 * bytes + 80] ^= 1);
    disk.damage(&log_file(0), |log| log[5 * bytes + 80] ^= 1);
    assert_eq!(scrub(&mut log), 2);
    let (good, bad) = served(&log);
    assert_eq!((good.len(), bad), (28, vec![6, 15]));
    assert!(
        log.reader().read(Offset(8), Offset(90), 1 << 20, true).is_err(),
        "also for an offset within the batch"
    );
    let before = log.reader().read(Offset(0), Offset(90), 1 << 20, true).unwrap().unwrap();
    assert_eq!(before.next_offset, Offset(6), "a slice ends before it");
    // Someone restores the right bytes.
    disk.damage(&log_file(0), |log| log[2 * bytes + 80] ^= 1);
    assert_eq!(scrub(&mut log), 1);
    assert_eq!(served(&log).1, [15]);
}

#[test]
fn an_index_that_is_built_again_keeps_the_row_of_a_damaged_batch() {
    let disk = common::disk(1);
    closed_log(&disk);
    let bytes = batch(3, 100, 0, 0).len();
    let indexes = raft_indexes(&open(&disk, &small_segments()).unwrap().0);
    disk.damage(&log_file(0), |log| log[2 * bytes + 80] ^= 1);
    disk.damage(&index_file(0), |rows| rows[64 + 4 * 64 + 5] ^= 1);
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    assert_eq!(scrub(&mut log), 2);
    assert_eq!(served(&log).1, [6]);
    let mut expected = indexes;
    expected.remove(2);
    assert_eq!(raft_indexes(&log), expected);
}

/// Bytes of a batch that its checksum does not cover, apart from its length: the base offset and the leader
/// epoch.
const UNCOVERED: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15];

/// Found in a soak test: a flipped base offset, in a batch whose row was also damaged, went into the rebuilt
/// index.
#[test]
fn an_index_that_is_built_again_does_not_believe_what_no_checksum_covers() {
    type Change = fn(&SimDisk, usize);
    let rows: [Change; 3] = [
        |disk, _| disk.remove_file(&index_file(0)).unwrap(),
        |disk, at| disk.damage(&index_file(0), |rows| rows[64 + 2 * 64 + at] ^= 0x10),
        |disk, _| disk.damage(&index_file(0), |rows| rows[64 + 2 * 64..64 + 3 * 64].fill(0)),
    ];
    let bytes = batch(3, 100, 0, 0).len();
    for (number, change) in rows.into_iter().enumerate() {
        for at in UNCOVERED {
            for bit in [0, 2, 7] {
                let disk = common::disk(1);
                closed_log(&disk);
                disk.damage(&log_file(0), |log| log[2 * bytes + at] ^= 1 << bit);
                change(&disk, 5 + at);
                let (mut log, _) = open(&disk, &small_segments()).unwrap();
                scrub(&mut log);
                // Checked against the current rows.
                log.reader().recheck_damage();
                let (good, bad) = served(&log);
                let what = format!("change {number}, byte {at}, bit {bit}, {:?}", log.reader().damaged());
                // Without an index one cannot always tell which of two neighbours is the wrong one.
                let lost = if number == 0 { 1..3 } else { 1..2 };
                assert_eq!(bad.iter().min().map(|at| at / 3 * 3), Some(6), "{what}: {bad:?} {good:?}");
                assert!(lost.contains(&(30 - good.len())), "{what}: {bad:?} {good:?}");
                assert!(good.iter().all(|base| base % 3 == 0), "{what}: {good:?}");
            }
        }
    }
}

#[test]
fn a_damaged_row_alone_costs_nothing() {
    for at in 0..64 {
        let disk = common::disk(1);
        let content = closed_log(&disk);
        disk.damage(&index_file(0), |rows| rows[64 + 2 * 64 + at] ^= 0x10);
        let (mut log, _) = open(&disk, &small_segments()).unwrap();
        scrub(&mut log);
        log.reader().recheck_damage();
        assert!(log.reader().damaged().is_empty(), "byte {at}: {:?}", log.reader().damaged());
        assert_eq!(read_all(&log, Offset(0)).unwrap(), content, "byte {at}");
    }
}

fn files(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.read_dir(&dir()).unwrap().into_iter().map(|entry| entry.name);
    names.map(|name| (name.clone(), disk.content(&file(&name)).unwrap())).collect()
}

fn kinds(steps: &[RepairStep]) -> Vec<&'static str> {
    let kind = |step: &RepairStep| match step {
        RepairStep::Recovered { .. } => "recovered",
        RepairStep::Rewritten { .. } => "rewritten",
        RepairStep::Restored { .. } => "restored",
        RepairStep::GivenUp { .. } => "given up",
        RepairStep::Left { .. } => "left",
    };
    steps.iter().map(kind).collect()
}

#[test]
fn a_repair_says_what_it_would_do_and_restores_from_a_copy() {
    let disk = common::disk(1);
    let content = closed_log(&disk);
    let source = copy(&disk);
    let bytes = batch(3, 100, 0, 0).len();
    disk.damage(&log_file(0), |log| log[2 * bytes + 80] ^= 1);
    disk.damage(&log_file(0), |log| log.truncate(4 * bytes + 10));
    disk.damage(&file("partition.meta"), |bytes| bytes[20] ^= 1);
    let before = files(&disk);
    let options = RepairOptions { sources: vec![source.clone()], give_up: false };
    let plan = repair_dir(&Overlay::new(disk.clone(), 1 << 20), &dir(), &options).unwrap();
    assert_eq!(files(&disk), before, "a plan changes no file");
    assert!(!inspect::verify_dir(&disk, &dir()).unwrap().is_sound());
    let done = repair_dir(&disk, &dir(), &options).unwrap();
    assert_eq!(plan, done, "the repair follows its plan");
    assert_eq!(kinds(&done)[0], "rewritten");
    assert!(kinds(&done)[1..].iter().all(|kind| *kind == "restored"), "{done:?}");
    let report = inspect::verify_dir(&disk, &dir()).unwrap();
    assert_eq!(report.all_problems().collect::<Vec<_>>(), Vec::<&inspect::Problem>::new());
    let (log, recovery) = open(&disk, &small_segments()).unwrap();
    assert!(recovery.damaged.is_empty() && log.reader().damaged().is_empty());
    assert_eq!(read_all(&log, Offset(0)).unwrap(), content);
    assert_eq!(
        repair_dir(&Overlay::new(disk.clone(), 1 << 20), &dir(), &options).unwrap(),
        [],
        "no repair is left to do"
    );
}

#[test]
fn what_no_copy_has_stays_named_until_it_is_given_up() {
    let disk = common::disk(1);
    closed_log(&disk);
    let bytes = batch(3, 100, 0, 0).len();
    let lost = disk.content(&log_file(0)).unwrap()[2 * bytes..3 * bytes].to_vec();
    disk.damage(&log_file(0), |log| log[2 * bytes + 80] ^= 1);
    let mut options = RepairOptions::default();
    let left = repair_dir(&disk, &dir(), &options).unwrap();
    assert_eq!(kinds(&left), ["left"], "{left:?}");
    assert_eq!(served(&open(&disk, &small_segments()).unwrap().0).1, [6]);
    options.give_up = true;
    let steps = repair_dir(&disk, &dir(), &options).unwrap();
    let [RepairStep::GivenUp { range, kept: Some(kept) }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((range.base_offset, range.end_offset), (Offset(6), Offset(9)));
    let mut found = disk.content(kept).unwrap();
    found[80] ^= 1;
    assert_eq!(found, lost, "the bytes are kept in another file");
    let (mut log, recovery) = open(&disk, &small_segments()).unwrap();
    assert!(recovery.damaged.is_empty(), "{recovery:?}");
    let (good, bad) = served(&log);
    assert!(bad.is_empty() && !good.contains(&6) && good.contains(&9), "{good:?} {bad:?}");
    assert_eq!(raft_indexes(&log).len(), 30, "its raft index is kept");
    append(&mut log, &batch(1, 10, 0, 0)).unwrap();
    assert_eq!(log.log_end().offset(), Offset(91));
}

#[test]
fn a_folder_that_does_not_open_is_brought_to_open() {
    for rows in [5..6, 5..7] {
        let disk = half_synced();
        disk.damage(&log_file(0), |bytes| bytes[5 * batch_bytes() + 70] ^= 1);
        disk.damage(&index_file(0), |index| index[64 + rows.start * 64..64 + rows.end * 64].fill(0));
        assert!(
            open(&disk, &small_segments()).is_err()
                && !inspect::verify_dir(&disk, &dir()).unwrap().is_sound()
        );
        let options = RepairOptions { give_up: true, ..RepairOptions::default() };
        let steps = repair_dir(&disk, &dir(), &options).unwrap();
        assert_eq!(kinds(&steps), ["rewritten", "given up"], "{steps:?}");
        let (log, _) = open(&disk, &small_segments()).unwrap();
        let (good, bad) = served(&log);
        assert!(bad.is_empty() && good.len() == 19 && !good.contains(&5), "{good:?} {bad:?}");
    }
}

#[test]
fn a_repair_keeps_what_it_cuts_and_what_it_cannot_read() {
    let disk = half_synced();
    disk.damage(&log_file(0), |bytes| bytes[15 * batch_bytes() + 70] ^= 1);
    let torn = disk.content(&log_file(0)).unwrap()[15 * batch_bytes()..].to_vec();
    let steps = repair_dir(&disk, &dir(), &RepairOptions::default()).unwrap();
    assert_eq!(kinds(&steps), ["recovered"], "{steps:?}");
    let kept = file(&format!("{:020}.log.cut-{}", 0, 15 * batch_bytes()));
    assert_eq!(disk.content(&kept).unwrap(), torn);
    assert_eq!(open(&disk, &small_segments()).unwrap().0.log_end().offset(), Offset(15));

    let disk = common::disk(1);
    closed_log(&disk);
    disk.damage(&file("entries"), |bytes| bytes[13] ^= 1);
    let entries = disk.content(&file("entries")).unwrap();
    let steps = repair_dir(&disk, &dir(), &RepairOptions::default()).unwrap();
    assert_eq!(kinds(&steps), ["rewritten"], "{steps:?}");
    assert_eq!(disk.content(&file("entries.damaged")).unwrap(), entries);
    let (log, _) = open(&disk, &small_segments()).unwrap();
    assert_eq!((log.entries().len(), served(&log).0.len()), (1, 30), "only the header was damaged");
}
