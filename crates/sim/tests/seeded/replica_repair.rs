//! Bit rot on one replica: it is found, never passed on, and repaired from the others.
#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailrace_log::{Damage, Disk as _, LogConfig, LogError, Scrubbed, Unhurried};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions, DecodedBatch};
use tailrace_replication::CompactionPolicy;
use tailrace_replication::raft::{Replica, ReplicaId, Role};
use tailrace_sim::{CrashMode, Effect, OpKind, Rng, Rule, SimDisk};
use tailrace_types::{Offset, TimestampMs};

use crate::common::trio::{NOW, Trio, append, cut_off, open_with, options};

const DIR: &str = "/data/t-0";

/// Segments that hold only a few batches.
fn small() -> LogConfig {
    LogConfig { segment_bytes: 300, ..LogConfig::default() }
}

/// Returns three replicas that all have `batches` batches. Replica 1 leads.
fn trio(batches: u32) -> Trio {
    trio_with(&small(), batches)
}

/// Returns what is served behind the first damaged batch.
fn readable_around(replica: &Replica<SimDisk>) -> Vec<u8> {
    let (reader, damaged) = (replica.reader(), replica.damaged());
    let slice = reader.log().read(damaged[0].end_offset, reader.high_watermark().offset(), 1 << 20, true);
    slice.unwrap().map(|slice| slice.read().unwrap().to_vec()).unwrap_or_default()
}

fn trio_with(config: &LogConfig, batches: u32) -> Trio {
    let mut trio = Trio::with(config);
    trio.lead(1);
    for number in 0..batches {
        append(trio.at(1), &format!("batch {number}")).unwrap();
        trio.talk(|_, _| false);
    }
    trio.beat(1, 3, |_, _| false);
    trio
}

fn files(disk: &SimDisk, extension: &str) -> Vec<PathBuf> {
    let names = disk.read_dir(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(extension)).map(|name| Path::new(DIR).join(name)).collect()
}

fn flip(disk: &SimDisk, path: &Path, position: usize) {
    disk.damage(path, |bytes| {
        let at = position % bytes.len();
        bytes[at] ^= 0x10;
    });
}

/// Scrubs everything, as the server does, and rewrites what can be derived. Returns the damage found.
fn scrub(replica: &mut Replica<SimDisk>) -> Vec<Damage> {
    let reader = replica.reader();
    let mut found = replica.scrub_files().unwrap();
    for target in reader.log().scrub_targets() {
        match reader.log().scrub(&target, &mut Unhurried).unwrap() {
            Scrubbed::Sound | Scrubbed::Gone => {}
            Scrubbed::Damaged { log, index } => {
                found.extend(log);
                if let Some(damage) = index {
                    replica.repair_index(target.base_offset()).unwrap();
                    found.push(damage);
                }
            }
        }
    }
    found
}

/// Returns all committed batches, each with a correct checksum, or the error that prevents reading them.
fn read(replica: &Replica<SimDisk>) -> Result<Vec<u8>, LogError> {
    let reader = replica.reader();
    let (mut at, upto) = (reader.log_start(), reader.high_watermark().offset());
    let mut found = Vec::new();
    while let Some(slice) = reader.log().read(at, upto, 1 << 20, true)? {
        let bytes = slice.read().unwrap();
        for item in tailrace_records::split_batches(&bytes) {
            assert!(tailrace_records::verify_crc(item.unwrap().1), "a read returned a damaged batch");
        }
        found.extend_from_slice(&bytes);
        at = slice.next_offset;
    }
    Ok(found)
}

fn mend(trio: &mut Trio) {
    for _ in 0..60 {
        for id in 1..=3 {
            trio.at(id).tick(NOW);
        }
        trio.talk(|_, _| false);
    }
}

/// Returns the leader, after a while, if replica `out` takes no part.
fn leader_without(trio: &mut Trio, out: u64) -> u64 {
    for _ in 0..100 {
        if let Some(id) = (1..=3).find(|id| *id != out && trio.at(*id).leads().is_some()) {
            return id;
        }
        (1..=3).for_each(|id| trio.at(id).tick(NOW));
        trio.talk(cut_off(out));
    }
    panic!("no replica leads");
}

fn leader(trio: &mut Trio) -> u64 {
    (1..=3).find(|id| trio.at(*id).role() == Role::Leader).unwrap()
}

