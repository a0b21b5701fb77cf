//! The log on the machine's own disk.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tailrace_log::{
    DataDirLock, Disk, KEPT_ASIDE_MAX, LockError, Log, LogConfig, LogError, LogReader, LogStore,
    PartitionIdentity, Reach, RealDisk, aside_of, delete_partition, folders_aside, holds_data,
    remove_leftovers, set_aside,
};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions, split_batches};
use tailrace_types::{
    HighWatermark, LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId, TopicName, TopicPartition,
};

const NOW: TimestampMs = TimestampMs(1_000_000);

fn identity(partition: i32) -> PartitionIdentity {
    let topic = TopicName::new("orders").unwrap();
    let topic_partition = TopicPartition::new(topic, PartitionId(partition));
    PartitionIdentity { topic_id: TopicId([1; 16]), topic_partition }
}

fn open(dir: &Path, config: &LogConfig) -> Log<RealDisk> {
    Log::open(&LogStore::new(RealDisk, 64), dir, &identity(0), config.clone(), NOW).unwrap().0
}

fn append(log: &mut Log<RealDisk>, value_bytes: usize, timestamp: i64) -> Result<(), LogError> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(TimestampMs(timestamp), None, Some(&vec![7; value_bytes]), &[]).unwrap();
    let bytes = builder.build();
    let header = BatchHeader {
        base_offset: log.log_end().offset(),
        leader_epoch: LeaderEpoch(1),
        ..BatchHeader::parse(&bytes).unwrap()
    };
    log.append(&header, log.next_raft_index(), &bytes, TimestampMs(timestamp)).map(drop)
}

#[test]
fn what_was_appended_is_there_after_a_clean_stop_and_after_none() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("orders-0");
    let config = LogConfig { segment_bytes: 100_000, ..LogConfig::default() };
    let mut log = open(&dir, &config);
    (0..300).for_each(|n| append(&mut log, 1000, n).unwrap());
    log.close(None).unwrap();
    let mut log = open(&dir, &config);
    assert_eq!(log.log_end().offset(), Offset(300));
    (0..10).for_each(|n| append(&mut log, 1000, 300 + n).unwrap());
    drop(log);
    let (log, recovery) = Log::open(&LogStore::new(RealDisk, 64), &dir, &identity(0), config, NOW).unwrap();
    assert_eq!((log.log_end().offset(), recovery.batches_recovered), (Offset(310), 10));
    assert_eq!(recovery.truncated, None);
}

/// A caller that must not wait for the disk gets an error where it would have to: at a segment whose files
/// are not open.
#[test]
fn a_read_that_goes_no_further_than_memory_opens_no_files() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("orders-0");
    let config = LogConfig { segment_bytes: 3_000, ..LogConfig::default() };
    let mut log = open(&dir, &config);
    (0..10).for_each(|n| append(&mut log, 1000, n).unwrap());
    log.close(None).unwrap();
    let log = open(&dir, &config);
    let reader = log.reader();
    let read = |reach| {
        let slice = reader.read_within(reach, Offset(0), Offset(10), 1 << 20, true)?;
        Ok::<_, LogError>(slice.map(|slice| slice.next_offset))
    };
    assert!(matches!(read(Reach::Memory), Err(LogError::NotAtHand)));
    let found = read(Reach::Disk).unwrap();
    assert!(found.is_some());
    assert_eq!(read(Reach::Memory).unwrap(), found);
}

/// Blocks are reserved beyond the end and freed again. The file length never includes them.
#[test]
fn reserved_blocks_are_given_back() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("orders-0");
    let mut log = open(&dir, &LogConfig::default());
    append(&mut log, 1000, 0).unwrap();
    let path = dir.join("00000000000000000000.log");
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), log.reader().size_bytes());
    let reserved = metadata.blocks() * 512;
    log.close(None).unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    if reserved >= 1 << 20 {
        assert!(metadata.blocks() * 512 <= 65_536, "{} blocks are left", metadata.blocks());
    }
}

#[test]
fn a_slice_outlives_its_segment() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("orders-0");
    let config = LogConfig {
        segment_bytes: 10_000,
        retention_ms: None,
        retention_bytes: Some(20_000),
        ..LogConfig::default()
    };
    let mut log = open(&dir, &config);
    (0..100).for_each(|n| append(&mut log, 1000, n).unwrap());
    log.sync().unwrap();
    let reader = log.reader();
    let slice = reader.read(Offset(0), Offset(100), 5000, true).unwrap().unwrap();
    let before = slice.read().unwrap();
    let trim = log.retain(HighWatermark(100), NOW).unwrap();
    trim.run().unwrap();
    assert!(trim.segments().len() > 5);
    assert_eq!(slice.read().unwrap(), before);
    assert!(matches!(reader.read(Offset(0), Offset(100), 1, true), Err(LogError::OutOfRange { .. })));
    assert!(!dir.join("00000000000000000000.log").exists());
    drop(log);
    let log = open(&dir, &config);
    assert_eq!(log.log_start(), trim.log_start());
}

