//! Replicas whose log lost its start. A replica that is too far behind gets a snapshot, and a crash leaves
//! the old log or the new one.
#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tailrace_log::{Disk as _, LogConfig, LogStore};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::raft::{Fate, MemberChange, Replica, ReplicaId, Role};
use tailrace_replication::{CompactionPolicy, Solo};
use tailrace_sim::{CrashMode, Effect, OpKind, Rule, SimDisk};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::common::trio::{
    NOW, STRICT, Trio, append, batch, cut_off, disk, identity, open, open_with, options,
};

/// Segments that hold only a few batches. All but the last one or two of them are removed.
fn trimming() -> LogConfig {
    LogConfig { segment_bytes: 300, retention_bytes: Some(300), ..LogConfig::default() }
}

fn idempotent(producer: i64, sequence: i32) -> (BatchHeader, Bytes) {
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        base_sequence: sequence,
        ..BatchOptions::default()
    });
    let value = format!("{producer}:{sequence}");
    builder.push(TimestampMs(1), Some(b"key"), Some(value.as_bytes()), &[]).unwrap();
    let bytes = builder.build();
    (BatchHeader::parse(&bytes).unwrap(), bytes)
}

fn checkpoint(replica: &mut Replica<SimDisk>) {
    let ticket = replica.begin_sync(true).unwrap();
    let result = ticket.run();
    replica.finish_sync(&ticket, &result, NOW);
}

fn retain(replica: &mut Replica<SimDisk>) -> bool {
    let Some(trim) = replica.retain(NOW).unwrap() else { return false };
    let result = trim.run();
    replica.finish_trim(&trim, &result);
    true
}

/// Batches by their base offset.
type Content = Vec<(i64, Vec<u8>)>;

/// Returns the batches from the log start up to the high watermark.
fn content(replica: &Replica<SimDisk>) -> Content {
    let reader = replica.reader();
    let (mut at, upto) = (reader.log_start(), reader.high_watermark().offset());
    let mut found = Vec::new();
    while let Some(slice) = reader.log().read(at, upto, 1 << 20, true).unwrap() {
        let bytes = slice.read().unwrap();
        for item in tailrace_records::split_batches(&bytes) {
            let (header, batch) = item.unwrap();
            assert!(tailrace_records::verify_crc(batch));
            found.push((header.base_offset.get(), batch.to_vec()));
        }
        at = slice.next_offset;
    }
    found
}

/// Replica 1 leads and has trimmed its log. Replica 3 knows nothing of what is gone, and has a batch that no
/// other replica has.
fn far_behind() -> Trio {
    let mut trio = Trio::with(&trimming());
    trio.lead(3);
    append(trio.at(3), "seen by all").unwrap();
    trio.talk(|_, _| false);
    append(trio.at(3), "seen by no one else").unwrap();
    trio.sync(3);
    drop(trio.at(3).take_messages());
    while trio.at(1).role() != Role::Leader {
        for id in [1, 2] {
            trio.at(id).tick(NOW);
            trio.at(id).transfer_leadership(ReplicaId(1), NOW);
        }
        trio.talk(cut_off(3));
    }
    let (first, bytes) = idempotent(7, 0);
    trio.at(1).append(&first, bytes, None, NOW).unwrap();
    for number in 0..20 {
        append(trio.at(1), &format!("batch {number}")).unwrap();
        trio.talk(cut_off(3));
    }
    checkpoint(trio.at(1));
    assert!(retain(trio.at(1)));
    assert!(trio.at(1).reader().log_start() > Offset(5));
    trio
}

fn assert_alike(trio: &mut Trio, one: u64, other: u64) {
    let expected = content(trio.at(one));
    assert_eq!(content(trio.at(other)), expected);
    assert!(!expected.is_empty());
    assert_eq!(trio.at(one).reader().high_watermark(), trio.at(other).reader().high_watermark());
    assert_eq!(*trio.at(one).reader().log().epochs(), *trio.at(other).reader().log().epochs());
}

