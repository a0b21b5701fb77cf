//! Helpers for tests of the log on a simulated disk.
#![allow(dead_code, reason = "each test file uses some of it")]
#![expect(clippy::unwrap_used, reason = "tests")]

pub(crate) mod committed;
pub(crate) mod compaction;
pub(crate) mod damage;
pub(crate) mod seeds;
pub(crate) mod trio;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use tailrace_log::{Disk, Log, LogConfig, LogError, LogStore, PartitionIdentity, Recovery};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions, PREFIX_BYTES};
use tailrace_sim::SimDisk;
use tailrace_types::{
    LeaderEpoch, Offset, PartitionId, RaftIndex, TimestampMs, TopicId, TopicName, TopicPartition,
};

pub(crate) type SimLog = Log<SimDisk>;

pub(crate) const NOW: TimestampMs = TimestampMs(1_000_000);

/// Returns a disk with a durable data folder.
pub(crate) fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir(Path::new("/data")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

pub(crate) fn identity() -> PartitionIdentity {
    let topic = TopicName::new("orders").unwrap();
    PartitionIdentity {
        topic_id: TopicId([7; 16]),
        topic_partition: TopicPartition::new(topic, PartitionId(0)),
    }
}

pub(crate) fn dir() -> PathBuf {
    PathBuf::from("/data/orders-0")
}

pub(crate) fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 4096, preallocate_bytes: 2048, ..LogConfig::default() }
}

pub(crate) fn open(disk: &SimDisk, config: &LogConfig) -> Result<(SimLog, Recovery), LogError> {
    Log::open(&LogStore::new(disk.clone(), 4), &dir(), &identity(), config.clone(), NOW)
}

/// Builds a batch as a producer sends it: `records` records with values of `value_bytes` bytes.
pub(crate) fn batch(records: usize, value_bytes: usize, first_timestamp: i64, fill: u8) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for number in 0..records {
        let timestamp = TimestampMs(first_timestamp + number as i64);
        builder.push(timestamp, Some(b"k"), Some(&vec![fill; value_bytes]), &[]).unwrap();
    }
    builder.build()
}

/// Returns the header with offset and epoch stamped.
pub(crate) fn stamp(bytes: &[u8], base_offset: Offset, leader_epoch: LeaderEpoch) -> BatchHeader {
    BatchHeader { base_offset, leader_epoch, ..BatchHeader::parse(bytes).unwrap() }
}

/// Returns what is then in the log.
pub(crate) fn stamped(header: &BatchHeader, bytes: &[u8]) -> Vec<u8> {
    [&header.prefix()[..], &bytes[PREFIX_BYTES..]].concat()
}

/// Appends `bytes` at the log end under the log's last epoch (1 in a fresh log).
pub(crate) fn append(log: &mut SimLog, bytes: &[u8]) -> Result<BatchHeader, LogError> {
    let epoch = LeaderEpoch(log.last_epoch().0.max(1));
    append_in(log, bytes, epoch)
}

pub(crate) fn append_in(log: &mut SimLog, bytes: &[u8], epoch: LeaderEpoch) -> Result<BatchHeader, LogError> {
    let header = stamp(bytes, log.log_end().offset(), epoch);
    let index: RaftIndex = log.next_raft_index();
    log.append(&header, index, bytes, NOW)?;
    Ok(header)
}

/// Reads everything from `from` to the log end.
pub(crate) fn read_all(log: &SimLog, from: Offset) -> Result<Vec<u8>, LogError> {
    let reader = log.reader();
    let end = log.log_end().offset();
    let (mut next, mut bytes) = (from, Vec::new());
    while let Some(slice) = reader.read(next, end, 1 << 20, true)? {
        bytes.extend_from_slice(&slice.read().unwrap());
        assert!(slice.next_offset > next, "a read makes progress");
        next = slice.next_offset;
    }
    assert!(next == end, "read up to {next}, but the log ends at {end}");
    Ok(bytes)
}
