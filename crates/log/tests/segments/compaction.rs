//! Compaction on a real disk: of Kafka's segments, and with output that Kafka can read.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use tailrace_log::{
    CompactionLimits, CompactionSettings, CompactionStats, HashSecret, KeyMap, LastOfProducer, Log,
    LogConfig, LogError, LogStore, PartitionIdentity, RealDisk, Unhurried, inspect,
};
use tailrace_records::{
    ATTRIBUTES_OFFSET, BatchBuilder, BatchHeader, BatchOptions, BatchRewriter, CRC_OFFSET, Compression,
    DecodedBatch, HEADER_BYTES, LEADER_EPOCH_OFFSET, LENGTH_OFFSET, LENGTH_OVERHEAD, RawRecords,
    split_batches,
};
use tailrace_types::{
    HighWatermark, LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, RaftIndex, TimestampMs,
    TopicId, TopicName, TopicPartition,
};

const NOW: i64 = 1_800_000_000_000;

fn identity(name: &str) -> PartitionIdentity {
    PartitionIdentity {
        topic_id: TopicId([1; 16]),
        topic_partition: TopicPartition::new(TopicName::new(name).unwrap(), PartitionId(0)),
    }
}

fn settings(
    log: &Log<RealDisk>,
    now: i64,
    producers: HashMap<ProducerId, LastOfProducer>,
) -> CompactionSettings {
    let end = log.log_end();
    CompactionSettings {
        limits: CompactionLimits {
            stable: end.offset(),
            min_lag_ms: 0,
            max_lag_ms: i64::MAX,
            now: TimestampMs(now),
        },
        committed: HighWatermark(end.get()),
        delete_retention_ms: 1000,
        io_bytes: 4096,
        producers,
    }
}

fn clean(
    log: &mut Log<RealDisk>,
    now: i64,
    producers: HashMap<ProducerId, LastOfProducer>,
) -> CompactionStats {
    let settings = settings(log, now, producers);
    let mut map = KeyMap::new(1 << 20, 0.9, HashSecret([5, 6]));
    let mut round = log.begin_compaction(settings).unwrap().expect("something to do");
    round.index(&mut map, &mut Unhurried).unwrap();
    while let Some(rewritten) = round.rewrite_next(&map, &mut Unhurried).unwrap() {
        let trim = log.install_compacted(rewritten, || None).unwrap().ok().unwrap();
        trim.run().unwrap();
        log.mark_checkpointed(trim.checkpoint());
    }
    round.stats()
}

type Content = BTreeMap<Vec<u8>, (i64, Option<Vec<u8>>)>;

/// Returns the last record of each key, and the number of records.
fn content(log: &Log<RealDisk>) -> (Content, usize) {
    let (reader, end) = (log.reader(), log.log_end().offset());
    let (mut next, mut content, mut records) = (log.log_start(), Content::new(), 0);
    while let Some(slice) = reader.read(next, end, 1 << 20, true).unwrap() {
        for split in split_batches(&slice.read().unwrap()) {
            let (header, bytes) = split.unwrap();
            let batch = DecodedBatch::new(bytes, 1 << 20).unwrap();
            for record in batch.records().map(Result::unwrap).filter(|_| !header.attributes.is_control()) {
                records += 1;
                let key = record.key.map(<[u8]>::to_vec).unwrap_or_default();
                content.insert(key, (record.offset.0, record.value.map(<[u8]>::to_vec)));
            }
        }
        next = slice.next_offset;
    }
    assert_eq!(next, end);
    (content, records)
}

