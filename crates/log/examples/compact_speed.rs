//! Measures the speed and memory of compaction: `compact_speed FOLDER none|lz4 [RECORDS KEYS]`.
//!
//! Writes a log of batches of about 16 KiB with values of 100 bytes (unless FOLDER has one) and closes it.
//! The next run compacts it. A separate process is used so that its peak memory is that of the cleaner alone.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use tailrace_log::{
    CompactionLimits, CompactionSettings, HashSecret, KeyMap, Log, LogConfig, LogStore, PartitionIdentity,
    RealDisk, Unhurried,
};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions, Compression};
use tailrace_types::{
    HighWatermark, LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId, TopicName, TopicPartition,
};

const BATCH_BYTES: usize = 16 * 1024;
const VALUE_BYTES: usize = 100;
const NOW: TimestampMs = TimestampMs(1_800_000_000_000);

fn open(folder: &Path) -> Log<RealDisk> {
    let identity = PartitionIdentity {
        topic_id: TopicId([1; 16]),
        topic_partition: TopicPartition::new(TopicName::new("speed").unwrap(), PartitionId(0)),
    };
    let config = LogConfig { segment_bytes: 256 << 20, ..LogConfig::default() };
    Log::open(&LogStore::new(RealDisk, 64), folder, &identity, config, NOW).unwrap().0
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn write(folder: &Path, compression: Compression, records: u64, keys: u64) {
    let mut log = open(folder);
    let (mut state, mut number) = (1, 0);
    while number < records {
        let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        while number < records {
            let key = format!("key-{:010}", random(&mut state) % keys);
            // Hex digits compress to about a half, as text does.
            let mut value = String::with_capacity(VALUE_BYTES + 16);
            while value.len() < VALUE_BYTES {
                value.push_str(&format!("{:016x}", random(&mut state)));
            }
            value.truncate(VALUE_BYTES);
            if builder
                .push_within(BATCH_BYTES, NOW, Some(key.as_bytes()), Some(value.as_bytes()), &[])
                .is_err()
            {
                break;
            }
            number += 1;
        }
        let bytes = builder.build();
        let header = BatchHeader {
            base_offset: log.log_end().offset(),
            leader_epoch: LeaderEpoch(1),
            ..BatchHeader::parse(&bytes).unwrap()
        };
        let index = log.next_raft_index();
        log.append(&header, index, &bytes, NOW).unwrap();
    }
    log.close(None).unwrap();
}

fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn compact(folder: &Path) {
    let mut log = open(folder);
    // The last segment is active and is not compacted.
    let before = log.reader().size_bytes();
    let end = log.log_end();
    let settings = CompactionSettings {
        limits: CompactionLimits { stable: end.offset(), min_lag_ms: 0, max_lag_ms: i64::MAX, now: NOW },
        committed: HighWatermark(end.get()),
        delete_retention_ms: 86_400_000,
        io_bytes: 256 << 10,
        producers: HashMap::new(),
    };
    println!("{} KiB resident before", memory("VmRSS"));
    let started = Instant::now();
    let mut map = KeyMap::new(128 << 20, 0.9, HashSecret([1, 2]));
    let mut round = log.begin_compaction(settings).unwrap().expect("there is something to do");
    round.index(&mut map, &mut Unhurried).unwrap();
    let indexed = started.elapsed();
    while let Some(rewritten) = round.rewrite_next(&map, &mut Unhurried).unwrap() {
        let trim = log.install_compacted(rewritten, || None).unwrap().ok().expect("nothing else goes on");
        trim.run().unwrap();
        log.mark_checkpointed(trim.checkpoint());
    }
    let took = started.elapsed();
    let stats = round.stats();
    let seconds = took.as_secs_f64();
    println!(
        "{} records of {} MiB in {seconds:.2} s ({:.2} s for the keys): {:.0} records/s, {:.0} MiB/s; peak {} KiB, map {} KiB",
        stats.records_before,
        before >> 20,
        indexed.as_secs_f64(),
        stats.records_before as f64 / seconds,
        (stats.bytes_before >> 20) as f64 / seconds,
        memory("VmHWM"),
        map.bytes() >> 10,
    );
    println!("{stats:?}, dirty from {}", log.reader().first_dirty());
    drop(map);
    println!("{} KiB resident after", memory("VmRSS"));
    assert!(log.reader().first_dirty() > Offset(0));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, codec, rest @ ..] = arguments.as_slice() else {
        panic!("compact_speed FOLDER none|lz4 [RECORDS KEYS]");
    };
    let number = |at: usize, default| rest.get(at).map_or(default, |text: &String| text.parse().unwrap());
    let folder = Path::new(folder);
    if folder.exists() {
        compact(folder);
    } else {
        write(folder, codec.parse().unwrap(), number(0, 10_000_000), number(1, 1_000_000));
        println!("written; run again to compact");
    }
}
