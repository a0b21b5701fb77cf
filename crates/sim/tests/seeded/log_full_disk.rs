//! A disk without space: appends are refused, nothing is lost, reads continue, and the log recovers.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;
use crate::common::{append, batch, open, read_all, small_segments};
use tailrace_log::{LogConfig, LogError};
use tailrace_sim::{CrashMode, Effect, OpKind, Rule};
use tailrace_types::Offset;

fn rule(kind: OpKind, path_ends: &str, effect: Effect) -> Rule {
    Rule { kind: Some(kind), path_ends: path_ends.into(), after: 0, times: 1, effect }
}

#[test]
fn a_failed_reservation_does_not_fail_an_append_that_fits() {
    for space in [None, Some(20_000)] {
        let disk = common::disk(1);
        let config =
            LogConfig { segment_bytes: 1 << 30, preallocate_bytes: 16 << 20, ..LogConfig::default() };
        disk.set_space(space);
        let (mut log, _) = open(&disk, &config).unwrap();
        disk.record();
        for _ in 0..10 {
            append(&mut log, &batch(1, 1000, 0, 1)).unwrap();
        }
        let mut recording = disk.take_recording().into_iter();
        let reservation = recording.find(|op| op.kind == OpKind::Preallocate).unwrap();
        assert_eq!(reservation.ok, space.is_none(), "{reservation:?}");
        assert!(space.is_none_or(|space| disk.used_bytes() < space));
    }
}

#[test]
fn a_full_disk_refuses_appends_and_heals() {
    let disk = common::disk(1);
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    append(&mut log, &batch(1, 100, 0, 1)).unwrap();
    let content = read_all(&log, Offset(0)).unwrap();
    disk.set_space(Some(disk.used_bytes()));
    for _ in 0..3 {
        let error = append(&mut log, &batch(2, 3000, 0, 2)).unwrap_err();
        assert!(error.is_no_space(), "{error}");
        assert!(log.poisoned().is_none());
        assert_eq!(read_all(&log, Offset(0)).unwrap(), content);
    }
    disk.set_space(None);
    append(&mut log, &batch(1, 100, 0, 3)).unwrap();
    assert_eq!(log.log_end().offset(), Offset(2));
    drop(log);
    let (log, recovery) = open(&disk.crash(CrashMode::KeepAll), &small_segments()).unwrap();
    assert_eq!((log.log_end().offset(), recovery.truncated), (Offset(2), None));
}

/// The batch was written but its row was not: the batch must not come back at the next start.
#[test]
fn a_batch_whose_row_found_no_space_is_gone() {
    let disk = common::disk(1);
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    append(&mut log, &batch(1, 100, 0, 1)).unwrap();
    disk.add_rule(rule(OpKind::Write, ".index", Effect::Enospc));
    assert!(append(&mut log, &batch(1, 100, 0, 2)).unwrap_err().is_no_space());
    drop(log);
    let (log, _) = open(&disk.crash(CrashMode::KeepAll), &small_segments()).unwrap();
    assert_eq!(log.log_end().offset(), Offset(1));
}

#[test]
fn a_failed_write_poisons_and_reads_go_on() {
    for effect in [Effect::Eio, Effect::ShortWriteEio] {
        let disk = common::disk(1);
        let (mut log, _) = open(&disk, &small_segments()).unwrap();
        append(&mut log, &batch(1, 100, 0, 1)).unwrap();
        disk.add_rule(rule(OpKind::Write, ".log", effect));
        assert!(matches!(append(&mut log, &batch(1, 100, 0, 2)), Err(LogError::Io { .. })));
        let error = append(&mut log, &batch(1, 100, 0, 2)).unwrap_err();
        assert!(matches!(&error, LogError::Poisoned { reason } if reason.contains("write")), "{error}");
        assert_eq!(read_all(&log, Offset(0)).unwrap().len(), batch(1, 100, 0, 1).len());
        assert!(matches!(log.close(None), Err(LogError::Poisoned { .. })));
    }
}

#[test]
fn a_failed_sync_poisons_and_is_not_retried() {
    let disk = common::disk(1);
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    append(&mut log, &batch(1, 100, 0, 1)).unwrap();
    disk.add_rule(rule(OpKind::SyncData, ".log", Effect::Eio));
    assert!(log.sync().is_err());
    assert_eq!(log.durable_end().offset(), Offset(0));
    assert!(matches!(append(&mut log, &batch(1, 1, 0, 1)), Err(LogError::Poisoned { .. })));
    disk.record();
    assert!(matches!(log.sync(), Err(LogError::Poisoned { .. })));
    assert!(matches!(log.checkpoint(None), Err(LogError::Poisoned { .. })));
    assert!(disk.take_recording().is_empty());
    assert_eq!(log.durable_end().offset(), Offset(0));
}