#[test]
fn segments_that_kafka_wrote_are_compacted() {
    for name in ["plain-0", "compacted-0"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kafka-4.3.1").join(name);
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(fixture).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
        }
        let store = LogStore::new(RealDisk, 16);
        let identity = identity(name.strip_suffix("-0").unwrap());
        let config = LogConfig::default();
        let (mut log, _) =
            Log::open(&store, dir.path(), &identity, config.clone(), TimestampMs(NOW)).unwrap();
        let (before, records) = content(&log);
        let stats = clean(&mut log, NOW, HashMap::new());
        let (after, left) = content(&log);
        // Kafka had already compacted the other one, so nothing was left to remove.
        assert!(stats.keys > 0 && (left < records) == (name == "plain-0"), "{left} of {records}, {stats:?}");
        // The active segment is unchanged, and records without a key are gone from the rest.
        for (key, record) in before.iter().filter(|(key, _)| !key.is_empty()) {
            assert_eq!(after.get(key), Some(record), "{name}");
        }
        log.close(None).unwrap();
        assert!(inspect::verify_dir(&RealDisk, dir.path()).unwrap().is_sound());
        let (log, recovery) = Log::open(&store, dir.path(), &identity, config, TimestampMs(NOW)).unwrap();
        assert!(recovery.clean, "{recovery:?}");
        assert_eq!(content(&log), (after, left));
    }
}

/// A log with every codec, tombstones, sequences, transactions and repeated keys.
struct Writer {
    log: Log<RealDisk>,
    last_data: HashMap<ProducerId, LastOfProducer>,
    sequence: i32,
}

impl Writer {
    /// Appends a batch as it is.
    fn put(&mut self, bytes: &[u8], time: i64) -> BatchHeader {
        let header = BatchHeader {
            base_offset: self.log.log_end().offset(),
            leader_epoch: LeaderEpoch(1),
            ..BatchHeader::parse(bytes).unwrap()
        };
        let index: RaftIndex = self.log.next_raft_index();
        self.log.append(&header, index, bytes, TimestampMs(time)).unwrap();
        header
    }

    fn append(&mut self, options: BatchOptions, records: &[(&str, Option<&str>)], time: i64) {
        let mut builder = BatchBuilder::new(options);
        for (key, value) in records {
            builder
                .push(TimestampMs(time), Some(key.as_bytes()), value.map(str::as_bytes), &[(b"h", None)])
                .unwrap();
        }
        let header = self.put(&builder.build(), time);
        if header.has_producer_id() && !header.attributes.is_control() {
            let last_data_offset = Some(header.last_offset());
            let last = LastOfProducer { last_data_offset, epoch: header.producer_epoch };
            self.last_data.insert(header.producer_id, last);
        }
    }

    fn write(&mut self, rounds: std::ops::Range<i64>) {
        for round in rounds {
            let compression = Compression::ALL[round as usize % 5];
            let keys: Vec<String> = (0..10).map(|n| format!("key-{}", (round * 3 + n) % 25)).collect();
            let value = format!("value-{round}").repeat(8);
            let records: Vec<_> = keys
                .iter()
                .enumerate()
                .map(|(n, key)| (key.as_str(), (n % 5 != 4).then_some(value.as_str())))
                .collect();
            let log_append_time = (round % 7 == 0).then_some(TimestampMs(NOW + round));
            let plain = BatchOptions { compression, log_append_time, ..BatchOptions::default() };
            let mine = BatchOptions {
                producer_id: ProducerId(5 + round % 2),
                producer_epoch: ProducerEpoch(0),
                base_sequence: self.sequence,
                transactional: round % 2 == 1,
                ..plain
            };
            self.append(plain, &records, NOW + round);
            self.append(mine, &records[2..], NOW + round);
            self.sequence += 8;
            if round % 2 == 1 {
                self.end(round % 4 == 1, NOW + round);
            }
        }
    }

    fn end(&mut self, commit: bool, time: i64) {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(6),
            producer_epoch: ProducerEpoch(0),
            transactional: true,
            control: true,
            ..BatchOptions::default()
        });
        builder
            .push(TimestampMs(time), Some(&[0, 0, 0, u8::from(commit)]), Some(&[0, 0, 0, 0, 0, 1]), &[])
            .unwrap();
        self.put(&builder.build(), time);
    }
}