#[test]
fn a_damaged_segment_of_a_follower_is_put_together_from_the_leaders() {
    let mut trio = trio(20);
    let expected = read(trio.at(1)).unwrap();
    let segment = files(&trio.disks[1], ".log")[1].clone();
    flip(&trio.disks[1], &segment, 100);
    let found = scrub(trio.at(2));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].file, segment);
    assert!(matches!(read(trio.at(2)), Err(LogError::Damaged { .. })));
    mend(&mut trio);
    assert_eq!(trio.at(2).counters().segments_mended, 1);
    assert_eq!(read(trio.at(2)).unwrap(), expected);
    assert_eq!(scrub(trio.at(2)), []);
    // What was repaired survives a power failure.
    let mut opened =
        open_with(&trio.disks[1].crash(CrashMode::LoseAll), small(), options(2, &[1, 2, 3])).unwrap();
    // Without a leader the replica does not know how much of it is committed.
    let found = read(&opened).unwrap();
    assert!(expected.starts_with(&found) && !found.is_empty());
    assert_eq!(opened.reader().log_end(), trio.at(2).reader().log_end());
    assert_eq!(scrub(&mut opened), []);
}

#[test]
fn a_damaged_leader_hands_over_and_is_mended() {
    let mut trio = trio(20);
    let expected = read(trio.at(2)).unwrap();
    let segment = files(&trio.disks[0], ".log")[2].clone();
    flip(&trio.disks[0], &segment, 70);
    assert_eq!(scrub(trio.at(1)).len(), 1);
    trio.at(1).tick(NOW);
    trio.talk(|_, _| false);
    assert_ne!(trio.at(1).role(), Role::Leader);
    mend(&mut trio);
    assert_eq!(read(trio.at(1)).unwrap(), expected);
}

/// What the leader reads to send, it also checks. It does not send a damaged batch, and the process
/// continues.
#[test]
fn damage_that_is_met_while_sending_is_mended_and_the_follower_catches_up() {
    let mut trio = Trio::with(&small());
    trio.lead(1);
    for number in 0..20 {
        append(trio.at(1), &format!("batch {number}")).unwrap();
        trio.talk(cut_off(3));
    }
    trio.beat(1, 3, cut_off(3));
    let expected = read(trio.at(2)).unwrap();
    let segment = files(&trio.disks[0], ".log")[1].clone();
    flip(&trio.disks[0], &segment, 200);
    trio.beat(1, 8, |_, _| false);
    assert_eq!(trio.at(1).halted(), None);
    mend(&mut trio);
    for id in 1..=3 {
        assert_eq!(read(trio.at(id)).unwrap(), expected, "replica {id}");
    }
}

/// Three copies, each damaged in another place. Together they have everything, whichever replica leads.
#[test]
fn replicas_that_are_all_damaged_mend_each_other() {
    let mut trio = trio(30);
    let expected = read(trio.at(1)).unwrap();
    for (number, disk) in trio.disks.iter().enumerate() {
        let segment = files(disk, ".log")[number].clone();
        flip(disk, &segment, 90);
    }
    for id in 1..=3 {
        assert_eq!(scrub(trio.at(id)).len(), 1);
    }
    mend(&mut trio);
    for id in 1..=3 {
        assert_eq!(read(trio.at(id)).unwrap(), expected, "replica {id}");
    }
    let leader = leader(&mut trio);
    append(trio.at(leader), "goes on").unwrap();
}

/// The active segment is sealed first, and the repair waits until everything in it is committed.
#[test]
fn damage_in_the_last_segment_is_mended_once_it_is_committed() {
    let mut trio = trio(19);
    let segment = files(&trio.disks[1], ".log").pop().unwrap();
    append(trio.at(1), "not seen by a majority").unwrap();
    trio.sync(1);
    let messages: Vec<_> =
        trio.at(1).take_messages().into_iter().filter(|m| m.to() == ReplicaId(2)).collect();
    for message in messages {
        trio.at(2).receive(message, NOW);
    }
    trio.sync(2);
    drop(trio.at(2).take_messages());
    flip(&trio.disks[1], &segment, 65);
    assert_eq!(scrub(trio.at(2)).len(), 1);
    trio.at(2).tick(NOW);
    assert!(trio.at(2).wanted_chunk().is_none());
    trio.beat(1, 5, |_, _| false);
    mend(&mut trio);
    let expected = read(trio.at(1)).unwrap();
    assert_eq!(read(trio.at(2)).unwrap(), expected);
    let leader = leader(&mut trio);
    append(trio.at(leader), "after").unwrap();
    mend(&mut trio);
    assert_eq!(read(trio.at(2)).unwrap(), read(trio.at(leader)).unwrap());
}

