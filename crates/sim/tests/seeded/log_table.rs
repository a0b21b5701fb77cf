//! Damage to every kind of file of one log in every state: what is served, what is reported, and when the log
//! is whole again. The table in docs/guarantees.md, "Damage, file by file", is a short form of this one.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tailrace_log::{
    CompactionLimits, CompactionSettings, Disk, DiskFile, HashSecret, KeyMap, LogError, OpenMode, Overlay,
    PRODUCERS, RepairOptions, Sections, Unhurried, inspect, repair_dir,
};
use tailrace_sim::{CrashMode, Effect, Rule, SimDisk};
use tailrace_types::{HighWatermark, LeaderEpoch, Offset, TimestampMs};

use crate::common::damage::{copy, scrub_segments, served};
use crate::common::{self, SimLog, append, batch, dir, open, read_all, small_segments};

/// The kinds of files. The fixture's compacted segment starts at 0, the sealed one at 30, the active one at
/// 60.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    CompactedLog,
    CompactedIndex,
    CompactedHeader,
    SealedLog,
    SealedIndex,
    SealedHeader,
    ActiveLog,
    ActiveIndex,
    ActiveHeader,
    Snapshot,
    Checkpoint,
    Entries,
    Identity,
    /// The file of known damage. In these rows, one batch of the sealed segment is damaged.
    Damage,
}
use File::{
    ActiveHeader, ActiveIndex, ActiveLog, Checkpoint, CompactedHeader, CompactedIndex, CompactedLog, Damage,
    Entries, Identity, SealedHeader, SealedIndex, SealedLog, Snapshot,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Flips one bit, at this percentage of the file's length.
    Flip(usize),
    /// Cuts ten bytes off the end.
    Cut,
    Empty,
    Missing,
}
use Change::{Cut, Empty, Flip, Missing};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A clean stop.
    Stopped,
    /// A kill: the last checkpoint ends at 33, everything up to 69 is synced, and two batches behind it are
    /// not.
    Killed,
    /// The log is open, and scrubbed after the damage.
    Running,
}
use State::{Killed, Running, Stopped};

/// The result of `log verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verify {
    Sound,
    /// Problems that the next start repairs.
    Notes,
    Damaged,
}

/// The end of the log, and the end of what was synced before the kill.
const ALL: i64 = 75;
const SYNCED: i64 = 69;