/// A reader gets no batches without records, except at the end, to get past them.
#[test]
fn what_compaction_has_emptied_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let config = LogConfig { segment_bytes: 400, preallocate_bytes: 0, ..LogConfig::default() };
    let store = LogStore::new(RealDisk, 16);
    let (log, _) = Log::open(&store, dir.path(), &identity("t"), config, TimestampMs(NOW)).unwrap();
    let mut writer = Writer { log, last_data: HashMap::new(), sequence: 0 };
    let value = "value".repeat(20);
    for number in 0..30 {
        // The keys of the first batch come again in the last. Those in the middle do not.
        let key = if number == 15 { "once" } else { "again" };
        writer.append(BatchOptions::default(), &[(key, Some(&value))], NOW + number);
    }
    clean(&mut writer.log, NOW + 100, HashMap::new());
    let reader = writer.log.reader();
    let rows: Vec<_> = reader.headers(Offset(0)).map(|found| found.unwrap().1).collect();
    let empty = |upto| rows.iter().filter(|h| h.base_offset < Offset(upto) && h.record_count == 0).count();
    assert!(empty(15) > 3, "{rows:?}");
    let next_with_records = |from: i64| rows.iter().find(|h| h.record_count > 0 && h.base_offset.0 >= from);
    for from in 0..30 {
        let wanted = next_with_records(from).unwrap().base_offset;
        for (bytes_max, at_least_one) in [(1 << 20, false), (0, true)] {
            let slice = reader.read(Offset(from), Offset(30), bytes_max, at_least_one).unwrap().unwrap();
            assert_eq!(slice.base_offset, wanted, "from {from}");
        }
        // If only empty batches are left they are returned, so that the reader can advance. Nothing beyond a
        // limit is ever returned.
        let end = wanted.0;
        for upto in from + 1..=end {
            let slice = reader.read(Offset(from), Offset(upto), 1 << 20, true).unwrap();
            let is_there = rows.iter().any(|h| h.last_offset().0 >= from && h.last_offset().0 < upto);
            assert_eq!(slice.is_some(), is_there, "{from}..{upto}");
            assert!(slice.is_none_or(|slice| slice.next_offset.0 > from && slice.next_offset.0 <= upto));
        }
        let none = reader.read(Offset(from), Offset(30), 0, false).unwrap();
        assert!(none.is_none(), "{none:?}");
    }
}

/// A batch of one record with the given compressed body.
fn with_body(compression: Compression, body: &[u8], time: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(TimestampMs(time), None, None, &[]).unwrap();
    let mut bytes = [&builder.build()[..HEADER_BYTES], body].concat();
    bytes[ATTRIBUTES_OFFSET + 1] = compression.id();
    let length = (bytes.len() - LENGTH_OVERHEAD) as i32;
    bytes[LENGTH_OFFSET..LEADER_EPOCH_OFFSET].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[ATTRIBUTES_OFFSET..]);
    bytes[CRC_OFFSET..ATTRIBUTES_OFFSET].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// A record with a value of `mib` MiB, as a zstd frame of blocks that repeat one byte (RFC 8878, 3.1.1.2):
/// four bytes for 128 KiB.
fn zstd_record(key: &[u8], mib: usize) -> Vec<u8> {
    const BLOCK_BYTES: usize = 128 << 10;
    let header = |size: usize, kind: usize, last: usize| {
        let header = ((size << 3) | (kind << 1) | last).to_le_bytes();
        [header[0], header[1], header[2]]
    };
    let value_bytes = mib << 20;
    let inner = [&[0u8, 0, 0][..], &varint(key.len()), key, &varint(value_bytes)].concat();
    let before = [varint(inner.len() + value_bytes + 1), inner].concat();
    let repeated = [&header(BLOCK_BYTES, 1, 0)[..], b"v"].concat().repeat(value_bytes / BLOCK_BYTES);
    // No sizes, a window of 128 KiB.
    let start = [&0xFD2F_B528_u32.to_le_bytes()[..], &[0, 7 << 3]].concat();
    [&start[..], &header(before.len(), 0, 0), &before, &repeated, &header(1, 0, 1), &[0]].concat()
}

