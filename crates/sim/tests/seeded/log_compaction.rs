//! Compaction against a plain model, on a disk that crashes, fails and fills up.
//!
//! Whatever happens, the last record of each key is there and everything keeps its offset. After a whole
//! round nothing else is there. `TAILRACE_SEEDS=n` runs that many seeds.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use crate::common;
use crate::common::compaction::{DELETE_RETENTION_MS, Keyed, Record};
use tailrace_log::{Disk, HashSecret, KeyMap, LogError, Pace, inspect};
use tailrace_sim::{CrashMode, Effect, Rule};
use tailrace_types::Offset;

const MAP_BYTES: usize = 1 << 20;

fn seeds(default: u64) -> u64 {
    std::env::var("TAILRACE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn each_seed(count: u64, run: impl Fn(u64)) {
    for seed in 0..seeds(count) {
        println!("seed {seed}");
        run(seed);
    }
}

fn reopen(keyed: &mut Keyed, mode: CrashMode) {
    keyed.log = None;
    keyed.disk = keyed.disk.crash(mode);
    let (log, recovery) = common::open(&keyed.disk, &keyed.config).unwrap();
    assert!(recovery.truncated.is_none(), "{recovery:?}");
    keyed.log = Some(log);
}

fn names(keyed: &Keyed) -> Vec<String> {
    keyed.disk.read_dir(&common::dir()).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn after_any_number_of_rounds_the_last_of_each_key_is_there_and_nothing_else() {
    each_seed(40, |seed| {
        let mut keyed = Keyed::new(seed);
        for _ in 0..6 {
            let batches = keyed.rng.between(1, 80);
            keyed.append_some(batches);
            if keyed.rng.percent(50) {
                keyed.end_all_transactions();
            }
            if keyed.clean(MAP_BYTES).unwrap().is_some() {
                keyed.check_clean();
            }
            keyed.check_producers();
            keyed.now += keyed.rng.between(0, 2 * DELETE_RETENTION_MS as u64) as i64;
            if keyed.rng.percent(30) {
                let before = keyed.read();
                keyed.log.take().unwrap().close(None).unwrap();
                let (log, recovery) = common::open(&keyed.disk, &keyed.config).unwrap();
                assert!(recovery.clean, "{recovery:?}");
                keyed.log = Some(log);
                assert_eq!(keyed.read(), before);
            }
        }
        let report = inspect::verify_dir(&keyed.disk, &common::dir()).unwrap();
        assert!(report.is_sound(), "{report:?}");
    });
}

/// With memory for only a few keys, rounds still make progress, each a little further.
#[test]
fn a_map_that_fills_up_ends_the_round_and_the_next_goes_on() {
    each_seed(8, |seed| {
        let mut keyed = Keyed::new(seed);
        keyed.append_some(60);
        keyed.end_all_transactions();
        keyed.append_some(30);
        let mut rounds = 0;
        let mut last = 0;
        while keyed.clean(16 * 12).unwrap().is_some() {
            assert!(keyed.cleaned_to > last, "no progress beyond {last}");
            last = keyed.cleaned_to;
            keyed.check_nothing_lost();
            rounds += 1;
            assert!(rounds < 500);
        }
        assert!(rounds >= 1);
        // Everything below the end was covered, in pieces. A last round with memory for all keys leaves one
        // record per key.
        keyed.append_some(30);
        keyed.end_all_transactions();
        keyed.append_some(5);
        if keyed.clean(MAP_BYTES).unwrap().is_some() {
            keyed.check_clean();
        }
    });
}

#[test]
fn a_batch_with_more_keys_than_there_is_memory_for_is_named() {
    let mut keyed = Keyed::new(1);
    keyed.append_some(100);
    keyed.end_all_transactions();
    keyed.append_some(40);
    let error = keyed.clean(2 * 16).unwrap_err();
    assert!(matches!(error, LogError::KeyMapTooSmall { keys_max: 1, .. }), "{error}");
    assert!(error.to_string().contains("log.cleaner.dedupe.buffer.size"), "{error}");
    keyed.check_nothing_lost();
}

/// The disk fails after every single operation of a round, and then the power does.
#[test]
fn a_crash_at_every_step_leaves_the_old_or_the_new() {
    each_seed(2, |seed| {
        for mode in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random] {
            let mut after = 0;
            loop {
                let mut keyed = Keyed::new(seed);
                keyed.append_some(20);
                keyed.end_all_transactions();
                keyed.append_some(8);
                keyed.clean(MAP_BYTES).unwrap();
                keyed.append_some(12);
                keyed.end_all_transactions();
                keyed.append_some(15);
                keyed.log().sync().unwrap();
                keyed.now += 2 * DELETE_RETENTION_MS;
                let end = keyed.log().log_end();
                let next_index = keyed.log().next_raft_index();
                keyed.disk.add_rule(Rule {
                    kind: None,
                    path_ends: String::new(),
                    after,
                    times: u64::MAX,
                    effect: Effect::Eio,
                });
                let before = keyed.cleaned_to;
                let result = keyed.clean(MAP_BYTES);
                keyed.disk.clear_rules();
                reopen(&mut keyed, mode);
                // What was cleaned may count or not, so tombstones may be gone either way.
                let done = result.is_ok();
                keyed.cleaned_to = keyed.log().log_end().get();
                let log_end = keyed.log().log_end();
                assert_eq!(log_end, end, "step {after}");
                assert_eq!(keyed.log().next_raft_index(), next_index);
                let found = keyed.read();
                for (key, record) in keyed.last_of_keys(i64::MAX) {
                    let there = found.iter().any(|r| r.offset == record.offset);
                    assert!(there || record.value.is_none(), "step {after}: {key:?} is lost");
                }
                keyed.cleaned_to = before;
                keyed.check_producers();
                let leftovers =
                    names(&keyed).into_iter().filter(|n| n.ends_with(".tmp") || n.ends_with(".deleted"));
                assert_eq!(leftovers.count(), 0);
                let report = inspect::verify_dir(&keyed.disk, &common::dir()).unwrap();
                assert!(report.is_sound(), "step {after}: {report:?}");
                keyed.append_some(5);
                keyed.end_all_transactions();
                keyed.append_some(20);
                if keyed.clean(MAP_BYTES).unwrap().is_some() {
                    keyed.check_clean();
                }
                keyed.log().sync().unwrap();
                reopen(&mut keyed, CrashMode::Random);
                if done {
                    break;
                }
                after += 1;
            }
            println!("{mode:?}: {after} steps");
            assert!(after > 20, "only {after} operations");
        }
    });
}

#[test]
fn a_full_disk_ends_the_round_and_loses_nothing() {
    each_seed(20, |seed| {
        let mut keyed = Keyed::new(seed);
        keyed.append_some(90);
        keyed.end_all_transactions();
        keyed.append_some(40);
        keyed.log().checkpoint(None).unwrap();
        let used = keyed.disk.used_bytes();
        for free in (0..6000).step_by(150) {
            keyed.disk.set_space(Some(keyed.disk.used_bytes().max(used) + free));
            let before = keyed.cleaned_to;
            match keyed.clean(MAP_BYTES) {
                Ok(_) => break,
                Err(error) => assert!(error.is_no_space(), "{error}"),
            }
            keyed.disk.set_space(None);
            assert!(keyed.log().poisoned().is_none());
            keyed.cleaned_to = keyed.log().log_end().get();
            let found = keyed.read();
            for (key, record) in keyed.last_of_keys(i64::MAX) {
                let there = found.iter().any(|r| r.offset == record.offset);
                assert!(there || record.value.is_none(), "{key:?} is lost");
            }
            keyed.cleaned_to = before;
        }
        keyed.disk.set_space(None);
        keyed.append_some(20);
        keyed.end_all_transactions();
        keyed.append_some(20);
        if keyed.clean(MAP_BYTES).unwrap().is_some() {
            keyed.check_clean();
        }
        reopen(&mut keyed, CrashMode::LoseAll);
        keyed.check_producers();
    });
}

/// The headers of compacted segments say what the checkpoint would have said.
#[test]
fn a_log_that_lost_its_checkpoint_is_read_with_its_gaps() {
    each_seed(20, |seed| {
        let mut keyed = Keyed::new(seed);
        for _ in 0..3 {
            keyed.append_some(60);
            keyed.end_all_transactions();
            keyed.append_entry();
            keyed.clean(MAP_BYTES).unwrap();
        }
        keyed.append_some(5);
        keyed.log().checkpoint(None).unwrap();
        let before = keyed.read();
        let (next, epoch) = (keyed.log().next_raft_index(), keyed.log().last_epoch());
        let checkpoint = common::dir().join("checkpoint");
        for lost in [false, true] {
            keyed.log = None;
            if lost {
                keyed.disk.remove_file(&checkpoint).unwrap();
            } else {
                keyed.disk.damage(&checkpoint, |bytes| bytes[30] ^= 1);
            }
            let (log, recovery) = common::open(&keyed.disk, &keyed.config).unwrap();
            assert!(recovery.truncated.is_none(), "{recovery:?}");
            keyed.log = Some(log);
            assert_eq!(keyed.read(), before, "lost: {lost}");
            assert_eq!((keyed.log().next_raft_index(), keyed.log().last_epoch()), (next, epoch));
            keyed.check_producers();
        }
        // From the start of the log: the checkpoint knew what was already cleaned, and it is lost.
        keyed.append_some(40);
        keyed.end_all_transactions();
        keyed.append_some(20);
        keyed.clean(MAP_BYTES).unwrap().unwrap();
        keyed.check_clean();
    });
}

/// A damaged compacted segment counts as damage, never as a torn tail, with or without a checkpoint.
#[test]
fn damage_in_a_compacted_segment_is_never_cut_off() {
    let mut keyed = Keyed::new(3);
    keyed.append_some(120);
    keyed.end_all_transactions();
    keyed.append_some(40);
    keyed.clean(MAP_BYTES).unwrap().unwrap();
    keyed.log().checkpoint(None).unwrap();
    let compacted = names(&keyed).into_iter().find(|name| name.ends_with(".1.log")).unwrap();
    keyed.log = None;
    keyed.disk.damage(&common::dir().join(&compacted), |bytes| bytes[50] ^= 1);
    keyed.disk.remove_file(&common::dir().join("checkpoint")).unwrap();
    let (log, _) = common::open(&keyed.disk, &keyed.config).unwrap();
    let damaged = log.reader().damaged();
    assert_eq!((damaged.len(), damaged[0].damage.position), (1, 0), "{damaged:?}");
    assert!(log.reader().read(damaged[0].end_offset, log.log_end().offset(), 1, true).unwrap().is_some());
    drop(log);
    // Without its row nothing tells where the batch ends.
    let index = common::dir().join(compacted.replace(".log", ".index"));
    keyed.disk.damage(&index, |bytes| bytes[70] ^= 1);
    keyed.disk.remove_file(&common::dir().join("checkpoint")).unwrap();
    let error = common::open(&keyed.disk, &keyed.config).err().unwrap();
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
}

/// The header is needed only if the checkpoint is lost, too. Then it is derived. An intact segment is never
/// removed.
#[test]
fn a_compacted_segment_whose_header_is_damaged_is_found_and_never_removed() {
    for (seed, also_index) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut keyed = Keyed::new(seed);
        for _ in 0..3 {
            keyed.append_some(60);
            keyed.end_all_transactions();
            keyed.clean(MAP_BYTES).unwrap();
        }
        keyed.log().checkpoint(None).unwrap();
        let before = keyed.read();
        let of = |keyed: &Keyed, suffix: &str| -> Vec<_> {
            let found = names(keyed)
                .into_iter()
                .filter(|name| name.ends_with(suffix) && name.matches('.').count() == 2);
            found.map(|name| common::dir().join(name)).collect()
        };
        let headers = of(&keyed, ".header");
        assert!(!headers.is_empty());
        for (number, path) in headers.iter().enumerate() {
            if number % 2 == 0 {
                keyed.disk.damage(path, |bytes| bytes[20] ^= 1);
            } else {
                keyed.disk.remove_file(path).unwrap();
            }
        }
        let found = keyed.log().scrub_files(None).unwrap();
        assert_eq!(found.len(), headers.len(), "the scrubber finds them: {found:?}");
        assert_eq!(keyed.log().scrub_files(None).unwrap(), [], "the scrubber rewrites them");
        keyed.log = None;
        headers.iter().for_each(|path| keyed.disk.damage(path, |bytes| bytes[20] ^= 1));
        if also_index {
            of(&keyed, ".index").iter().for_each(|path| keyed.disk.remove_file(path).unwrap());
        }
        keyed.disk.damage(&common::dir().join("checkpoint"), |bytes| bytes[30] ^= 1);
        let (log, recovery) = common::open(&keyed.disk, &keyed.config).unwrap();
        keyed.log = Some(log);
        assert_eq!(keyed.read(), before, "seed {seed}, index lost: {also_index}: {recovery:?}");
    }
}