/// Columns: the file; the changes; after a clean stop, after a kill, while running. A cell of a stopped log
/// starts with the result of `log verify` (`sound`; `notes`: the next start repairs it; `damaged`) and that
/// of the start (`silent`: the start does not read the file; `notes`; `damaged`: reported, and the rest
/// served; `refused`). Then it says whether a scrub finds the damage, and what is served.
///
/// In every cell, the same is known after one more restart, new records get new offsets, and `log repair`
/// with a copy brings every record back and leaves a sound log.
const TABLE: &str = "
    compacted.log    | flip0                   | damaged silent found but 0-2    | damaged silent found but 0-2          | found but 0-2
    compacted.log    | flip50                  | damaged silent found but 15-17  | damaged silent found but 15-17        | found but 15-17
    compacted.log    | flip99                  | damaged silent found but 27-29  | damaged silent found but 27-29        | found but 27-29
    compacted.log    | cut                     | damaged damaged found but 27-29 | damaged damaged found but 27-29       | found but 27-29
    compacted.log    | empty,missing           | damaged damaged found but 0-29  | damaged damaged found but 0-29        | found but 0-29
    compacted.index  | flip0                   | notes silent found all          | notes silent found all                | found all
    compacted.index  | flip50,flip99           | damaged silent found all        | damaged silent found all              | found all
    compacted.index  | cut,empty,missing       | notes silent found all          | notes silent found all                | found all
    compacted.header | flips,cut,empty,missing | damaged silent found all        | damaged silent found all              | found all
    sealed.log       | flip0                   | damaged silent found but 30-32  | damaged silent found but 30-32        | found but 30-32
    sealed.log       | flip50                  | damaged silent found but 45-47  | damaged damaged found but 45-47       | found but 45-47
    sealed.log       | flip99                  | damaged silent found but 57-59  | damaged damaged found but 57-59       | found but 57-59
    sealed.log       | cut                     | damaged damaged found but 57-59 | damaged damaged found but 57-59       | found but 57-59
    sealed.log       | empty,missing           | damaged damaged found but 30-59 | damaged damaged found but 30-59       | found but 30-59
    sealed.index     | flip0                   | notes silent found all          | notes silent - all                    | found all
    sealed.index     | flip50,flip99           | damaged silent found all        | sound silent - all                    | found all
    sealed.index     | cut                     | notes silent found all          | sound silent - all                    | found all
    sealed.index     | empty,missing           | notes silent found all          | notes silent - all                    | found all
    sealed.header    | flips,cut,empty,missing | damaged silent found all        | damaged silent found all              | found all
    active.log       | flip0                   | damaged silent found but 60-62  | damaged damaged found but 60-62       | found but 60-62
    active.log       | flip50                  | damaged silent found but 66-68  | damaged damaged found but 66-68       | found but 66-68
    active.log       | flip99                  | damaged silent found but 72-74  | notes notes - all to 72               | found but 72-74
    active.log       | cut                     | damaged damaged found but 72-74 | notes notes - all to 72               | found but 72-74
    active.log       | empty,missing           | damaged damaged found but 60-74 | damaged damaged found but 60-68 to 69 | found but 60-74
    active.index     | flip0                   | notes silent found all          | sound silent - all                    | found all
    active.index     | flip50,flip99           | damaged silent found all        | sound silent - all                    | found all
    active.index     | cut,empty,missing       | notes silent found all          | sound silent - all                    | found all
    active.header    | flips,cut,empty,missing | damaged silent found all        | sound silent - all                    | found all
    snapshot         | flips,cut,empty         | damaged notes found all         | damaged notes found all               | found all
    snapshot         | missing                 | sound silent - all              | sound silent - all                    | found all
    checkpoint       | flips,cut,empty         | damaged notes - all             | damaged notes - all                   | found all
    checkpoint       | missing                 | notes notes - all               | notes notes - all                     | found all
    entries          | flip0                   | damaged refused                 | damaged refused                       | found all
    entries          | flip50,flip99,cut       | notes notes - all               | damaged refused                       | found all
    entries          | empty,missing           | sound silent - all              | damaged refused                       | found all
    partition.meta   | flips,cut,empty         | damaged notes - all             | damaged notes - all                   | found all
    partition.meta   | missing                 | notes notes - all               | notes notes - all                     | found all
    damage           | flips,cut,empty         | damaged notes - but 45-47       | damaged notes - but 45-47             | found but 45-47
    damage           | missing                 | damaged silent - but 45-47      | damaged silent - but 45-47            | found but 45-47
";

fn name_of(disk: &SimDisk, file: File) -> String {
    let names: Vec<_> = disk.read_dir(&dir()).unwrap().into_iter().map(|entry| entry.name).collect();
    let newest = |end: &str| names.iter().filter(|name| name.ends_with(end)).max().unwrap().clone();
    match file {
        CompactedLog => "00000000000000000000.1.log".to_owned(),
        CompactedIndex => "00000000000000000000.1.index".to_owned(),
        CompactedHeader => "00000000000000000000.1.header".to_owned(),
        SealedLog => "00000000000000000030.log".to_owned(),
        SealedIndex => "00000000000000000030.index".to_owned(),
        SealedHeader => "00000000000000000030.header".to_owned(),
        ActiveLog => "00000000000000000060.log".to_owned(),
        ActiveIndex => "00000000000000000060.index".to_owned(),
        ActiveHeader => "00000000000000000060.header".to_owned(),
        Snapshot => newest(".snapshot"),
        Checkpoint => "checkpoint".to_owned(),
        Entries => "entries".to_owned(),
        Identity => "partition.meta".to_owned(),
        Damage => "damage".to_owned(),
    }
}

fn apply(disk: &SimDisk, path: &Path, change: Change) {
    let before = disk.content(path).unwrap_or_else(|| panic!("{} does not exist", path.display()));
    match change {
        Flip(percent) => disk.damage(path, |bytes| {
            let at = (bytes.len() * percent / 100).min(bytes.len() - 1);
            bytes[at] ^= 0x10;
        }),
        Cut => disk.damage(path, |bytes| bytes.truncate(bytes.len() - 10)),
        Empty => disk.damage(path, Vec::clear),
        Missing => {
            disk.remove_file(path).unwrap();
            disk.sync_dir(&dir()).unwrap();
        }
    }
    assert_ne!(disk.content(path), Some(before));
}