/// Kafka's rules: retention by age can remove the active segment too, by size at least `retention.bytes`
/// stay, by records likewise, and nothing above the high watermark is removed.
#[test]
fn retention_is_kafkas() {
    let data = tempfile::tempdir().unwrap();
    let base = LogConfig { segment_bytes: 10_000, retention_ms: None, ..LogConfig::default() };
    let filled = |name: &str| {
        let mut log = open(&data.path().join(name), &base);
        (0..90).for_each(|n| append(&mut log, 1000, 1000 + n).unwrap());
        log.sync().unwrap();
        log
    };
    let mut by_age = filled("a");
    by_age.set_config(LogConfig { retention_ms: Some(5000), ..base.clone() });
    assert!(by_age.retain(HighWatermark(90), TimestampMs(6000)).is_none());
    let trim = by_age.retain(HighWatermark(40), TimestampMs(90_000)).unwrap();
    assert!(trim.log_start() <= Offset(40) && trim.log_start() > Offset(25), "{}", trim.log_start());
    let trim = by_age.retain(HighWatermark(90), TimestampMs(90_000)).unwrap();
    assert_eq!((trim.log_start(), by_age.reader().segment_count()), (Offset(90), 0));
    trim.run().unwrap();
    append(&mut by_age, 10, 90_000).unwrap();
    assert_eq!(by_age.log_end().offset(), Offset(91));

    let mut by_bytes = filled("b");
    by_bytes.set_config(LogConfig { retention_bytes: Some(25_000), ..base.clone() });
    by_bytes.retain(HighWatermark(90), NOW).unwrap().run().unwrap();
    let left = by_bytes.reader().size_bytes();
    assert!((25_000..35_000).contains(&left), "{left}");

    let mut by_records = filled("r");
    by_records.set_config(LogConfig { retention_records: Some(30), ..base.clone() });
    by_records.retain(HighWatermark(90), NOW).unwrap().run().unwrap();
    let left = 90 - by_records.log_start().0;
    assert!((30..40).contains(&left), "{left}");

    let mut compacted = filled("c");
    compacted.set_config(LogConfig { delete: false, retention_bytes: Some(0), ..base.clone() });
    assert!(compacted.retain(HighWatermark(90), NOW).is_none());
    compacted.advance_log_start(Offset(50)).unwrap().run().unwrap();
    assert_eq!(compacted.log_start(), Offset(50));
    assert!(matches!(compacted.advance_log_start(Offset(91)), Err(LogError::OutOfRange { .. })));
}

#[test]
fn a_segment_rolls_by_the_age_of_its_batches() {
    let data = tempfile::tempdir().unwrap();
    let mut log =
        open(&data.path().join("orders-0"), &LogConfig { segment_ms: 1000, ..LogConfig::default() });
    for timestamp in [0, 500, 1000, 1001, 1500, 2002] {
        append(&mut log, 10, timestamp).unwrap();
    }
    assert_eq!(log.reader().segment_count(), 3);
}

/// Truncated batches count as written too.
#[test]
fn what_is_written_and_how_often_a_segment_ends_is_counted() {
    let data = tempfile::tempdir().unwrap();
    let config = LogConfig { segment_bytes: 3_400, segment_ms: 1_000, ..LogConfig::default() };
    let mut log = open(&data.path().join("orders-0"), &config);
    let reader = log.reader();
    assert_eq!((reader.appended_bytes(), reader.rolls()), (0, 0));
    append(&mut log, 1000, 0).unwrap();
    let one = reader.appended_bytes();
    assert!(one > 1000 && reader.rolls() == 1, "{one} bytes");
    (1..4).for_each(|n| append(&mut log, 1000, n).unwrap());
    assert_eq!((reader.appended_bytes(), reader.rolls()), (4 * one, 2));
    log.truncate_to(Offset(3)).unwrap();
    assert_eq!(reader.appended_bytes(), 4 * one);
    assert!(log.close_old_segment(TimestampMs(100_000)));
    assert_eq!(reader.rolls(), 3);
}

#[test]
fn a_deleted_partition_is_gone_even_if_deletion_was_cut_short() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("orders-0");
    let mut log = open(&dir, &LogConfig::default());
    append(&mut log, 10, 0).unwrap();
    drop(log);
    delete_partition(&RealDisk, &dir, "AQIDBAUGBwgJCgsMDQ4PEA").unwrap();
    assert_eq!(RealDisk.read_dir(data.path()).unwrap(), []);
    std::fs::create_dir(data.path().join("orders-0.1234.x.deleted")).unwrap();
    assert_eq!(remove_leftovers(&RealDisk, data.path()).unwrap(), ["orders-0.1234.x.deleted"]);
    assert_eq!(RealDisk.read_dir(data.path()).unwrap(), []);
}