/// A reader that is active while segments are replaced continues, from removed files and from new ones, and
/// ends with the last value of each key.
#[test]
fn a_reader_that_began_before_goes_on() {
    each_seed(30, |seed| {
        let mut keyed = Keyed::new(seed);
        keyed.append_some(100);
        keyed.end_all_transactions();
        let reader = keyed.log().reader();
        let end = keyed.log().log_end().offset();
        let wanted: BTreeMap<Vec<u8>, Option<Vec<u8>>> =
            keyed.last_of_keys(end.0).into_iter().map(|(key, record)| (key, record.value.clone())).collect();
        let aborted: Vec<i64> = {
            let all: Vec<_> = keyed.records.iter().map(|r| r.offset).collect();
            let counting = keyed.counting_offsets();
            all.into_iter().filter(|offset| !counting.contains(offset)).collect()
        };
        let mut seen: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        let (mut next, mut slices) = (Offset(0), 0);
        while let Some(slice) = reader.read(next, end, 700, true).unwrap() {
            if slices == 3 || slices == 9 {
                keyed.clean(MAP_BYTES).unwrap();
                keyed.append_some(20);
            }
            // The slice was taken before its file was removed.
            for record in keyed.decode(&slice.read().unwrap()) {
                if let Some(key) = record.key.filter(|_| !aborted.contains(&record.offset)) {
                    seen.insert(key, record.value);
                }
            }
            next = slice.next_offset;
            slices += 1;
        }
        assert_eq!(next, end);
        // A later record in the same run may have replaced the key. The reader then sees it further on.
        for (key, value) in wanted {
            let later = keyed.last_of_keys(i64::MAX)[&key].offset >= end.0;
            assert!(later || seen.get(&key) == Some(&value), "{key:?}");
        }
    });
}