/// Returns the last value of each key that was not deleted.
fn last_of_keys(replica: &Replica<SimDisk>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut last = BTreeMap::new();
    for batch in tailrace_records::split_batches(&read(replica).unwrap()) {
        let batch = DecodedBatch::new(batch.unwrap().1, 1 << 20).unwrap();
        for record in batch.records() {
            let record = record.unwrap();
            let key = record.key.unwrap().to_vec();
            match record.value {
                Some(value) => last.insert(key, value.to_vec()),
                None => last.remove(&key),
            };
        }
    }
    last
}

/// Runs one round on one replica, over all closed segments, this many hours later.
fn compact(trio: &mut Trio, id: u64, hours: i64) {
    let replica = trio.at(id);
    let ticket = replica.begin_sync(true).unwrap();
    let result = ticket.run();
    replica.finish_sync(&ticket, &result, NOW);
    let policy =
        CompactionPolicy { min_lag_ms: 0, max_lag_ms: i64::MAX, delete_retention_ms: 0, io_bytes: 4096 };
    let later = TimestampMs(NOW.0 + hours * 3_600_000);
    let Some(mut round) = replica.begin_compaction(&policy, later).unwrap() else { return };
    let mut map = tailrace_log::KeyMap::new(1 << 20, 0.9, tailrace_log::HashSecret([1, 2]));
    round.index(&mut map, &mut Unhurried).unwrap();
    while let Some(rewritten) = round.rewrite_next(&map, &mut Unhurried).unwrap() {
        let trim = replica
            .install_compacted(rewritten)
            .unwrap()
            .unwrap_or_else(|_| panic!("its segments still exist"));
        let result = trim.run();
        replica.finish_trim(&trim, &result);
    }
}

/// Appends a batch of one record. A value of `None` deletes the key.
fn set(trio: &mut Trio, key: &str, value: Option<&str>) {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(NOW, Some(key.as_bytes()), value.map(str::as_bytes), &[]).unwrap();
    let bytes = builder.build();
    let header = BatchHeader::parse(&bytes).unwrap();
    trio.at(1).append(&header, bytes, None, NOW).unwrap();
    trio.talk(|_, _| false);
}

/// Sets 16 keys in turn, and deletes one of them now and then.
fn set_keys(trio: &mut Trio, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let key = format!("key {}", number * 7 % 16);
        let value = (number % 5 != 4).then(|| format!("value {number}"));
        set(trio, &key, value.as_deref());
    }
    trio.beat(1, 3, |_, _| false);
}

/// A replica that lacks a batch stops compacting while the others continue. What they have left of the
/// segment is good enough.
#[test]
fn a_part_that_was_compacted_is_mended_from_one_that_has_compacted_further() {
    for (share, deleted) in [(2, false), (4, false), (6, false), (5, true)] {
        let mut trio = Trio::with(&small());
        trio.lead(1);
        set_keys(&mut trio, 0..60);
        (1..=3).for_each(|id| compact(&mut trio, id, 1));
        let cleaned = trio.at(2).reader().log().first_dirty();
        assert!(cleaned > Offset(0));
        // Rewrite all of the first keys, or only some of them.
        set_keys(&mut trio, 60..if deleted { 66 } else { 90 });
        for id in [1, 3] {
            compact(&mut trio, id, 2);
            // A second round removes tombstones, at the latest.
            compact(&mut trio, id, 3);
            assert!(trio.at(id).reader().log().first_dirty() > cleaned);
        }
        let expected = last_of_keys(trio.at(1));
        assert_eq!(last_of_keys(trio.at(2)), expected);
        let segment = files(&trio.disks[1], ".log")[0].clone();
        let bytes = trio.disks[1].content(&segment).unwrap().len();
        flip(&trio.disks[1], &segment, bytes * share / 8);
        assert_eq!(scrub(trio.at(2)).len(), 1);
        mend(&mut trio);
        assert_eq!(trio.at(2).damaged(), []);
        assert_eq!(trio.at(2).counters().segments_mended, 1);
        assert_eq!(last_of_keys(trio.at(2)), expected);
        assert_eq!(scrub(trio.at(2)), []);
    }
}