#[test]
fn a_follower_that_needs_what_is_gone_gets_a_snapshot_and_entries_from_there_on() {
    let mut trio = far_behind();
    let reader = trio.at(3).reader();
    trio.beat(1, 6, |_, _| false);
    assert_eq!(trio.at(3).counters().snapshots_installed, 1);
    assert_alike(&mut trio, 1, 3);
    append(trio.at(1), "after").unwrap();
    trio.beat(1, 3, |_, _| false);
    assert_alike(&mut trio, 1, 3);
    // A reader from before continues with what is there now.
    assert_eq!(reader.high_watermark(), trio.at(1).reader().high_watermark());
    assert_eq!(reader.log_start(), trio.at(1).reader().log_start());
    let opened =
        open_with(&trio.disks[2].crash(CrashMode::LoseAll), trimming(), options(3, &[1, 2, 3])).unwrap();
    assert_eq!(opened.reader().log_end(), trio.at(1).reader().log_end());
    assert_eq!(opened.members(), trio.at(1).members());
}

#[test]
fn what_producers_sent_before_the_beginning_of_the_log_is_known_after_a_snapshot() {
    let mut trio = far_behind();
    trio.beat(1, 6, |_, _| false);
    assert_eq!(trio.at(3).counters().snapshots_installed, 1);
    trio.hand_over(3);
    let (repeated, bytes) = idempotent(7, 0);
    let appended = trio.at(3).append(&repeated, bytes.clone(), None, NOW).unwrap();
    assert!(appended.duplicate.is_some(), "{appended:?}");
    trio.replicas[2] =
        open_with(&trio.disks[2].crash(CrashMode::LoseAll), trimming(), options(3, &[1, 2, 3])).unwrap();
    trio.hand_over(3);
    let appended = trio.at(3).append(&repeated, bytes, None, NOW).unwrap();
    assert!(appended.duplicate.is_some(), "after a crash: {appended:?}");
}

/// Uncommitted batches keep the leader from offering its current table. It offers an earlier one, and the
/// batches after it, including the first, supply the rest.
#[test]
fn the_table_of_producers_is_the_same_after_a_snapshot_that_was_offered_during_appends() {
    let mut trio = far_behind();
    for producer in [8, 9] {
        let (header, bytes) = idempotent(producer, 0);
        trio.at(1).append(&header, bytes, None, NOW).unwrap();
        trio.talk(cut_off(3));
    }
    append(trio.at(1), "not committed yet").unwrap();
    offer(&mut trio);
    assert!(trio.at(1).reader().high_watermark().offset() < trio.at(1).reader().log_end().offset());
    while let Some(request) = trio.at(3).wanted_chunk() {
        let chunk = trio.at(1).chunk_reader(&request).unwrap().read().unwrap();
        trio.at(3).take_chunk(&request, Some(chunk), NOW);
    }
    assert_eq!(trio.at(3).counters().snapshots_installed, 1);
    let table = |replica: &Replica<SimDisk>| {
        let states = replica.producers().iter().map(|(id, state)| (id, state.batches.clone()));
        states.collect::<BTreeMap<_, _>>()
    };
    let expected = table(trio.at(1));
    assert_eq!(expected.len(), 3);
    assert_eq!(table(trio.at(3)), expected);
}

#[test]
fn a_snapshot_is_read_to_its_end_while_its_source_trims_and_compacts() {
    let mut trio = far_behind();
    offer(&mut trio);
    for number in 0..10 {
        append(trio.at(1), &format!("later {number}")).unwrap();
        trio.talk(cut_off(3));
    }
    checkpoint(trio.at(1));
    assert!(retain(trio.at(1)));
    trio.beat(1, 6, |_, _| false);
    let counters = trio.at(3).counters();
    assert_eq!(counters.snapshots_given_up, 0);
    assert!(counters.snapshots_installed > 0);
    assert_eq!(trio.at(3).reader().log_end(), trio.at(1).reader().log_end());
    assert_eq!(trio.at(3).reader().high_watermark(), trio.at(1).reader().high_watermark());
}

#[test]
fn a_damaged_or_missing_chunk_ends_the_attempt_and_another_offer_comes() {
    for damaged in [true, false] {
        let mut trio = far_behind();
        offer(&mut trio);
        while let Some(request) = trio.at(3).wanted_chunk() {
            let chunk = trio.at(1).chunk_reader(&request).unwrap().read().unwrap();
            let mut bytes = chunk.to_vec();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            trio.at(3).take_chunk(&request, damaged.then(|| bytes.into()), NOW);
        }
        assert_eq!(trio.at(3).counters().snapshots_given_up, 1);
        assert!(trio.at(3).halted().is_none());
        let names = trio.disks[2].read_dir(Path::new("/data/t-0")).unwrap();
        assert!(names.iter().all(|entry| !entry.name.contains(".2.")), "{names:?}");
        trio.beat(1, 250, |_, _| false);
        assert_eq!(trio.at(3).counters().snapshots_installed, 1);
        assert_alike(&mut trio, 1, 3);
    }
}

