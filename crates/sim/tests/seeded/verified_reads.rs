//! Reads that verify what they return.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;
use crate::common::{SimLog, append, batch, dir, open};
use tailrace_log::{LogConfig, LogError, LogStore, VerifyReads};
use tailrace_sim::{Rng, SimDisk};
use tailrace_types::Offset;

/// Writes 40 batches of some 600 bytes, and closes the log.
fn closed_log(disk: &SimDisk) {
    let (mut log, _) = open(disk, &LogConfig::default()).unwrap();
    for number in 0..40 {
        append(&mut log, &batch(2, 250, 1000 + number, number as u8)).unwrap();
    }
    log.close(None).unwrap();
}

fn log_file() -> std::path::PathBuf {
    dir().join(format!("{:020}.log", 0))
}

fn flip(disk: &SimDisk, position: usize) {
    disk.damage(&log_file(), |bytes| bytes[position] ^= 4);
}

fn open_checked(disk: &SimDisk, verify: VerifyReads) -> (LogStore<SimDisk>, SimLog) {
    let store = LogStore::new(disk.clone(), 8);
    store.set_verify_reads(verify);
    let (log, recovery) =
        tailrace_log::Log::open(&store, &dir(), &common::identity(), LogConfig::default(), common::NOW)
            .unwrap();
    assert!(recovery.clean);
    (store, log)
}

/// Reads everything, `bytes_max` at a time. Returns the offsets that were not served, and how many batches
/// had a wrong checksum.
fn read_all(log: &SimLog, bytes_max: u64) -> (Vec<i64>, usize) {
    let (reader, mut at, mut refused, mut wrong) = (log.reader(), Offset(0), Vec::new(), 0);
    let end = log.log_end().offset();
    while at < end {
        match reader.read(at, end, bytes_max, true) {
            Ok(slice) => {
                let slice = slice.expect("there are more records");
                assert_eq!(slice.base_offset, at);
                let bytes = slice.read().unwrap();
                let batches = tailrace_records::split_batches(&bytes).map(|batch| batch.unwrap().1);
                wrong += batches.filter(|batch| !tailrace_records::verify_crc(batch)).count();
                at = slice.next_offset;
            }
            Err(LogError::Damaged { .. }) => {
                let range = reader.damaged().into_iter().find(|range| range.holds(at)).unwrap();
                assert_eq!(range.base_offset, at);
                refused.push(at.0);
                at = range.end_offset;
            }
            Err(error) => panic!("{error}"),
        }
    }
    (refused, wrong)
}

#[test]
fn a_damaged_batch_is_not_handed_out_the_first_time_whatever_is_read_at_once() {
    for seed in 0..60 {
        let disk = common::disk(seed);
        closed_log(&disk);
        let mut rng = Rng::new(seed);
        let bytes = disk.content(&log_file()).unwrap().len();
        // Skip the epoch, which no checksum covers. No checksum covers the length either, but a wrong length
        // breaks the frame.
        let position = rng.below(bytes as u64) as usize;
        let batch_bytes = bytes / 40;
        if (12..16).contains(&(position % batch_bytes)) {
            continue;
        }
        flip(&disk, position);
        let expected = vec![2 * (position / batch_bytes) as i64];
        for bytes_max in [1, 700, 5000, 1 << 20] {
            let (_, log) = open_checked(&disk, VerifyReads::Never);
            assert_eq!(read_all(&log, 1 << 20).0, [] as [i64; 0], "reads are not verified");
            drop(log);
            for verify in [VerifyReads::First, VerifyReads::Always] {
                let (_, log) = open_checked(&disk, verify);
                // Read from the middle first: what lies before must not count as verified.
                let from = Offset(rng.below(80) as i64);
                drop(log.reader().read(from, log.log_end().offset(), bytes_max, true));
                for _ in 0..2 {
                    assert_eq!(
                        read_all(&log, bytes_max),
                        (expected.clone(), 0),
                        "seed {seed}, {verify:?}, {bytes_max}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_was_checked_is_checked_again_only_when_it_was_left_alone() {
    let disk = common::disk(1);
    closed_log(&disk);
    let (store, log) = open_checked(&disk, VerifyReads::First);
    assert_eq!(read_all(&log, 5000), (vec![], 0));
    disk.record();
    assert_eq!(read_all(&log, u64::MAX), (vec![], 0));
    let reads = disk.take_recording().into_iter().filter(|op| op.path == log_file()).count();
    assert_eq!(reads, 1, "only the test's own read");
    flip(&disk, 1000);
    log.reader().forget_unread();
    assert_eq!(read_all(&log, 5000), (vec![], 1), "the batch was read since, so it still counts as verified");
    log.reader().forget_unread();
    log.reader().forget_unread();
    assert_eq!(read_all(&log, 5000), (vec![2], 0));
    flip(&disk, 20_000);
    store.set_verify_reads(VerifyReads::Always);
    assert_eq!(read_all(&log, 5000).0.len(), 2, "each read is verified");
}

#[test]
fn what_was_appended_is_checked_too_and_a_read_checks_a_mebibyte_at_most() {
    let disk = common::disk(1);
    let (store, mut log) = {
        let (log, _) = open(&disk, &LogConfig::default()).unwrap();
        log.close(None).unwrap();
        open_checked(&disk, VerifyReads::First)
    };
    for number in 0..5 {
        append(&mut log, &batch(1, 400 << 10, 1000, number)).unwrap();
    }
    let read = |bytes_max| {
        let slice = log.reader().read(Offset(0), log.log_end().offset(), bytes_max, true).unwrap().unwrap();
        slice.next_offset.0
    };
    assert_eq!(read(u64::MAX), 2);
    // What was verified costs nothing more, so reads get further.
    assert_eq!(read(u64::MAX), 4);
    assert_eq!(read(u64::MAX), 5);
    assert_eq!(read(1), 1);
    store.set_verify_reads(VerifyReads::Never);
    assert_eq!(read(u64::MAX), 5);
}