fn compact(log: &mut SimLog) {
    let settings = CompactionSettings {
        limits: CompactionLimits {
            stable: log.log_end().offset(),
            min_lag_ms: 0,
            max_lag_ms: i64::MAX,
            now: common::NOW,
        },
        committed: HighWatermark(log.log_end().offset().0),
        delete_retention_ms: 1000,
        io_bytes: 1500,
        producers: HashMap::default(),
    };
    let mut map = KeyMap::new(1 << 16, 0.9, HashSecret([1, 2]));
    let mut round = log.begin_compaction(settings).unwrap().unwrap();
    round.index(&mut map, &mut Unhurried).unwrap();
    while let Some(rewritten) = round.rewrite_next(&map, &mut Unhurried).unwrap() {
        let trim = log.install_compacted(rewritten, || None).unwrap();
        let trim = trim.unwrap_or_else(|_| panic!("its segments still exist"));
        trim.run().unwrap();
        log.mark_checkpointed(trim.checkpoint());
    }
}

/// Returns a log in `state`, and a copy of its folder: ten compacted batches of three records, ten in a
/// sealed segment with an entry without records before the last of them, and five in the active segment,
/// three of which are known to be synced. With `rot`, offsets 45 to 47 are damaged and known to be. The copy
/// has them.
fn fixture(state: State, rot: bool) -> (SimDisk, PathBuf, Option<SimLog>) {
    let disk = common::disk(1);
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    for number in 0..25 {
        if number == 19 {
            log.append_entry(log.next_raft_index(), LeaderEpoch(2), b"leader").unwrap();
        }
        if number == 23 {
            log.sync().unwrap();
        }
        append(&mut log, &keyed(number)).unwrap();
        if number == 10 {
            compact(&mut log);
            log.checkpoint(sections()).unwrap();
        }
    }
    match state {
        Killed => {}
        Running => drop(log.checkpoint(sections()).unwrap()),
        Stopped => {
            log.close(sections()).unwrap();
            log = open(&disk, &small_segments()).unwrap().0;
        }
    }
    let copied = copy(&disk);
    if rot {
        apply(&disk, &dir().join("00000000000000000030.log"), Flip(50));
        assert_eq!(scrub_segments(&mut log).len(), 1);
        log.reader().save_damage().unwrap();
    }
    match state {
        Running => (disk, copied, Some(log)),
        Stopped => {
            log.close(sections()).unwrap();
            (disk, copied, None)
        }
        Killed => (disk.crash(CrashMode::KeepAll), copied, None),
    }
}

fn sections() -> Option<Sections> {
    Some(Sections::of(PRODUCERS, 1, &b"producers"[..]).with("subjects", 1, &b"subjects"[..]))
}

/// Builds a batch whose keys occur once, so that compaction keeps them, except for one key that is in every
/// batch.
fn keyed(number: u8) -> Bytes {
    use tailrace_records::{BatchBuilder, BatchOptions};
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for (record, key) in [format!("a{number}"), format!("b{number}"), "again".to_owned()].iter().enumerate() {
        let at = TimestampMs(1000 + i64::from(number) * 3 + record as i64);
        builder.push(at, Some(key.as_bytes()), Some(&[number; 100]), &[]).unwrap();
    }
    builder.build()
}

fn scrub(log: &mut SimLog) -> Vec<String> {
    let mut found = scrub_segments(log);
    found.extend(log.scrub_files(sections()).unwrap());
    let name = |damage: tailrace_log::Damage| damage.file.file_name().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<_> = found.into_iter().map(name).collect();
    names.dedup();
    names
}

fn verify(disk: &SimDisk) -> Verify {
    let report = inspect::verify_dir(disk, &dir()).unwrap();
    match (report.is_sound(), report.all_problems().count()) {
        (false, _) => Verify::Damaged,
        (true, 0) => Verify::Sound,
        (true, _) => Verify::Notes,
    }
}

/// Returns all batches, by offset.
fn content(log: &SimLog, upto: i64) -> Vec<u8> {
    let mut bytes = read_all(log, Offset(0)).unwrap();
    let mut kept = 0;
    for item in tailrace_records::split_batches(&bytes) {
        let (header, batch) = item.unwrap();
        if header.base_offset.0 < upto {
            kept += batch.len();
        }
    }
    bytes.truncate(kept);
    bytes
}

/// Returns what is not served, as ranges of offsets.
fn lost(log: &SimLog) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for base in served(log).1 {
        let range = log.reader().damaged().into_iter().find(|range| range.holds(Offset(base))).unwrap();
        match ranges.last_mut() {
            Some(last) if last.1 + 1 == base => last.1 = range.end_offset.0 - 1,
            _ => ranges.push((base, range.end_offset.0 - 1)),
        }
    }
    let ranges: Vec<_> = ranges.iter().map(|(from, last)| format!("{from}-{last}")).collect();
    if ranges.is_empty() { "all".to_owned() } else { format!("but {}", ranges.join(",")) }
}

