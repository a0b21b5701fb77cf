//! Sections of a checkpoint. Folders of earlier builds open, and folders of later builds open as far as their
//! sections are known.
//!
//! `fixtures/checkpoint-1` is a partition that was closed before sections existed. It has three batches of
//! producer 7, an aborted transaction of producer 8, and an open one of producer 9.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what went wrong")]

use std::fs;
use std::path::{Path, PathBuf};

use tailrace_log::{
    Log, LogConfig, LogStore, PRODUCERS, PartitionIdentity, RealDisk, Recovery, Sections, inspect,
};
use tailrace_records::TimestampType;
use tailrace_replication::{Durability, Policy, Producers, Solo};
use tailrace_types::{Offset, PartitionId, ProducerId, TimestampMs, TopicId, TopicName, TopicPartition};
use tempfile::TempDir;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/checkpoint-1/t-0");
const SNAPSHOT: &str = "00000000000000000007.snapshot";
/// Long after the fixture was made.
const NOW: TimestampMs = TimestampMs(2_000_000);

/// A temporary copy of the fixture.
fn copied() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("t-0");
    fs::create_dir(&dir).unwrap();
    for file in fs::read_dir(FIXTURE).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), dir.join(file.file_name())).unwrap();
    }
    (folder, dir)
}

fn identity() -> PartitionIdentity {
    let topic_partition = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
    PartitionIdentity { topic_id: TopicId([7; 16]), topic_partition }
}

fn config() -> LogConfig {
    LogConfig { preallocate_bytes: 0, retention_ms: None, ..LogConfig::default() }
}

fn open(dir: &Path) -> (Solo<RealDisk>, Recovery) {
    let policy = Policy {
        durability: Durability::Strict,
        producer_expiration_ms: i64::MAX,
        timestamp_type: TimestampType::CreateTime,
    };
    Solo::open(&LogStore::new(RealDisk, 4), dir, &identity(), config(), policy, NOW).unwrap()
}

/// Closes the log with these sections, like another build.
fn close_with(dir: &Path, sections: Sections) {
    let (log, _) = Log::open(&LogStore::new(RealDisk, 4), dir, &identity(), config(), NOW).unwrap();
    log.close(Some(sections)).unwrap();
}

fn table() -> Vec<u8> {
    fs::read(Path::new(FIXTURE).join(SNAPSHOT)).unwrap()[32..].to_vec()
}

#[test]
fn a_folder_from_before_there_were_sections_opens_and_stays_as_it_was() {
    let (_folder, dir) = copied();
    assert!(inspect::verify_dir(&RealDisk, &dir).unwrap().all_problems().next().is_none());
    let (solo, recovery) = open(&dir);
    assert!(recovery.clean && recovery.notes.is_empty(), "{recovery:?}");
    let (offset, sections) = recovery.snapshot.unwrap();
    assert_eq!((offset, sections), (Offset(7), Sections::of(PRODUCERS, 1, table())));
    assert_eq!(*solo.producers(), Producers::from_snapshot(&table()).unwrap());
    let ids: Vec<_> = solo.producers().iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [7, 8, 9].map(ProducerId));
    assert_eq!(solo.reader().last_stable_offset(), Offset(6));
    // Nothing has changed, so the file is left alone.
    solo.close().unwrap();
    assert_eq!(fs::read(dir.join(SNAPSHOT)).unwrap(), fs::read(Path::new(FIXTURE).join(SNAPSHOT)).unwrap());
}

#[test]
fn a_section_that_nobody_knows_is_left_out() {
    let (_folder, dir) = copied();
    close_with(&dir, Sections::of("subjects", 4, &b"of a later build"[..]).with(PRODUCERS, 1, table()));
    assert_eq!(fs::read(dir.join(SNAPSHOT)).unwrap()[8], 3);
    assert!(inspect::verify_dir(&RealDisk, &dir).unwrap().all_problems().next().is_none());
    let (solo, recovery) = open(&dir);
    assert!(recovery.snapshot.unwrap().1.get("subjects").is_some());
    assert_eq!(*solo.producers(), Producers::from_snapshot(&table()).unwrap());
    // An earlier build can open what this one closes.
    solo.close().unwrap();
    assert_eq!(fs::read(dir.join(SNAPSHOT)).unwrap(), fs::read(Path::new(FIXTURE).join(SNAPSHOT)).unwrap());
}

#[test]
fn a_section_in_a_newer_version_is_had_from_the_log() {
    let (_folder, dir) = copied();
    close_with(&dir, Sections::of(PRODUCERS, 2, &b"nobody can read this"[..]));
    let (solo, _) = open(&dir);
    let ids: Vec<_> = solo.producers().iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [7, 8, 9].map(ProducerId));
    assert_eq!(solo.reader().last_stable_offset(), Offset(6));
}

#[test]
fn a_damaged_section_is_skipped_and_named() {
    let (_folder, dir) = copied();
    close_with(&dir, Sections::of(PRODUCERS, 1, table()).with("subjects", 1, &b"s"[..]));
    let mut bytes = fs::read(dir.join(SNAPSHOT)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(dir.join(SNAPSHOT), bytes).unwrap();
    let report = inspect::verify_dir(&RealDisk, &dir).unwrap();
    let problems: Vec<_> = report.all_problems().map(|problem| problem.reason.clone()).collect();
    // The report has the location, and says that the start ignores the section.
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().all(|problem| problem.contains("wrong checksum of section subjects")));
    let (solo, recovery) = open(&dir);
    assert!(recovery.snapshot.is_none());
    assert!(recovery.notes[0].contains("wrong checksum of section subjects"), "{:?}", recovery.notes);
    assert_eq!(solo.producers().len(), 3, "it was read from the log");
}