/// The first sync covers the folder, its parent, the identity, and the header and name of the segment.
#[test]
fn the_first_sync_covers_every_name() {
    let disk = common::disk(1);
    let (mut log, recovery) = open(&disk, &small_segments()).unwrap();
    assert!(recovery.created);
    assert_eq!(disk.stats().syncs, 1, "creating a partition syncs nothing (the one sync is the test's)");
    append(&mut log, &batch(1, 100, 0, 1)).unwrap();
    log.sync().unwrap();
    let (log, _) = open(&disk.crash(CrashMode::LoseAll), &small_segments()).unwrap();
    assert_eq!(log.log_end().offset(), Offset(1));
}

#[test]
fn a_sync_of_an_existing_segment_is_one_fdatasync() {
    let disk = common::disk(1);
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    append(&mut log, &batch(1, 100, 0, 1)).unwrap();
    log.sync().unwrap();
    append(&mut log, &batch(1, 100, 0, 1)).unwrap();
    disk.record();
    log.sync().unwrap();
    let kinds: Vec<_> = disk.take_recording().into_iter().map(|op| op.kind).collect();
    assert_eq!(kinds, [OpKind::SyncData]);
    append(&mut log, &batch(1, 100, 0, 1)).unwrap();
    let kinds: Vec<_> = disk.take_recording().into_iter().map(|op| op.kind).collect();
    assert_eq!(kinds, [OpKind::Write, OpKind::Write]);
    assert!(log.sync_plan().dirty_bytes() > 0 && !log.sync_plan().is_empty());
}

#[test]
fn a_tail_read_costs_one_read_of_the_index() {
    let disk = common::disk(1);
    let config = LogConfig { segment_bytes: 1 << 20, ..small_segments() };
    let (mut log, _) = open(&disk, &config).unwrap();
    for _ in 0..1000 {
        append(&mut log, &batch(1, 10, 0, 1)).unwrap();
    }
    let reader = log.reader();
    disk.record();
    let slice = reader.read(Offset(995), Offset(1000), 1 << 20, true).unwrap().unwrap();
    assert_eq!((slice.base_offset, slice.next_offset), (Offset(995), Offset(1000)));
    assert_eq!(disk.take_recording().len(), 1);
    reader.read(Offset(300), Offset(1000), 1000, true).unwrap().unwrap();
    assert!(disk.take_recording().len() <= 8);
}

#[test]
fn open_files_are_bounded() {
    let disk = common::disk(1);
    let store = tailrace_log::LogStore::new(disk.clone(), 4);
    let identity = common::identity();
    let (mut log, _) =
        tailrace_log::Log::open(&store, &common::dir(), &identity, small_segments(), common::NOW).unwrap();
    for _ in 0..200 {
        append(&mut log, &batch(1, 500, 0, 1)).unwrap();
    }
    assert!(log.reader().segment_count() > 20);
    log.sync().unwrap();
    for _ in 0..3 {
        read_all(&log, Offset(0)).unwrap();
    }
    assert!(store.open_segments() <= 4, "{} segments are open", store.open_segments());
}

/// Retention is what frees a full disk, so it must not need space itself.
#[test]
fn retention_works_on_a_full_disk() {
    let disk = common::disk(1);
    let config = LogConfig { retention_ms: None, retention_bytes: Some(5000), ..small_segments() };
    let (mut log, _) = open(&disk, &config).unwrap();
    for _ in 0..40 {
        append(&mut log, &batch(1, 500, 0, 1)).unwrap();
    }
    log.sync().unwrap();
    disk.set_space(Some(disk.used_bytes()));
    assert!(log.checkpoint(None).unwrap_err().is_no_space());
    let trim = log.retain(tailrace_types::HighWatermark(40), common::NOW).unwrap();
    trim.run().unwrap();
    append(&mut log, &batch(1, 500, 0, 1)).unwrap();
    let (log, _) = open(&disk.crash(CrashMode::KeepAll), &config).unwrap();
    assert_eq!(log.log_start(), trim.log_start());
    assert_eq!(log.log_end().offset(), Offset(41));
}

/// The batch was written completely into a segment that gets no more writes, but its row was not. Cutting the
/// batch off must be durable. Otherwise a power failure brings it back in place of what was appended instead.
/// Seed 8072 of clusters.
#[test]
fn a_batch_that_found_no_space_does_not_come_back_after_a_power_failure() {
    for seed in 0..50 {
        let disk = common::disk(seed);
        let (mut log, _) = open(&disk, &small_segments()).unwrap();
        append(&mut log, &batch(1, 1000, 0, 1)).unwrap();
        log.sync().unwrap();
        disk.add_rule(rule(OpKind::Write, ".index", Effect::Enospc));
        assert!(append(&mut log, &batch(1, 100, 0, 2)).unwrap_err().is_no_space());
        // Too large for the segment.
        append(&mut log, &batch(1, 3500, 0, 3)).unwrap();
        assert_eq!(log.reader().segment_count(), 2);
        log.sync().unwrap();
        let content = read_all(&log, Offset(0)).unwrap();
        let (log, _) = open(&disk.crash(CrashMode::Random), &small_segments())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(read_all(&log, Offset(0)).unwrap(), content, "seed {seed}");
    }
}