/// Tombstones stay for `delete.retention.ms` after the round that left nothing else of their keys. Nothing
/// replaces them meanwhile, because later records have other keys.
#[test]
fn tombstones_stay_for_their_time() {
    each_seed(20, |seed| {
        let mut keyed = Keyed::new(seed);
        // So many that some of them end with a tombstone.
        keyed.keys = 60;
        let there =
            |found: &[common::compaction::Record], offset: i64| found.iter().any(|r| r.offset == offset);
        keyed.append_some(120);
        keyed.end_all_transactions();
        keyed.append_some(40);
        keyed.end_all_transactions();
        keyed.clean(MAP_BYTES).unwrap().unwrap();
        let horizon = keyed.now + DELETE_RETENTION_MS;
        keyed.prefix = "other";
        keyed.append_some(90);
        keyed.end_all_transactions();
        let last = keyed.last_of_keys(i64::MAX);
        let of_first_round = last.values().filter(|r| r.value.is_none() && r.offset < keyed.cleaned_to);
        let tombstones: Vec<i64> = of_first_round.map(|r| r.offset).collect();
        assert!(!tombstones.is_empty());
        let found = keyed.read();
        assert!(tombstones.iter().all(|offset| there(&found, *offset)), "removed in the first round");

        keyed.now = horizon - 1;
        keyed.clean(MAP_BYTES).unwrap().unwrap();
        let found = keyed.read();
        for offset in &tombstones {
            assert!(there(&found, *offset), "tombstone {offset} was removed too early");
        }

        keyed.append_some(90);
        keyed.end_all_transactions();
        keyed.now = keyed.now.max(horizon);
        keyed.clean(MAP_BYTES).unwrap().unwrap();
        let found = keyed.read();
        for offset in &tombstones {
            assert!(!there(&found, *offset), "tombstone {offset} was not removed");
        }
    });
}

