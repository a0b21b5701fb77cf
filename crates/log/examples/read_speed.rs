//! Measures the cost of checked reads: `read_speed FOLDER [MEGABYTES [BATCH BYTES]]`.
//!
//! Writes a log (unless FOLDER has one), then reads all of it into memory in slices of 1 MiB, round after
//! round, with each [`VerifyReads`] in turn. Prints MiB/s, and the time compared with unchecked reads of the
//! same round.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::path::Path;
use std::time::{Duration, Instant};

use tailrace_log::{Log, LogConfig, LogStore, PartitionIdentity, RealDisk, VerifyReads};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_types::{LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId, TopicName, TopicPartition};

const NOW: TimestampMs = TimestampMs(1_800_000_000_000);
const ROUNDS: usize = 5;

fn open(store: &LogStore<RealDisk>, folder: &Path) -> Log<RealDisk> {
    let identity = PartitionIdentity {
        topic_id: TopicId([1; 16]),
        topic_partition: TopicPartition::new(TopicName::new("speed").unwrap(), PartitionId(0)),
    };
    let config = LogConfig { segment_bytes: 256 << 20, ..LogConfig::default() };
    Log::open(store, folder, &identity, config, NOW).unwrap().0
}

fn write(log: &mut Log<RealDisk>, bytes: u64, batch_bytes: usize) {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    let value: Vec<u8> = (0..batch_bytes).map(|at| (at * 31) as u8).collect();
    builder.push(NOW, None, Some(&value), &[]).unwrap();
    let batch = builder.build();
    while log.reader().size_bytes() < bytes {
        let header = BatchHeader {
            base_offset: log.log_end().offset(),
            leader_epoch: LeaderEpoch(1),
            ..BatchHeader::parse(&batch).unwrap()
        };
        let index = log.next_raft_index();
        log.append(&header, index, &batch, NOW).unwrap();
    }
    log.sync().unwrap();
}

fn read_all(log: &Log<RealDisk>) -> Duration {
    let (reader, end, began) = (log.reader(), log.log_end().offset(), Instant::now());
    let mut at = Offset(0);
    while let Some(slice) = reader.read(at, end, 1 << 20, true).unwrap() {
        std::hint::black_box(slice.read().unwrap());
        at = slice.next_offset;
    }
    assert_eq!(at, end);
    began.elapsed()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = Path::new(arguments.get(1).map_or("target/read_speed", String::as_str));
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    let (bytes, batch_bytes) = (number(2, 1024) << 20, number(3, 16 << 10) as usize);
    let mut log = open(&LogStore::new(RealDisk, 64), folder);
    write(&mut log, bytes, batch_bytes);
    log.close(None).unwrap();
    let ways = [
        ("unchecked", VerifyReads::Never, 0),
        ("first, checked now", VerifyReads::First, 0),
        ("first, checked before", VerifyReads::First, 1),
        ("always", VerifyReads::Always, 0),
    ];
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for (number, (_, verify, before)) in ways.iter().enumerate() {
            let store = LogStore::new(RealDisk, 64);
            store.set_verify_reads(*verify);
            let log = open(&store, folder);
            for _ in 0..*before {
                read_all(&log);
            }
            times[number].push(read_all(&log).as_secs_f64());
        }
    }
    println!(
        "{} MiB in batches of {batch_bytes} bytes, in the page cache, median of {ROUNDS} rounds",
        bytes >> 20
    );
    let median = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let base = median(&times[0]);
    for ((name, ..), times) in ways.iter().zip(&times) {
        let seconds = median(times);
        println!("{name:<24} {:>8.0} MiB/s {:>6.2} x", (bytes >> 20) as f64 / seconds, seconds / base);
    }
}