#[test]
fn a_leader_that_dies_while_its_snapshot_is_fetched_is_replaced_as_its_source() {
    let mut trio = far_behind();
    checkpoint(trio.at(2));
    assert!(retain(trio.at(2)));
    offer(&mut trio);
    for _ in 0..300 {
        trio.at(2).tick(NOW);
        trio.at(3).tick(NOW);
        trio.talk(cut_off(1));
    }
    assert_eq!(trio.at(2).role(), Role::Leader);
    assert_eq!(trio.at(3).counters().snapshots_installed, 1);
    assert_alike(&mut trio, 2, 3);
}

/// Lets replica 3 learn of replica 1's snapshot, and nothing more.
fn offer(trio: &mut Trio) {
    while trio.at(3).wanted_chunk().is_none() {
        trio.at(1).tick(NOW);
        let messages: Vec<_> = [1, 3].into_iter().flat_map(|id| trio.at(id).take_messages()).collect();
        messages.into_iter().for_each(|message| trio.at(message.to().0).receive(message, NOW));
    }
}

/// Returns the content of replica 3 before and after a snapshot replaced its log, and its disk after a crash
/// at each moment in between. The leader does not know of the snapshot's installation yet.
fn crashes() -> (Trio, [Content; 2], Vec<SimDisk>) {
    let mut trio = far_behind();
    let before = content(trio.at(3));
    offer(&mut trio);
    let survivors: Arc<Mutex<Vec<SimDisk>>> = Arc::default();
    let (disk, all) = (trio.disks[2].clone(), Arc::clone(&survivors));
    trio.disks[2].observe(move |_| {
        let mut all = all.lock().unwrap();
        let mode = [CrashMode::LoseAll, CrashMode::Random, CrashMode::KeepAll][all.len() % 3];
        all.push(disk.crash(mode));
    });
    while let Some(request) = trio.at(3).wanted_chunk() {
        let chunk = trio.at(1).chunk_reader(&request).unwrap().read().unwrap();
        trio.at(3).take_chunk(&request, Some(chunk), NOW);
    }
    trio.disks[2].observe(|_| ());
    assert_eq!(trio.at(3).counters().snapshots_installed, 1);
    let after = content(trio.at(3));
    let survivors = std::mem::take(&mut *survivors.lock().unwrap());
    (trio, [before, after], survivors)
}

#[test]
fn a_crash_at_any_moment_leaves_the_old_log_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for moment in 0..crashes().2.len() {
        let (mut trio, [before, after], survivors) = crashes();
        let disk = survivors[moment].clone();
        let replica = open_with(&disk, trimming(), options(3, &[1, 2, 3])).unwrap();
        match content(&replica) {
            found if found == before => old += 1,
            found if found == after => new += 1,
            found => panic!("moment {moment}: neither the old log nor the new one: {found:?}"),
        }
        trio.replicas[2] = replica;
        trio.disks[2] = disk;
        trio.beat(1, 250, |_, _| false);
        assert_alike(&mut trio, 1, 3);
    }
    assert!(old > 10 && new > 3, "{old} with the old log, {new} with the new one");
}

#[test]
fn a_full_disk_while_a_snapshot_is_fetched_or_installed_is_got_over() {
    let mut after = 0;
    loop {
        let mut trio = far_behind();
        offer(&mut trio);
        let (kind, path_ends) = (Some(OpKind::Write), String::new());
        trio.disks[2].add_rule(Rule { kind, path_ends, after, times: 1, effect: Effect::Enospc });
        trio.beat(1, 2, |_, _| false);
        trio.disks[2].clear_rules();
        let was_hit = trio.at(3).counters().snapshots_given_up > 0 || trio.at(3).halted().is_some();
        if trio.at(3).halted().is_some() {
            trio.disks[2] = trio.disks[2].crash(CrashMode::LoseAll);
            trio.replicas[2] = open_with(&trio.disks[2], trimming(), options(3, &[1, 2, 3])).unwrap();
        }
        trio.beat(1, 250, |_, _| false);
        assert_alike(&mut trio, 1, 3);
        if !was_hit {
            break;
        }
        after += 1;
    }
    assert!(after > 5, "only {after} writes");
}