#[test]
fn folders_are_set_aside_one_of_each_partition_and_few_of_all() {
    let data = tempfile::tempdir().unwrap();
    let dir = |number: i32| data.path().join(format!("orders-{number}"));
    let make = |number: i32, content: &[u8]| {
        std::fs::create_dir(dir(number)).unwrap();
        std::fs::write(dir(number).join("partition.meta"), b"x").unwrap();
        std::fs::write(dir(number).join("entries"), content).unwrap();
    };
    assert!(!holds_data(&RealDisk, &dir(0)).unwrap());
    make(0, b"");
    assert!(!holds_data(&RealDisk, &dir(0)).unwrap(), "nothing but its name");
    std::fs::remove_dir_all(dir(0)).unwrap();
    make(0, b"1");
    assert!(holds_data(&RealDisk, &dir(0)).unwrap());
    let first = set_aside(&RealDisk, &dir(0), NOW).unwrap();
    assert!(first.file_name().unwrap().to_str().unwrap().starts_with("orders-0."), "{first:?}");
    assert!(!dir(0).exists() && first.join("entries").exists());
    // The clock stands still, but the newer folder is still kept.
    make(0, b"2");
    let second = set_aside(&RealDisk, &dir(0), NOW).unwrap();
    assert_eq!(folders_aside(&RealDisk, data.path()).unwrap(), std::slice::from_ref(&second));
    assert_eq!(std::fs::read(second.join("entries")).unwrap(), b"2");
    for number in 1..=KEPT_ASIDE_MAX as i32 {
        make(number, b"3");
        set_aside(&RealDisk, &dir(number), TimestampMs(NOW.0 + i64::from(number) * 10)).unwrap();
    }
    let kept = folders_aside(&RealDisk, data.path()).unwrap();
    assert_eq!(kept.len(), KEPT_ASIDE_MAX);
    assert!(!kept.contains(&second), "the oldest has gone");
    assert_eq!(aside_of(&RealDisk, &dir(1)).unwrap(), kept[..1]);
    assert_eq!(remove_leftovers(&RealDisk, data.path()).unwrap(), [""; 0]);
}

#[test]
fn a_data_folder_is_locked_by_one() {
    let data = tempfile::tempdir().unwrap();
    let lock = DataDirLock::acquire(data.path()).unwrap();
    assert!(matches!(DataDirLock::acquire(data.path()), Err(LockError::Held(_))));
    drop(lock);
    DataDirLock::acquire(data.path()).unwrap();
}

/// Readers never see a torn batch, a gap, or anything out of order, whatever the writer does.
#[test]
fn readers_run_beside_a_writer_that_rolls_trims_and_truncates() {
    let data = tempfile::tempdir().unwrap();
    let config = LogConfig {
        segment_bytes: 20_000,
        retention_ms: None,
        retention_bytes: Some(60_000),
        ..LogConfig::default()
    };
    let store = LogStore::new(RealDisk, 2);
    let dir = data.path().join("orders-0");
    let mut log = Log::open(&store, &dir, &identity(0), config, NOW).unwrap().0;
    let (high_watermark, has_ended) = (AtomicI64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let followers = [(); 2].map(|()| {
            let (reader, high_watermark, has_ended) = (log.reader(), &high_watermark, &has_ended);
            scope.spawn(move || follow(&reader, high_watermark, has_ended))
        });
        for round in 0..150 {
            for n in 0..20 {
                append(&mut log, 100 + 37 * (n % 11) as usize, round).unwrap();
            }
            // The last five are not committed and are replaced.
            let committed = log.log_end().0 - 5;
            log.truncate_to(Offset(committed)).unwrap();
            high_watermark.store(committed, Ordering::Release);
            if let Some(trim) = log.retain(HighWatermark(committed), NOW) {
                trim.run().unwrap();
            }
        }
        has_ended.store(true, Ordering::Release);
        for follower in followers {
            assert!(follower.join().unwrap() > 0, "a follower that looked at nothing");
        }
    });
    assert!(log.log_start().0 > 0);
}

/// Reads up to the last high watermark. Returns the number of batches read.
fn follow(reader: &LogReader<RealDisk>, high_watermark: &AtomicI64, has_ended: &AtomicBool) -> usize {
    let (mut next, mut batches) = (Offset(0), 0);
    loop {
        // In this order, so that the last read covers everything committed.
        let is_last = has_ended.load(Ordering::Acquire);
        let upto = high_watermark.load(Ordering::Acquire);
        match reader.read(next, Offset(upto), 8000, true) {
            Ok(Some(slice)) => {
                for split in split_batches(&slice.read().unwrap()) {
                    let (header, bytes) = split.unwrap();
                    assert!(tailrace_records::verify_crc(bytes));
                    assert_eq!(header.base_offset, next);
                    next = header.next_offset();
                    batches += 1;
                }
                assert_eq!(next, slice.next_offset);
            }
            Ok(None) if is_last => {
                assert_eq!(next, Offset(upto));
                return batches;
            }
            Ok(None) => std::thread::yield_now(),
            Err(LogError::OutOfRange { log_start, .. }) => next = next.max(log_start),
            Err(error) => panic!("{error}"),
        }
    }
}