/// Found in a soak test: the range of the damaged batch was larger than the others' batch, and no raft index
/// was left for the rest of it. The repair never ended.
#[test]
fn a_compacted_batch_whose_offset_nothing_tells_is_mended_with_the_hole_behind_it() {
    let mut holes = 0;
    for number in 0.. {
        let mut trio = Trio::with(&LogConfig { segment_bytes: 1500, ..LogConfig::default() });
        trio.lead(1);
        for number in 0..60 {
            // Every third record is replaced by the next of them.
            let key = if number % 3 == 0 { 0 } else { number };
            set(&mut trio, &format!("key {key}"), Some(&format!("value {number}")));
        }
        trio.beat(1, 3, |_, _| false);
        (1..=3).for_each(|id| compact(&mut trio, id, 1));
        let expected = last_of_keys(trio.at(1));
        let disk = trio.disks[1].clone();
        let segment = files(&disk, ".log").into_iter().min().unwrap();
        let index = segment.with_extension("index");
        // Without an index, raft indexes are counted, which leaves none between two batches.
        disk.damage(&index, |rows| rows.truncate(64));
        scrub(trio.at(2));
        let bytes = disk.content(&segment).unwrap();
        let batches: Vec<_> = tailrace_records::split_batches(&bytes).map(|batch| batch.unwrap()).collect();
        let Some(next) = batches.get(number + 1) else { break };
        holes += usize::from(next.0.base_offset > batches[number].0.next_offset());
        let position: usize = batches[..number].iter().map(|(_, batch)| batch.len()).sum();
        disk.damage(&segment, |log| log[position + 5] ^= 0x40);
        disk.damage(&index, |rows| rows[64 * (number + 1) + 45] ^= 1);
        scrub(trio.at(2));
        for _ in 0..4 {
            mend(&mut trio);
        }
        assert_eq!((trio.at(2).damaged(), trio.at(2).beyond_repair()), (vec![], None), "batch {number}");
        assert_eq!(last_of_keys(trio.at(2)), expected, "batch {number}");
    }
    assert!(holes > 3, "{holes} batches with a hole after them");
}

/// The ballot also knows how far the replica was compacted.
#[test]
fn a_compacted_part_is_mended_also_where_the_checkpoint_is_lost() {
    for position in (0..330).step_by(3) {
        let mut trio = Trio::with(&small());
        trio.lead(1);
        set_keys(&mut trio, 0..60);
        (1..=3).for_each(|id| compact(&mut trio, id, 1));
        let expected = last_of_keys(trio.at(1));
        let cleaned = trio.at(2).reader().log().first_dirty();
        let disk = trio.disks[1].crash(CrashMode::LoseAll);
        disk.remove_file(&Path::new(DIR).join("checkpoint")).unwrap();
        let segment = files(&disk, ".log").into_iter().min().unwrap();
        flip(&disk, &segment, position);
        trio.replicas[1] = open_with(&disk, small(), options(2, &[1, 2, 3])).unwrap();
        trio.disks[1] = disk;
        assert_eq!(trio.at(2).reader().log().first_dirty(), cleaned);
        scrub(trio.at(2));
        assert!(!trio.at(2).damaged().is_empty());
        for _ in 0..4 {
            mend(&mut trio);
        }
        assert_eq!((trio.at(2).damaged(), trio.at(2).beyond_repair()), (vec![], None), "position {position}");
        assert_eq!(last_of_keys(trio.at(2)), expected);
    }
}

/// For raft, what compaction has cleaned belongs to the snapshot, so raft does not miss it. Without a
/// checkpoint, the first remaining segment determines the start of the log. The ballot knows better.
#[test]
fn a_replica_that_lost_its_beginning_and_its_checkpoint_is_not_whole() {
    let mut trio = Trio::with(&small());
    trio.lead(1);
    set_keys(&mut trio, 0..60);
    compact(&mut trio, 2, 1);
    let disk = trio.disks[1].crash(CrashMode::LoseAll);
    let checkpoint = Path::new(DIR).join("checkpoint");
    disk.remove_file(&checkpoint).unwrap();
    let opened = open_with(&disk, small(), options(2, &[1, 2, 3])).unwrap();
    assert_eq!(opened.reader().log_start(), Offset(0), "no record is missing");
    drop(opened);
    disk.remove_file(&checkpoint).unwrap();
    let first = files(&disk, ".log").into_iter().min().unwrap();
    for extension in ["log", "index", "header"] {
        disk.remove_file(&first.with_extension(extension)).unwrap();
    }
    for _ in 0..2 {
        // The first attempt has written a checkpoint, but that does not make it right.
        let error = open_with(&disk, small(), options(2, &[1, 2, 3])).unwrap_err().to_string();
        assert!(
            error.contains("the log starts at offset") && error.contains("expected 0 at most"),
            "{error}"
        );
    }
}