/// The time of an abort marker starts with the first round that finds nothing of its transaction, not with
/// the round that removes the records: a reader that has read one of these records needs the marker.
#[test]
fn an_abort_marker_stays_for_its_time_after_the_round_that_finds_nothing_of_its_transaction() {
    each_seed(20, |seed| {
        let mut keyed = Keyed::new(seed);
        keyed.append_batch(11, true);
        let marker = keyed.log().log_end().offset();
        keyed.end_transaction(11, false);
        // This keeps the producer's sequence, so no header of the first transaction has to stay for it.
        keyed.append_batch(11, true);
        keyed.end_transaction(11, true);
        let mut is_there_after_a_round = |later_ms| {
            (0..90).for_each(|_| keyed.append_batch(-1, false));
            keyed.now += later_ms;
            keyed.clean(MAP_BYTES).unwrap().unwrap();
            let reader = keyed.log().reader();
            let headers: Vec<_> = reader.headers(Offset(0)).map(|found| found.unwrap().1).collect();
            headers.iter().any(|header| header.base_offset == marker && header.record_count == 1)
        };
        assert!(is_there_after_a_round(0), "this round removes its records");
        assert!(is_there_after_a_round(DELETE_RETENTION_MS), "its delete horizon has only started");
        assert!(is_there_after_a_round(DELETE_RETENTION_MS - 1), "its delete horizon has not passed");
        assert!(!is_there_after_a_round(1), "its delete horizon has passed");
    });
}

