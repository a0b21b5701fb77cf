//! Arbitrary changes to the files of a log that was not closed. Opening it must not panic. If it opens,
//! reading it to its end must not panic, and opening it again must find the same end.
//!
//! A change is four bytes: which file, where in it (two bytes), and the operation. 0 truncates the file, 1
//! removes it, 2 adds a byte at its end, and any other value is xored with the byte at that place.
//!
//! Run: `cargo +nightly fuzz run log_recovery -- -max_len=64 -rss_limit_mb=512`

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tailrace_log::{Log, LogConfig, LogError, LogStore, PartitionIdentity, RealDisk};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{
    LeaderEpoch, LogEnd, Offset, PartitionId, RaftIndex, TimestampMs, TopicId, TopicName, TopicPartition,
};

const BATCHES: i64 = 12;
const SEGMENT_BYTES: u64 = 400;
const SEGMENTS_OPEN: usize = 16;
const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

/// Names and contents of files.
type Files = Vec<(String, Vec<u8>)>;

fuzz_target!(|data: &[u8]| {
    static SOUND: OnceLock<Files> = OnceLock::new();
    let mut files = SOUND.get_or_init(|| sound_files(&folder("sound"))).clone();
    for change in data.chunks_exact(4) {
        damage(&mut files, change);
    }
    let folder = folder("damaged");
    write(&folder, &files);
    let Ok(first) = opened_end(&folder) else { return };
    assert_eq!(opened_end(&folder).expect("the log opens again"), first);
});

/// Returns a folder that only this process uses: the fuzzer may run several processes.
fn folder(name: &str) -> PathBuf {
    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    parent.join(format!("tailrace-fuzz-{}-{name}", std::process::id())).join("t-0")
}

fn open(folder: &Path) -> Result<Log<RealDisk>, LogError> {
    let topic_partition = TopicPartition::new(TopicName::new("t").expect("a legal name"), PartitionId(0));
    let identity = PartitionIdentity { topic_id: TopicId([1; 16]), topic_partition };
    let config = LogConfig { segment_bytes: SEGMENT_BYTES, preallocate_bytes: 0, ..LogConfig::default() };
    let store = LogStore::new(RealDisk, SEGMENTS_OPEN);
    Log::open(&store, folder, &identity, config, NOW).map(|(log, _)| log)
}

/// Opens a log, reads everything in it that can be read, and returns its end.
fn opened_end(folder: &Path) -> Result<LogEnd, LogError> {
    let log = open(folder)?;
    let end = log.log_end();
    let (reader, mut at) = (log.reader(), log.log_start());
    while at < end.offset() {
        match reader.read(at, end.offset(), 1 << 20, true) {
            Ok(Some(slice)) => {
                assert!(slice.next_offset > at);
                at = slice.next_offset;
            }
            Ok(None) => break,
            // The log reports damage. Skip one offset and go on.
            Err(_) => at = at.plus(1),
        }
    }
    Ok(end)
}

fn sound_files(folder: &Path) -> Files {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a writable folder");
    let mut log = open(folder).expect("an empty folder opens");
    for number in 0..BATCHES {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        builder.push(NOW, Some(b"key"), Some(&[b'x'; 40]), &[]).expect("the record fits into the batch");
        let (mut header, bytes) = builder.build_with_header();
        (header.base_offset, header.leader_epoch) = (Offset(number), LeaderEpoch(0));
        log.append(&header, RaftIndex(number.unsigned_abs() + 1), &bytes, NOW)
            .expect("the batch is appended");
        if number == BATCHES / 2 {
            log.sync().expect("the sync succeeds");
        }
    }
    drop(log);
    let names = fs::read_dir(folder)
        .expect("a readable folder")
        .map(|entry| entry.expect("a readable entry").file_name());
    let mut files: Files = names
        .map(|name| {
            let content = fs::read(folder.join(&name)).expect("a readable file");
            (name.into_string().expect("an ASCII name"), content)
        })
        .collect();
    files.sort();
    files
}

fn damage(files: &mut Files, change: &[u8]) {
    let &[which, high, low, what] = change else { return };
    if files.is_empty() {
        return;
    }
    let which = usize::from(which) % files.len();
    let content = &mut files[which].1;
    let at = usize::from(u16::from_be_bytes([high, low])) % content.len().max(1);
    match what {
        0 => content.truncate(at),
        1 => drop(files.remove(which)),
        2 => content.push(low),
        other => content.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= other),
    }
}

fn write(folder: &Path, files: &Files) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a writable folder");
    for (name, content) in files {
        fs::write(folder.join(name), content).expect("a writable file");
    }
}