#[test]
fn a_new_learner_joins_a_trimmed_log_and_becomes_a_voter() {
    join_what_had_one_replica(true);
}

/// A single replica starts with epoch 0, which is not a term of raft. The new replica must not take those
/// entries for its own.
#[test]
fn a_new_learner_joins_a_whole_log_that_had_one_replica() {
    join_what_had_one_replica(false);
}

fn join_what_had_one_replica(trimmed: bool) {
    let store_disk = disk();
    let store = LogStore::new(store_disk.clone(), 4);
    let dir = Path::new("/data/t-0");
    let (mut solo, _) = Solo::open(&store, dir, &identity(), trimming(), STRICT, NOW).unwrap();
    solo.begin_epoch().unwrap();
    for number in 0..20 {
        let (header, bytes) = batch(&format!("batch {number}"));
        solo.append(&header, &bytes, NOW).unwrap();
    }
    let ticket = solo.begin_sync(true).unwrap();
    let result = ticket.run();
    solo.finish_sync(&ticket, &result);
    if trimmed {
        let trim = solo.retain(NOW).unwrap().unwrap();
        let result = trim.run();
        solo.finish_trim(&trim, &result);
    }
    solo.close().unwrap();

    let disks = vec![store_disk, disk(), disk()];
    let open = |(id, disk): (u64, &SimDisk)| open_with(disk, trimming(), options(id, &[1])).unwrap();
    let replicas = (1..).zip(&disks).map(open).collect();
    let mut trio = Trio { disks, replicas };
    trio.lead(1);
    assert_eq!(trio.at(1).reader().log_start() > Offset(5), trimmed);
    trio.at(1).change_members(MemberChange::AddLearner(ReplicaId(2)), NOW).unwrap();
    trio.beat(1, 8, |_, _| false);
    assert_eq!(trio.at(2).counters().snapshots_installed, 1);
    assert!(trio.at(1).has_caught_up(ReplicaId(2)));
    trio.at(1).change_members(MemberChange::Promote(ReplicaId(2)), NOW).unwrap();
    trio.beat(1, 3, |_, _| false);
    assert_eq!(trio.at(2).members().voters, [ReplicaId(1), ReplicaId(2)]);
    assert_alike(&mut trio, 1, 2);
    // Without the second replica, the first has no majority.
    let appended = append(trio.at(1), "alone").unwrap();
    trio.talk(cut_off(2));
    assert_eq!(trio.at(1).fate(&appended), Fate::Open);
    trio.beat(1, 3, |_, _| false);
    assert_eq!(trio.at(1).fate(&appended), Fate::Committed);
}