/// Encodes a length as in a record.
fn varint(number: usize) -> Vec<u8> {
    let (mut rest, mut out) = (number << 1, Vec::new());
    while rest > 0x7f {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}

/// A log with one segment for each of these: a batch of the keys `small` and `other`, the given batch,
/// `small` again, and the active segment.
fn with_batch_between(dir: &Path, bytes: &[u8]) -> Log<RealDisk> {
    let config = LogConfig { segment_bytes: 1000, preallocate_bytes: 0, ..LogConfig::default() };
    let store = LogStore::new(RealDisk, 16);
    let (log, _) = Log::open(&store, dir, &identity("t"), config, TimestampMs(NOW)).unwrap();
    let mut writer = Writer { log, last_data: HashMap::new(), sequence: 0 };
    let filler = "filler".repeat(200);
    writer.append(BatchOptions::default(), &[("small", Some("1")), ("other", Some("1"))], NOW);
    writer.put(bytes, NOW + 1);
    writer.append(BatchOptions::default(), &[("small", Some("2"))], NOW + 2);
    writer.append(BatchOptions::default(), &[("filler", Some(&filler))], NOW + 3);
    assert_eq!(writer.log.reader().segment_count(), 4);
    writer.log
}

fn record_counts(log: &Log<RealDisk>) -> Vec<i32> {
    log.reader().headers(Offset(0)).map(|found| found.unwrap().1.record_count).collect()
}

/// `tailrace.decompressed.bytes.max` can be set to accept this many bytes.
#[test]
fn a_batch_that_expands_to_more_than_256_mib_is_compacted_and_looked_into() {
    let dir = tempfile::tempdir().unwrap();
    let large = with_body(Compression::Zstd, &zstd_record(b"other", 257), NOW + 1);
    let mut log = with_batch_between(dir.path(), &large);
    let stats = clean(&mut log, NOW + 100, HashMap::new());
    assert_eq!((stats.keys, stats.records_before, stats.records_after), (2, 4, 2));
    assert_eq!(record_counts(&log), [0, 1, 1, 1]);
    let found = log.reader().offset_for_time(TimestampMs(NOW + 1), log.log_end().offset()).unwrap();
    assert_eq!(found, Some((Offset(2), TimestampMs(NOW + 1), LeaderEpoch(1))));
    assert_eq!(log.reader().damaged(), []);
}

/// No setting accepts such a batch, but a folder from elsewhere may have one.
#[test]
fn a_batch_that_expands_to_more_than_any_setting_allows_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    // One block that claims 2 GiB, and is long enough for that claim.
    let mut body = vec![0u8; 98 << 20];
    body[..5].copy_from_slice(&[0x80, 0x80, 0x80, 0x80, 8]);
    let mut log = with_batch_between(dir.path(), &with_body(Compression::Snappy, &body, NOW + 1));
    let settings = settings(&log, NOW + 100, HashMap::new());
    let mut map = KeyMap::new(1 << 20, 0.9, HashSecret([5, 6]));
    let mut round = log.begin_compaction(settings).unwrap().unwrap();
    let error = round.index(&mut map, &mut Unhurried).unwrap_err();
    assert!(matches!(error, LogError::ExpandsTooLarge { position: 0, .. }), "{error}");
    assert_eq!(record_counts(&log), [2, 1, 1, 1]);
    // The answer is its first offset, which is that of its only record.
    let found = log.reader().offset_for_time(TimestampMs(NOW + 1), log.log_end().offset()).unwrap();
    assert_eq!(found, Some((Offset(2), TimestampMs(NOW + 1), LeaderEpoch(1))));
    assert_eq!(log.reader().damaged(), []);
}