#[test]
fn one_whose_part_was_compacted_otherwise_elsewhere_is_beyond_repair() {
    let mut trio = trio(20);
    compact(&mut trio, 2, 1);
    assert!(trio.at(2).reader().log().first_dirty() > Offset(0));
    let segment = files(&trio.disks[1], ".log")[0].clone();
    flip(&trio.disks[1], &segment, 100);
    assert_eq!(scrub(trio.at(2)).len(), 1);
    assert_eq!(trio.at(2).beyond_repair(), None);
    for _ in 0..20 {
        mend(&mut trio);
    }
    let reason = trio.at(2).beyond_repair().unwrap();
    assert!(reason.contains("no other replica"), "{reason}");
    assert_eq!(trio.at(2).counters().segments_mended, 0);
}

/// A start finds the side file incomplete, so the raft indexes of what follows are unknown.
#[test]
fn a_damaged_side_file_is_refused_at_start_and_mended_while_running() {
    let mut trio = trio(5);
    trio.hand_over(2);
    append(trio.at(2), "of a second term").unwrap();
    trio.talk(|_, _| false);
    let (mut disk, path) = (trio.disks[2].clone(), files(&trio.disks[2], "entries")[0].clone());
    // The first record, after the head.
    flip(&disk, &path, 16 + 10);
    let crashed = disk.crash(CrashMode::LoseAll);
    let error = open_with(&crashed, small(), options(3, &[1, 2, 3])).map(drop).unwrap_err();
    assert!(matches!(&error, LogError::Damaged { file, .. } if *file == path), "{error}");
    assert_eq!(scrub(trio.at(3)).len(), 1);
    disk = trio.disks[2].crash(CrashMode::LoseAll);
    open_with(&disk, small(), options(3, &[1, 2, 3])).unwrap();
}

/// The engine looks up terms whenever it compares logs, and would panic if it got no answer.
#[test]
fn what_the_engine_cannot_read_stops_the_replica_and_nothing_else() {
    type Step = fn(&mut Trio);
    let steps: [(&str, Step); 4] = [
        ("campaign", |trio| trio.at(3).campaign(NOW)),
        ("silence", |trio| (0..60).for_each(|_| trio.at(3).tick(NOW))),
        ("append", |trio| {
            append(trio.at(1), "more").unwrap();
            trio.talk(|_, _| false);
        }),
        ("hand over", |trio| {
            trio.at(1).transfer_leadership(ReplicaId(3), NOW);
            trio.talk(|_, _| false);
        }),
    ];
    let rot: fn(&SimDisk) = |disk| {
        let indexes = files(disk, "index");
        indexes.iter().for_each(|path| disk.damage(path, |bytes| bytes.iter_mut().for_each(|b| *b ^= 0x10)));
    };
    let unreadable: fn(&SimDisk) = |disk| {
        let (kind, path_ends, effect) = (Some(OpKind::Read), "index".to_owned(), Effect::Eio);
        disk.add_rule(Rule { kind, path_ends, after: 0, times: u64::MAX, effect });
    };
    let mut stopped = Vec::new();
    for (name, step) in steps {
        for (is_lost, fail) in [(true, rot), (false, unreadable)] {
            let mut trio = trio(20);
            // Its last entry is a batch of the leader, so raft looks up the entries before it on the disk.
            trio.hand_over(1);
            append(trio.at(1), "last").unwrap();
            trio.talk(|_, _| false);
            fail(&trio.disks[2]);
            step(&mut trio);
            if trio.at(3).halted().is_some() {
                stopped.push((name, is_lost));
                assert_eq!(trio.at(3).beyond_repair().is_some(), is_lost, "{name}");
                assert!(trio.at(3).take_messages().is_empty(), "{name}");
            }
            trio.talk(cut_off(3));
            let leader = leader_without(&mut trio, 3);
            append(trio.at(leader), "and on").unwrap();
            trio.talk(|_, _| false);
            let reader = trio.at(leader).reader();
            assert_eq!(reader.high_watermark().get(), reader.log_end().offset().get(), "{name}");
        }
    }
    eprintln!("{stopped:?}");
    assert!(stopped.iter().any(|(_, is_lost)| *is_lost) && stopped.iter().any(|(_, is_lost)| !is_lost));
    // The last term is known without the disk.
    assert!(!stopped.iter().any(|(name, _)| *name == "campaign"));
}