/// A pace that ends the round after this many bytes.
struct StopAfter(u64);

impl Pace for StopAfter {
    fn spend(&mut self, bytes: u64) -> Result<(), LogError> {
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(LogError::CompactionStopped { reason: "the test says so" }),
        }
    }
}

#[test]
fn a_round_that_is_stopped_leaves_no_files_behind() {
    for bytes in (0..600_000).step_by(6000) {
        let mut keyed = Keyed::new(5);
        keyed.append_some(150);
        keyed.end_all_transactions();
        keyed.append_some(40);
        let mut map = KeyMap::new(MAP_BYTES, 0.9, HashSecret([1, 2]));
        match keyed.clean_with(&mut map, &mut StopAfter(bytes)) {
            Ok(_) => return keyed.check_clean(),
            Err(error) => assert!(matches!(error, LogError::CompactionStopped { .. }), "{error}"),
        }
        let segments = keyed.log().reader().segment_count();
        let logs = names(&keyed).iter().filter(|name| name.ends_with(".log")).count();
        assert_eq!(logs, segments);
        // Another round may start.
        keyed.clean(MAP_BYTES).unwrap().unwrap();
        keyed.check_clean();
    }
    panic!("no round was ever completed");
}

/// Retention and compaction of the same topic: a segment that is removed while it is rewritten ends the
/// round.
#[test]
fn a_segment_that_retention_removes_ends_the_round() {
    let mut keyed = Keyed::new(7);
    keyed.append_some(200);
    keyed.end_all_transactions();
    keyed.append_some(40);
    let settings = keyed.settings();
    let mut map = KeyMap::new(MAP_BYTES, 0.9, HashSecret([1, 2]));
    let mut pace = tailrace_log::Unhurried;
    let log = keyed.log();
    let mut round = log.begin_compaction(settings.clone()).unwrap().unwrap();
    assert!(log.begin_compaction(settings.clone()).unwrap().is_none(), "one round at a time");
    round.index(&mut map, &mut pace).unwrap();
    let rewritten = round.rewrite_next(&map, &mut pace).unwrap().unwrap();
    log.sync().unwrap();
    let half = Offset(log.log_end().get() / 2);
    log.advance_log_start(half).unwrap().run().unwrap();
    let discarded = log.install_compacted(rewritten, || None).unwrap().err().expect("its segments are gone");
    discarded.run();
    drop(discarded);
    drop(round);
    let segments = log.reader().segment_count();
    let logs = names(&keyed).iter().filter(|name| name.ends_with(".log")).count();
    assert_eq!(logs, segments);
    let settings = keyed.settings();
    assert!(keyed.log().begin_compaction(settings).unwrap().is_some());
}