/// Returns what verify and a start report, what a scrub finds, and what is then served. `None` if the log
/// does not open.
fn look(disk: &SimDisk, running: Option<SimLog>, name: &str) -> (Vec<String>, Option<SimLog>) {
    let mut said = Vec::new();
    let mut log = match running {
        Some(log) => log,
        None => {
            said.push(format!("{:?}", verify(disk)).to_lowercase());
            let (log, recovery) = match open(disk, &small_segments()) {
                Ok(opened) => opened,
                Err(LogError::Damaged { .. }) => {
                    said.push("refused".to_owned());
                    return (said, None);
                }
                Err(error) => panic!("{error}"),
            };
            let is_noted = !recovery.notes.is_empty() || recovery.truncated.is_some();
            let is_damaged = recovery.damaged.iter().any(|range| range.damage.file.ends_with(name));
            said.push(
                if is_damaged {
                    "damaged"
                } else if is_noted {
                    "notes"
                } else {
                    "silent"
                }
                .to_owned(),
            );
            log
        }
    };
    let found = scrub(&mut log);
    said.push(if found.iter().any(|found| found == name) { "found" } else { "-" }.to_owned());
    said.push(lost(&log));
    let end = log.log_end().offset().0;
    if end != ALL {
        said.push(format!("to {end}"));
    }
    (said, Some(log))
}

/// Plays one cell and returns its text. Asserts what must hold in every cell.
fn play(file: File, change: Change, state: State) -> String {
    let (disk, copied, running) = fixture(state, file == Damage);
    let expected = {
        let undamaged = disk.crash(CrashMode::KeepAll);
        let options = RepairOptions { sources: vec![copied.clone()], give_up: false };
        repair_dir(&undamaged, &dir(), &options).unwrap();
        content(&open(&undamaged, &small_segments()).unwrap().0, i64::MAX)
    };
    let name = name_of(&disk, file);
    apply(&disk, &dir().join(&name), change);
    let (said, log) = look(&disk, running, &name);
    let mut appended = 0;
    if let Some(mut log) = log {
        let (before, end) = (lost(&log), log.log_end().offset().0);
        assert_eq!(log.reader().recheck_damage(), 0, "no damaged batch became readable");
        assert!(end >= if state == Killed { SYNCED } else { ALL }, "durable offsets would be assigned again");
        append(&mut log, &batch(1, 10, 0, 0)).unwrap();
        appended = 1;
        log.close(None).unwrap();
        let (log, recovery) = open(&disk, &small_segments()).unwrap();
        assert_eq!(log.log_end().offset().0, end + 1, "no offset is assigned twice");
        assert_eq!(lost(&log), before, "known after a restart without a scrub");
        assert_eq!(before == "all", recovery.damaged.is_empty());
        log.close(None).unwrap();
    }
    let options = RepairOptions { sources: vec![copied], give_up: false };
    let plan = repair_dir(&Overlay::new(disk.clone(), 1 << 20), &dir(), &options).unwrap();
    let done = repair_dir(&disk, &dir(), &options).unwrap();
    assert_eq!(plan, done, "the repair follows its plan");
    let (mut log, recovery) = open(&disk, &small_segments()).unwrap();
    assert_eq!((recovery.damaged, lost(&log)), (Vec::new(), "all".to_owned()));
    assert_eq!(scrub(&mut log), Vec::<String>::new());
    let end = log.log_end().offset().0 - appended;
    let whole = content(&log, end);
    assert!(expected.starts_with(&whole), "the records are the original ones");
    if end == ALL {
        assert_eq!(expected.len(), whole.len());
    }
    log.close(None).unwrap();
    assert_eq!(verify(&disk), Verify::Sound);
    said.join(" ")
}

fn files() -> HashMap<&'static str, File> {
    let names = [
        ("compacted.log", CompactedLog),
        ("compacted.index", CompactedIndex),
        ("compacted.header", CompactedHeader),
        ("sealed.log", SealedLog),
        ("sealed.index", SealedIndex),
        ("sealed.header", SealedHeader),
        ("active.log", ActiveLog),
        ("active.index", ActiveIndex),
        ("active.header", ActiveHeader),
        ("snapshot", Snapshot),
        ("checkpoint", Checkpoint),
        ("entries", Entries),
        ("partition.meta", Identity),
        ("damage", Damage),
    ];
    names.into_iter().collect()
}