/// A misdirected write: the row is intact, but is in the place of another row. Seeds 200405 and 204297 of
/// clusters.
#[test]
fn a_row_in_the_place_of_another_one_stops_the_replica_and_nothing_else() {
    let mut trio = trio(20);
    trio.hand_over(1);
    append(trio.at(1), "last").unwrap();
    // The third replica has the batch, and does not know that it is committed.
    for message in trio.at(1).take_messages() {
        let to = message.to().0;
        trio.at(to).receive(message, NOW);
    }
    trio.sync(3);
    let index = files(&trio.disks[2], "index").pop().unwrap();
    trio.disks[2].damage(&index, |bytes| {
        let last = bytes.len() - 64;
        bytes.copy_within(last - 64..last, last);
    });
    trio.talk(|_, _| false);
    assert!(trio.at(3).halted().is_some_and(|reason| reason.contains("does not find raft index")));
    assert!(trio.at(3).beyond_repair().is_some());
    append(trio.at(1), "and on").unwrap();
    trio.talk(|_, _| false);
    assert_eq!(trio.at(1).reader().high_watermark().get(), trio.at(1).reader().log_end().get());
}

/// Rot in a running replica is found by the next scrub and repaired.
#[test]
fn rot_in_any_file_of_any_replica_is_found_and_mended() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut trio = trio(rng.between(12, 40) as u32);
        for id in 1..=3 {
            if let Some(ticket) = trio.at(id).begin_sync(true) {
                let result = ticket.run();
                trio.at(id).finish_sync(&ticket, &result, NOW);
            }
        }
        let victim = rng.between(1, 3);
        let disk = trio.disks[victim as usize - 1].clone();
        let kind = [".log", ".index", "entries", "ballot", "checkpoint"][rng.below(5) as usize];
        let files = files(&disk, kind);
        let file = files[rng.below(files.len() as u64) as usize].clone();
        flip(&disk, &file, rng.below(1 << 20) as usize);
        let found = scrub(trio.at(victim));
        // The number of an obsolete term, or the unused end of a head, may differ without consequence.
        assert!(found.iter().all(|damage| damage.file == file), "seed {seed}: {found:?}");
        assert!(
            !found.is_empty() || kind == ".index",
            "seed {seed}: rot in {} was not found",
            file.display()
        );
        for number in 0..5 {
            let leader = leader(&mut trio);
            let _ = append(trio.at(leader), &format!("meanwhile {number}"));
            trio.talk(|_, _| false);
        }
        mend(&mut trio);
        let leader = leader(&mut trio);
        let expected = read(trio.at(leader)).unwrap();
        for id in 1..=3 {
            assert_eq!(read(trio.at(id)).unwrap(), expected, "seed {seed}: replica {id}");
            assert_eq!(scrub(trio.at(id)), [], "seed {seed}: replica {id}");
        }
        let crashed = disk.crash(CrashMode::LoseAll);
        let opened = open_with(&crashed, small(), options(victim, &[1, 2, 3])).unwrap();
        assert_eq!(opened.members().voters.len(), 3, "seed {seed}");
    }
}

/// Each replica lacks another batch of the same segment, which the other two have.
#[test]
fn three_copies_damaged_in_different_places_of_one_segment_mend_each_other() {
    let mut trio = trio_with(&LogConfig::default(), 20);
    let expected = read(trio.at(1)).unwrap();
    for (disk, share) in trio.disks.clone().iter().zip([1, 2, 3]) {
        let segment = &files(disk, ".log")[0];
        let bytes = disk.content(segment).unwrap().len();
        flip(disk, segment, bytes * share / 4);
    }
    for id in 1..=3 {
        assert_eq!(scrub(trio.at(id)).len(), 1);
        assert_eq!(trio.at(id).damaged().len(), 1, "exactly one damaged batch");
        assert!(!readable_around(trio.at(id)).is_empty());
    }
    for _ in 0..10 {
        mend(&mut trio);
    }
    for id in 1..=3 {
        assert_eq!(trio.at(id).damaged(), [], "replica {id}");
        assert_eq!(trio.at(id).beyond_repair(), None);
        assert_eq!(read(trio.at(id)).unwrap(), expected, "replica {id}");
    }
}