/// What a round has written counts once it is installed. Before that, raft must know that entries are gone.
/// In seed 29923 of clusters the power failed in between, and no checkpoint said that the new files did not
/// count yet.
#[test]
fn what_was_written_and_not_installed_does_not_count_after_a_crash() {
    let mut keyed = Keyed::new(11);
    keyed.append_some(150);
    keyed.end_all_transactions();
    keyed.append_some(40);
    let settings = keyed.settings();
    let mut map = KeyMap::new(MAP_BYTES, 0.9, HashSecret([1, 2]));
    let log = keyed.log();
    let content = common::read_all(log, Offset(0)).unwrap();
    let mut round = log.begin_compaction(settings).unwrap().unwrap();
    round.index(&mut map, &mut tailrace_log::Unhurried).unwrap();
    let rewritten = round.rewrite_next(&map, &mut tailrace_log::Unhurried).unwrap().unwrap();
    assert!(
        names(&keyed).iter().any(|name| name.ends_with(".log") && name.contains(".1.")),
        "{:?}",
        names(&keyed)
    );
    reopen(&mut keyed, CrashMode::KeepAll);
    assert_eq!(common::read_all(keyed.log(), Offset(0)).unwrap(), content);
    drop(rewritten);
}

/// `min.compaction.lag.ms`: a segment with younger records is left unchanged, and so is everything behind it.
#[test]
fn what_is_younger_than_its_lag_stays() {
    const LAG_MS: i64 = 50_000;
    each_seed(8, |seed| {
        let mut keyed = Keyed::new(seed);
        keyed.append_some(60);
        keyed.end_all_transactions();
        let young = keyed.log().log_end().get();
        keyed.now += 2 * LAG_MS;
        keyed.append_some(60);
        keyed.end_all_transactions();
        let all = keyed.read();
        let of =
            |records: &[Record]| records.iter().filter(|r| r.offset >= young).cloned().collect::<Vec<_>>();

        keyed.min_lag_ms = LAG_MS;
        keyed.clean(MAP_BYTES).unwrap().expect("the old records are due");
        assert!(keyed.cleaned_to > 0 && keyed.cleaned_to <= young, "{} of {young}", keyed.cleaned_to);
        let left = keyed.read();
        assert!(left.len() < all.len());
        assert_eq!(of(&left), of(&all));

        keyed.min_lag_ms = 0;
        keyed.clean(MAP_BYTES).unwrap().expect("the other records are due");
        assert!(keyed.cleaned_to > young);
    });
}