#[test]
fn deleted_records_are_gone_on_all_replicas_also_after_a_crash() {
    let mut trio = Trio::new();
    trio.lead(2);
    for number in 0..10 {
        append(trio.at(2), &format!("batch {number}")).unwrap();
    }
    trio.talk(|_, _| false);
    trio.at(2).advance_log_start(Offset(4), NOW).unwrap();
    assert_eq!(trio.at(2).reader().log_start(), Offset(0), "not committed yet");
    trio.beat(2, 3, |_, _| false);
    for id in 1..=3 {
        assert_eq!(trio.at(id).reader().log_start(), Offset(4), "replica {id}");
    }
    // No replica has written it into a checkpoint yet. The entry says it, once it is known to be committed.
    for id in 1..=3_u64 {
        let disk = trio.disks[id as usize - 1].crash(CrashMode::LoseAll);
        trio.replicas[id as usize - 1] = open(&disk, options(id, &[1, 2, 3])).unwrap();
        trio.disks[id as usize - 1] = disk;
    }
    trio.hand_over(3);
    trio.beat(3, 3, |_, _| false);
    for id in 1..=3 {
        assert_eq!(trio.at(id).reader().log_start(), Offset(4), "replica {id} after the crash");
        assert!(retain(trio.at(id)), "replica {id}");
        assert!(!retain(trio.at(id)), "replica {id}");
    }
    let refused = trio.at(1).advance_log_start(Offset(5), NOW);
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn each_replica_compacts_by_itself_and_brings_others_up_to_date() {
    let config = LogConfig { segment_bytes: 300, ..LogConfig::default() };
    let mut trio = Trio::with(&config);
    trio.lead(1);
    for sequence in 0..20 {
        let (header, bytes) = idempotent(5, sequence);
        trio.at(1).append(&header, bytes, None, NOW).unwrap();
        trio.talk(cut_off(3));
    }
    let policy =
        CompactionPolicy { min_lag_ms: 0, max_lag_ms: i64::MAX, delete_retention_ms: 0, io_bytes: 1 << 16 };
    let mut round = trio.at(1).begin_compaction(&policy, NOW).unwrap().unwrap();
    let mut map = tailrace_log::KeyMap::new(1 << 16, 0.9, tailrace_log::HashSecret([1, 2]));
    let mut pace = tailrace_log::Unhurried;
    round.index(&mut map, &mut pace).unwrap();
    while let Some(rewritten) = round.rewrite_next(&map, &mut pace).unwrap() {
        let trim = trio.at(1).install_compacted(rewritten).unwrap().ok().unwrap();
        let result = trim.run();
        trio.at(1).finish_trim(&trim, &result);
    }
    drop(round);
    let records = |replica: &Replica<SimDisk>| {
        let counts =
            content(replica).into_iter().map(|(_, bytes)| BatchHeader::parse(&bytes).unwrap().record_count);
        counts.sum::<i32>()
    };
    assert!(records(trio.at(1)) < records(trio.at(2)));
    trio.beat(1, 8, |_, _| false);
    assert_eq!(trio.at(3).counters().snapshots_installed, 1);
    assert_alike(&mut trio, 1, 3);
    // A start copes with what is left.
    for id in [1, 3_u64] {
        let before = content(trio.at(id));
        let disk = trio.disks[id as usize - 1].crash(CrashMode::LoseAll);
        trio.replicas[id as usize - 1] = open_with(&disk, config.clone(), options(id, &[1, 2, 3])).unwrap();
        trio.disks[id as usize - 1] = disk;
        trio.lead(2);
        assert_eq!(content(trio.at(id)), before, "replica {id}");
    }
}

#[test]
fn a_start_does_not_read_the_whole_log() {
    let disk = disk();
    let mut replica = open(&disk, options(1, &[1])).unwrap();
    replica.campaign(NOW);
    for number in 0..200 {
        append(&mut replica, &format!("batch {number} {}", "x".repeat(400))).unwrap();
    }
    checkpoint(&mut replica);
    replica.close().unwrap();
    let before = disk.stats().bytes_read;
    let replica = open(&disk, options(1, &[1])).unwrap();
    assert_eq!(replica.reader().high_watermark().get(), 200);
    let read = disk.stats().bytes_read - before;
    assert!(read < 30_000, "{read} bytes read of {} in the log", replica.reader().log().size_bytes());
}

/// Whatever a crash leaves of a trim, the replica opens: the ballot knows of the trim before anything is
/// removed.
#[test]
fn a_crash_at_any_moment_of_a_trim_leaves_a_replica_that_opens() {
    let mut trio = Trio::with(&trimming());
    trio.lead(1);
    for number in 0..20 {
        append(trio.at(1), &format!("batch {number}")).unwrap();
        trio.talk(|_, _| false);
    }
    trio.at(1).advance_log_start(Offset(9), NOW).unwrap();
    trio.beat(1, 3, |_, _| false);
    let survivors: Arc<Mutex<Vec<SimDisk>>> = Arc::default();
    let (disk, all) = (trio.disks[1].clone(), Arc::clone(&survivors));
    trio.disks[1].observe(move |_| {
        let modes = [CrashMode::LoseAll, CrashMode::Random, CrashMode::KeepAll];
        all.lock().unwrap().extend(modes.map(|mode| disk.crash(mode)));
    });
    checkpoint(trio.at(2));
    assert!(retain(trio.at(2)));
    trio.disks[1].observe(|_| ());
    let survivors = std::mem::take(&mut *survivors.lock().unwrap());
    assert!(survivors.len() > 20, "{}", survivors.len());
    for (moment, disk) in survivors.into_iter().enumerate() {
        let opened = open_with(&disk, trimming(), options(2, &[1, 2, 3]));
        let replica = opened.unwrap_or_else(|error| panic!("moment {moment}: {error}"));
        assert!(replica.reader().log_start() <= trio.at(2).reader().log_start());
    }
}