/// The key map keeps 32 bits of offsets relative to the first one. A round ends before a batch beyond that.
#[test]
fn a_round_ends_where_offsets_are_too_far_apart_and_the_next_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = LogStore::new(RealDisk, 16);
    let (mut log, _) =
        Log::open(&store, dir.path(), &identity("far"), LogConfig::default(), TimestampMs(NOW)).unwrap();
    let mut rewriter = BatchRewriter::default();
    for keys in [&["a", "b"][..], &["c"], &["a", "d"], &["c", "e"], &["f"]] {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        for key in keys {
            builder.push(TimestampMs(NOW), Some(key.as_bytes()), Some(b"value"), &[]).unwrap();
        }
        let bytes = builder.build();
        // One record or two, and 2^31 offsets, as in a log that was compacted elsewhere.
        let header = BatchHeader {
            base_offset: log.log_end().offset(),
            leader_epoch: LeaderEpoch(1),
            last_offset_delta: i32::MAX,
            ..BatchHeader::parse(&bytes).unwrap()
        };
        rewriter.begin(&header, None);
        for record in RawRecords::new(header.record_count, &bytes[HEADER_BYTES..]) {
            rewriter.push(&record.unwrap());
        }
        let mut sparse = Vec::new();
        let header = rewriter.finish(&mut sparse).unwrap();
        let index = log.next_raft_index();
        log.append(&header, index, &sparse, TimestampMs(NOW)).unwrap();
    }
    let (before, records) = content(&log);
    assert_eq!(records, 8);

    // The third batch starts 2^32 offsets after the first.
    let stats = clean(&mut log, NOW, HashMap::new());
    assert_eq!((stats.keys, log.reader().first_dirty()), (3, Offset(1 << 32)));
    assert_eq!(content(&log), (before.clone(), 8));

    let stats = clean(&mut log, NOW, HashMap::new());
    assert_eq!((stats.keys, log.reader().first_dirty()), (4, Offset(1 << 33)));
    assert_eq!(content(&log), (before, 6));
    log.close(None).unwrap();
    assert!(inspect::verify_dir(&RealDisk, dir.path()).unwrap().is_sound());
}

#[test]
fn what_compaction_writes_is_what_kafka_reads() {
    let dir = tempfile::tempdir().unwrap();
    let config = LogConfig { segment_bytes: 6000, preallocate_bytes: 0, ..LogConfig::default() };
    let store = LogStore::new(RealDisk, 16);
    let (log, _) = Log::open(&store, dir.path(), &identity("t"), config, TimestampMs(NOW)).unwrap();
    let mut writer = Writer { log, last_data: HashMap::new(), sequence: 0 };
    let mut horizons = 0;
    for round in 0..4 {
        writer.write(round * 30..(round + 1) * 30);
        clean(&mut writer.log, NOW + round * 700, writer.last_data.clone());
        let reader = writer.log.reader();
        let headers: Vec<_> = reader.headers(Offset(0)).map(|found| found.unwrap().1).collect();
        horizons += headers.iter().filter(|h| h.attributes.has_delete_horizon()).count();
        assert!(headers.iter().any(|h| h.record_count == 0), "an empty batch stays");
        assert!(inspect::verify_dir(&RealDisk, dir.path()).unwrap().is_sound());
        dump(dir.path());
    }
    assert!(horizons > 0);
}

/// If `TAILRACE_KAFKA_LIBS` is set to the folder of Kafka's jars, as in `.ci/run full`, Kafka's
/// DumpLogSegments reads what was written.
fn dump(dir: &Path) {
    let Some(libs) = std::env::var_os("TAILRACE_KAFKA_LIBS") else { return };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    assert!(files.iter().any(|path| path.to_string_lossy().ends_with(".1.log") || files.len() > 1));
    let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
    let output = Command::new("java")
        .arg("-cp")
        .arg(Path::new(&libs).join("*"))
        .args(["org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files"])
        .arg(names.join(","))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    for complaint in ["isvalid: false", "Found", "invalid", "Exception", "non-consecutive"] {
        assert!(!text.contains(complaint) && !errors.contains(complaint), "{complaint}: {text}{errors}");
    }
    let batches = text.lines().filter(|line| line.starts_with("baseOffset:")).count();
    let wanted: usize =
        inspect::dump_dir(&RealDisk, dir).unwrap().filter(|batch| batch.as_ref().is_ok()).count();
    assert_eq!(batches, wanted, "{text}");
}