/// The same batch is lost on all three replicas. It is reported, and the rest is repaired, served and copied.
#[test]
fn what_no_copy_has_is_named_and_holds_up_nothing_else() {
    let mut trio = trio_with(&LogConfig::default(), 20);
    let expected = read(trio.at(1)).unwrap();
    for (number, disk) in trio.disks.clone().iter().enumerate() {
        let segment = &files(disk, ".log")[0];
        let bytes = disk.content(segment).unwrap().len();
        flip(disk, segment, bytes / 2);
        // Also damage a batch that the others have, before or behind it.
        flip(disk, segment, if number == 1 { bytes / 8 } else { bytes * (6 + number) / 9 });
    }
    for id in 1..=3 {
        assert_eq!(scrub(trio.at(id)).len(), 2);
    }
    for _ in 0..60 {
        mend(&mut trio);
    }
    let lost = trio.at(1).damaged();
    assert!(lost.len() == 1 && lost[0].is_lost, "{lost:?}");
    for id in 1..=3 {
        let replica = trio.at(id);
        let found: Vec<_> =
            replica.damaged().iter().map(|r| (r.base_offset, r.end_offset, r.is_lost)).collect();
        assert_eq!(found, [(lost[0].base_offset, lost[0].end_offset, true)], "replica {id}");
        assert_eq!(replica.beyond_repair(), None, "replica {id}");
        assert!(matches!(read(replica), Err(LogError::Damaged { .. })), "a reader gets an error");
        assert!(expected.ends_with(&readable_around(replica)) && !readable_around(replica).is_empty());
        assert_eq!(scrub(replica), [], "the scrubber finds no damage");
    }
    assert!(
        trio.disks.iter().all(|disk| files(disk, "").iter().any(|f| f.to_string_lossy().contains(".lost-")))
    );
    // It is known after a restart, too.
    let opened =
        open_with(&trio.disks[1].crash(CrashMode::LoseAll), small(), options(2, &[1, 2, 3])).unwrap();
    assert!(opened.damaged().len() == 1 && opened.damaged()[0].is_lost);
}

/// The segment's header says where it ends. Truncating what follows must not make the segment accept appends
/// again.
#[test]
fn nothing_is_appended_to_a_mended_segment_also_after_a_truncation() {
    use crate::common;
    let disk = common::disk(1);
    let (mut log, _) = common::open(&disk, &common::small_segments()).unwrap();
    let batch = |number: u8| common::batch(1, 50, 1000, number);
    common::append(&mut log, &batch(0)).unwrap();
    log.sync().unwrap();
    let (end, next) = (log.log_end().offset(), log.next_raft_index());
    log.seal(Offset(0));
    let mut patch = log.begin_patch(Offset(0)).unwrap().unwrap();
    assert!(!patch.copy_own(usize::MAX).unwrap());
    assert!(patch.is_whole() && patch.wanted().is_none());
    let trim = log.install_compacted(patch.finish().unwrap(), || None).unwrap();
    let trim = trim.unwrap_or_else(|_| panic!("its segments still exist"));
    trim.run().unwrap();
    log.mark_checkpointed(trim.checkpoint());
    common::append(&mut log, &batch(1)).unwrap();
    log.truncate_from(next).unwrap();
    common::append(&mut log, &batch(2)).unwrap();
    let segment = common::dir().join(format!("{:020}.log", end.get()));
    assert!(disk.exists(&segment).unwrap(), "the repaired segment received an append");
    let content = common::read_all(&log, Offset(0)).unwrap();
    log.close(None).unwrap();
    let (log, _) = common::open(&disk, &common::small_segments()).unwrap();
    assert_eq!(common::read_all(&log, Offset(0)).unwrap(), content);
}

/// One replica lacks the whole segment, the others only its first batch. No more than that batch is lost.
#[test]
fn no_more_is_given_up_than_all_of_them_lack() {
    let mut trio = trio_with(&LogConfig::default(), 20);
    let expected = read(trio.at(1)).unwrap();
    for (number, disk) in trio.disks.clone().iter().enumerate() {
        let segment = &files(disk, ".log")[0];
        match number {
            1 => disk.remove_file(segment).unwrap(),
            _ => flip(disk, segment, 65),
        }
    }
    for id in 1..=3 {
        assert!(!scrub(trio.at(id)).is_empty());
    }
    for _ in 0..60 {
        mend(&mut trio);
    }
    for id in 1..=3 {
        let found: Vec<_> =
            trio.at(id).damaged().iter().map(|r| (r.base_offset.0, r.end_offset.0, r.is_lost)).collect();
        assert_eq!(found, [(0, 1, true)], "replica {id}");
        let readable = readable_around(trio.at(id));
        assert!(expected.ends_with(&readable) && expected.len() - readable.len() < 100);
    }
}