/// Parses the changes of a row. `flips` stands for all three flips.
fn changes(text: &str) -> Vec<Change> {
    let one = |word: &str| match word {
        "flip0" => vec![Flip(0)],
        "flip50" => vec![Flip(50)],
        "flip99" => vec![Flip(99)],
        "flips" => vec![Flip(0), Flip(50), Flip(99)],
        "cut" => vec![Cut],
        "empty" => vec![Empty],
        "missing" => vec![Missing],
        other => panic!("{other}?"),
    };
    text.split(',').flat_map(one).collect()
}

#[test]
fn damage_to_every_kind_of_file_of_a_log() {
    let (files, mut cells, mut wrong) = (files(), 0, Vec::new());
    for row in TABLE.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let columns: Vec<_> = row.split('|').map(str::trim).collect();
        let [file, what, stopped, killed, running] = columns[..] else { panic!("{row}") };
        for change in changes(what) {
            for (state, expected) in [(Stopped, stopped), (Killed, killed), (Running, running)] {
                let (file_of, cell) = (files[file], format!("{file}, {change:?}, {state:?}"));
                let found = catch_unwind(|| play(file_of, change, state))
                    .unwrap_or_else(|_| format!("the cell {cell} has panicked"));
                if found != expected {
                    wrong.push(format!("{cell}: expected `{expected}`, found `{found}`"));
                }
                cells += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(cells, files.len() * 6 * 3, "every cell has a row");
}

/// The server has the old file open.
#[test]
fn a_file_that_is_put_back_under_its_name_is_served() {
    for change in [Flip(50), Empty, Missing] {
        let (disk, copied, log) = fixture(Running, false);
        let (mut log, name) = (log.unwrap(), name_of(&disk, SealedLog));
        let path = dir().join(&name);
        apply(&disk, &path, change);
        assert!(!scrub(&mut log).is_empty() && lost(&log) != "all");
        if change != Missing {
            disk.remove_file(&path).unwrap();
        }
        let whole = disk.content(&copied.join(&name)).unwrap();
        let file = disk.open(&path, OpenMode::Truncate).unwrap();
        file.write_all_at(&[std::io::IoSlice::new(&whole)], 0).unwrap();
        assert!(log.reader().recheck_damage() > 0);
        assert_eq!(lost(&log), "all");
        assert!(read_all(&log, Offset(0)).is_ok());
        assert_eq!(scrub(&mut log), Vec::<String>::new());
    }
}

/// A crash before the first checkpoint leaves a log that starts at 0. A log that starts later has had a
/// checkpoint.
#[test]
fn a_missing_checkpoint_of_a_log_whose_beginning_was_removed_costs_no_record() {
    let disk = common::disk(1);
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    for number in 0..25 {
        append(&mut log, &keyed(number)).unwrap();
        log.sync().unwrap();
    }
    let trim = log.advance_log_start(Offset(40)).unwrap();
    trim.run().unwrap();
    log.mark_checkpointed(trim.checkpoint());
    let first = log.reader().segment_bounds(Offset(40)).unwrap().0;
    assert!(first > Offset(0));
    let expected = read_all(&log, Offset(40)).unwrap();
    log.close(None).unwrap();
    disk.remove_file(&dir().join("checkpoint")).unwrap();
    disk.sync_dir(&dir()).unwrap();
    let (log, recovery) = open(&disk, &small_segments()).unwrap();
    assert!(recovery.notes[0].contains("checkpoint is missing"), "{recovery:?}");
    assert_eq!((log.log_start(), log.log_end().offset()), (first, Offset(75)));
    assert_eq!(read_all(&log, Offset(40)).unwrap(), expected);
}

/// If the power fails during a truncation, no rows are left of batches that were removed on purpose.
#[test]
fn a_truncation_at_the_border_of_a_segment_is_no_damage_whenever_it_is_cut_short() {
    for after in 0.. {
        let disk = common::disk(after);
        let (mut log, _) = open(&disk, &small_segments()).unwrap();
        for number in 0..25 {
            append(&mut log, &keyed(number)).unwrap();
            log.sync().unwrap();
        }
        let base = log.reader().segment_bounds(Offset(70)).unwrap().0;
        let first = log.reader().headers(base).next().unwrap().unwrap().0.raft_index;
        let (path_ends, times) = (String::new(), u64::MAX);
        disk.add_rule(Rule { kind: None, path_ends, after, times, effect: Effect::Eio });
        let result = log.truncate_from(first);
        for _ in 0..16 {
            let (log, recovery) = open(&disk.crash(CrashMode::Random), &small_segments()).unwrap();
            assert!(recovery.damaged.is_empty(), "power fails after {after} operations: {recovery:?}");
            assert!(log.log_end().offset() >= base);
        }
        if result.is_ok() {
            break;
        }
    }
}