/// No other replica can have it, and nothing of it can be kept.
#[test]
fn the_only_voter_goes_on_without_a_segment_that_is_gone() {
    let disk = crate::common::trio::disk();
    let mut replica = open_with(&disk, small(), options(1, &[1])).unwrap();
    let settle = |replica: &mut Replica<SimDisk>| {
        for _ in 0..60 {
            replica.tick(NOW);
            while let Some(ticket) = replica.begin_sync(false) {
                let result = ticket.run();
                replica.finish_sync(&ticket, &result, NOW);
            }
        }
    };
    settle(&mut replica);
    for number in 0..20 {
        append(&mut replica, &format!("batch {number}")).unwrap();
        settle(&mut replica);
    }
    let segment = files(&disk, ".log")[1].clone();
    disk.remove_file(&segment).unwrap();
    assert!(!scrub(&mut replica).is_empty());
    settle(&mut replica);
    assert_eq!(replica.halted(), None);
    let damaged = replica.damaged();
    assert!(damaged.len() == 1 && damaged[0].is_lost, "{damaged:?}");
    assert!(!readable_around(&replica).is_empty());
    append(&mut replica, "goes on").unwrap();
    settle(&mut replica);
    let upto = replica.reader().high_watermark();
    drop(replica);
    let opened = open_with(&disk.crash(CrashMode::LoseAll), small(), options(1, &[1])).unwrap();
    assert!(opened.reader().log_end().offset() >= upto.offset());
}

/// An unreadable row is rebuilt before its segment is removed. The replica continues.
#[test]
fn retention_waits_for_an_index_that_is_damaged() {
    let config = LogConfig { retention_bytes: Some(300), ..small() };
    let mut trio = trio_with(&config, 20);
    let ticket = trio.at(2).begin_sync(true).unwrap();
    let result = ticket.run();
    trio.at(2).finish_sync(&ticket, &result, NOW);
    let indexes = files(&trio.disks[1], ".index");
    let going = indexes[indexes.len() - 2].clone();
    for index in indexes.iter().filter(|index| **index <= going) {
        let last = trio.disks[1].content(index).unwrap().len() - 60;
        flip(&trio.disks[1], index, last);
    }
    assert!(trio.at(2).retain(NOW).unwrap().is_none());
    assert_eq!(trio.at(2).halted(), None);
    for _ in 0..indexes.len() {
        for base in trio.at(2).reader().log().damaged_indexes() {
            trio.at(2).repair_index(base).unwrap();
        }
        let trim = trio.at(2).retain(NOW).unwrap();
        if let Some(trim) = trim {
            let result = trim.run();
            trio.at(2).finish_trim(&trim, &result);
            assert!(trio.at(2).reader().log_start() > Offset(0));
            return;
        }
    }
    panic!("retention never continued");
}

/// Of a segment whose files are not open, only the name can be read.
#[test]
fn a_log_that_is_removed_is_mended_from_the_others_or_named_as_lost() {
    for copies in 1..=3 {
        let mut trio = trio(60);
        let expected = read(trio.at(3)).unwrap();
        let segment = files(&trio.disks[1], ".log")[1].clone();
        for id in 1..=copies {
            // Use other segments meanwhile, so that this one is closed.
            read(trio.at(id)).unwrap();
            trio.disks[id as usize - 1].remove_file(&segment).unwrap();
            assert!(!scrub(trio.at(id)).is_empty(), "replica {id} of {copies}");
        }
        for _ in 0..60 {
            mend(&mut trio);
        }
        for id in 1..=3 {
            assert_eq!(trio.at(id).halted(), None, "replica {id} of {copies}");
            let damaged = trio.at(id).damaged();
            match copies {
                3 => assert!(damaged.len() == 1 && damaged[0].is_lost, "{damaged:?}"),
                _ => assert_eq!((damaged, read(trio.at(id)).unwrap()), (vec![], expected.clone())),
            }
        }
    }
}
