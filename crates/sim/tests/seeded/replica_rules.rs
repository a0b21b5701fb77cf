//! The rules of replicas, one by one: which replicas append, what is refused, and what a deposed leader and a
//! replica that forgot do.
#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::path::Path;

use bytes::BytesMut;
use tailrace_log::{LogConfig, LogStore, read_identity};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::raft::{
    DeliberateBug, Fate, MemberChange, PeerMessage, ProposeError, ReplicaId, Role,
};
use tailrace_replication::{Solo, TransactionMarker};
use tailrace_sim::{CrashMode, Effect, OpKind, Rule};
use tailrace_types::{Offset, ProducerEpoch, ProducerId};

use crate::common::trio::{NOW, STRICT, Trio, append, batch, cut_off, disk, identity, open, options};

/// If the folder did not say whose it is, another topic of the same name could take it over.
#[test]
fn a_replica_that_may_take_part_has_a_folder_that_says_whose_it_is() {
    let before = disk();
    drop(open(&before, options(1, &[1, 2, 3])).unwrap());
    let after = before.crash(CrashMode::LoseAll);
    let found = read_identity(&after, Path::new("/data/t-0")).unwrap();
    assert_eq!(found, Some(identity()));
}

#[test]
fn a_batch_counts_when_a_majority_has_it_durable() {
    let mut trio = Trio::new();
    trio.lead(1);
    let appended = append(trio.at(1), "a").unwrap();
    for message in trio.at(1).take_messages() {
        let to = message.to().0;
        trio.at(to).receive(message, NOW);
    }
    // All three have it, and none has synced.
    assert!((1..=3).all(|id| trio.at(id).reader().log_end().get() == 1));
    assert_eq!(trio.at(1).fate(&appended), Fate::Open);
    for id in [2, 3] {
        assert!(trio.at(id).take_messages().is_empty(), "acknowledged before the sync");
    }
    // The followers are enough, because the leader's own disk may be slow.
    for id in [2, 3] {
        trio.sync(id);
        for message in trio.at(id).take_messages() {
            trio.at(1).receive(message, NOW);
        }
    }
    assert_eq!(trio.at(1).fate(&appended), Fate::Committed);
    assert_eq!(trio.at(1).reader().high_watermark().get(), 1);
}

#[test]
fn only_the_leader_appends_and_proposals_of_peers_are_refused() {
    let mut trio = Trio::new();
    trio.lead(2);
    let refused = append(trio.at(1), "a");
    assert!(matches!(refused, Err(ProposeError::NotLeader { leader: Some(ReplicaId(2)) })), "{refused:?}");
    assert!(trio.at(1).take_messages().is_empty(), "a follower forwards nothing");
    let own = trio.at(2).change_members(MemberChange::Remove(ReplicaId(2)), NOW);
    assert!(matches!(own, Err(ProposeError::OwnRemoval)), "{own:?}");
}

#[test]
fn a_barrier_passes_when_a_majority_has_agreed_and_takes_no_offset() {
    let mut trio = Trio::new();
    trio.lead(1);
    append(trio.at(1), "a").unwrap();
    let barrier = trio.at(1).begin_barrier(NOW).unwrap();
    trio.sync(1);
    assert_eq!(trio.at(1).has_passed(&barrier), Some(false), "no other replica has received it");
    trio.talk(|_, _| false);
    assert_eq!(trio.at(1).has_passed(&barrier), Some(true));
    assert_eq!(trio.at(1).reader().high_watermark().get(), 1, "the entries before it are committed");
    assert!((1..=3).all(|id| trio.at(id).reader().log_end().get() == 1));
    assert_eq!(append(trio.at(1), "b").unwrap().base_offset, Offset(1));

    let refused = trio.at(2).begin_barrier(NOW);
    assert!(matches!(refused, Err(ProposeError::NotLeader { leader: Some(ReplicaId(1)) })), "{refused:?}");
    trio.talk(|_, _| false);
    // It is still there after a start, and has no effect.
    let disk = trio.disks[0].crash(CrashMode::LoseAll);
    let again = open(&disk, options(1, &[1, 2, 3])).unwrap();
    assert_eq!(again.reader().log_end().get(), 2);
}

#[test]
fn a_leader_that_was_cut_off_gets_no_barrier_past_its_successor() {
    let mut trio = Trio::new();
    trio.lead(1);
    let before = trio.at(1).begin_barrier(NOW).unwrap();
    let other = trio.replace_first();
    append(trio.at(other), "behind its back").unwrap();
    trio.talk(cut_off(1));
    assert_eq!(trio.at(1).role(), Role::Leader, "it does not know the other leader yet");
    let barrier = trio.at(1).begin_barrier(NOW).unwrap();
    assert_eq!(trio.at(1).has_passed(&before), Some(false));
    assert_eq!(trio.at(1).has_passed(&barrier), Some(false));
    trio.beat(other, 4, |_, _| false);
    assert_eq!(trio.at(1).has_passed(&before), None);
    assert_eq!(trio.at(1).has_passed(&barrier), None);
    // In a later term of its own, the old barriers still do not pass.
    trio.hand_over(1);
    trio.beat(1, 4, |_, _| false);
    assert_eq!(trio.at(1).has_passed(&barrier), None);
}

#[test]
fn a_leader_takes_what_is_committed_for_ever_and_what_is_not_up_to_a_bound() {
    let large = "x".repeat(8 << 20);
    let mut trio = Trio::new();
    trio.lead(1);
    for _ in 0..12 {
        append(trio.at(1), &large).unwrap();
        trio.talk(|_, _| false);
    }
    assert_eq!(trio.at(1).reader().high_watermark().get(), 12);
    let mut taken = 0;
    let refused = loop {
        match append(trio.at(1), &large) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
        trio.talk(cut_off(1));
    };
    assert!(matches!(refused, ProposeError::Busy), "{refused:?}");
    assert_eq!(taken, 8, "64 MiB");
    // As soon as the others are reachable again, it accepts more.
    trio.beat(1, 4, |_, _| false);
    append(trio.at(1), &large).unwrap();
    trio.talk(|_, _| false);
    assert_eq!(trio.at(1).reader().high_watermark().get(), 21);
}

#[test]
fn what_a_deposed_leader_alone_had_is_cut_off_and_its_fate_told() {
    let mut trio = Trio::new();
    trio.lead(1);
    let kept = append(trio.at(1), "kept").unwrap();
    trio.talk(|_, _| false);
    let lost = append(trio.at(1), "lost").unwrap();
    trio.talk(cut_off(1));
    let leader = trio.replace_first();
    let other = append(trio.at(leader), "other").unwrap();
    trio.talk(cut_off(1));
    assert_eq!(trio.at(1).fate(&lost), Fate::Open);
    for _ in 0..10 {
        trio.at(leader).tick(NOW);
        trio.talk(|_, _| false);
    }
    assert_eq!(trio.at(1).fate(&kept), Fate::Committed);
    // Another batch is at the same offset, below the high watermark.
    assert_eq!(other.base_offset, lost.base_offset);
    assert!(trio.at(1).reader().high_watermark().get() > lost.base_offset.get());
    assert_eq!(trio.at(1).fate(&lost), Fate::Lost);
    assert_eq!(trio.at(1).counters().truncations, 1);
}

/// Seed 1639 of clusters: when the disk failed at this moment, readers got the batch as if it were committed.
#[test]
fn what_could_not_be_cut_off_is_not_taken_for_committed() {
    let mut stopped = 0;
    for after in 0..40 {
        let mut trio = Trio::new();
        trio.lead(1);
        append(trio.at(1), "kept").unwrap();
        trio.talk(|_, _| false);
        append(trio.at(1), "lost").unwrap();
        trio.talk(cut_off(1));
        let leader = trio.replace_first();
        let other = append(trio.at(leader), "other").unwrap();
        trio.talk(cut_off(1));
        let (path_ends, times) = (String::new(), u64::MAX);
        trio.disks[0].add_rule(Rule { kind: None, path_ends, after, times, effect: Effect::Eio });
        trio.beat(leader, 10, |_, _| false);
        stopped += usize::from(trio.at(1).halted().is_some());
        let reader = trio.at(1).reader();
        let is_leaders = reader.log().epoch_at(other.base_offset) == Some(other.epoch);
        assert!(is_leaders || reader.high_watermark().get() <= 1, "after {after} operations");
    }
    assert!(stopped > 3, "{stopped}");
}

#[test]
fn a_deposed_leader_whose_own_batches_were_never_synced_acknowledges_what_takes_their_place() {
    let mut trio = Trio::new();
    trio.lead(1);
    append(trio.at(1), "kept").unwrap();
    trio.talk(|_, _| false);
    for _ in 0..3 {
        append(trio.at(1), "lost").unwrap();
    }
    drop(trio.at(1).take_messages());
    let mut to_deposed = Vec::new();
    for _ in 0..40 {
        trio.at(2).tick(NOW);
        trio.at(3).tick(NOW);
        to_deposed.extend(trio.talk_among(&[2, 3]));
    }
    let leader = if trio.at(2).role() == Role::Leader { 2 } else { 3 };
    for message in to_deposed {
        trio.at(1).receive(message, NOW);
    }
    assert_eq!((trio.at(1).counters().truncations, trio.at(1).reader().log_end().get()), (1, 1));
    // The third replica is gone, so nothing is committed without the deposed leader.
    let appended = append(trio.at(leader), "new").unwrap();
    for _ in 0..5 {
        trio.at(leader).tick(NOW);
        trio.talk_among(&[1, leader]);
    }
    assert_eq!(trio.at(leader).fate(&appended), Fate::Committed);
}

#[test]
fn a_replica_that_forgot_what_it_acknowledged_stops_instead_of_taking_part() {
    let mut trio = Trio::new();
    trio.lead(1);
    append(trio.at(1), "a").unwrap();
    trio.talk(|_, _| false);
    let empty = disk();
    trio.replicas[1] = open(&empty, options(2, &[1, 2, 3])).unwrap();
    for _ in 0..4 {
        trio.at(1).tick(NOW);
        trio.talk(|_, _| false);
    }
    let reason = trio.at(2).halted().unwrap().to_owned();
    assert!(reason.contains("under a new id"), "{reason}");
}

#[test]
fn a_vote_survives_a_crash_that_loses_all_that_was_not_synced() {
    let mut trio = Trio::new();
    trio.lead(1);
    let epoch = trio.at(1).epoch();
    let disk = trio.disks[1].crash(CrashMode::LoseAll);
    assert_eq!(open(&disk, options(2, &[1, 2, 3])).unwrap().epoch(), epoch);
}

/// Makes `id` the leader in a later term, with the vote of `other`, and lets it send nothing after that.
fn elect(trio: &mut Trio, id: u64, other: u64) {
    let before = trio.at(id).epoch();
    let leads = |trio: &mut Trio| trio.at(id).role() == Role::Leader && trio.at(id).epoch() > before;
    while !leads(trio) {
        for at in [id, other] {
            trio.at(at).tick(NOW);
            trio.sync(at);
            for message in trio.at(at).take_messages() {
                let to = message.to().0;
                if !leads(trio) && [id, other].contains(&to) {
                    trio.at(to).receive(message, NOW);
                }
            }
        }
    }
    trio.sync(id);
    drop(trio.at(id).take_messages());
}

/// Figure 8 of the raft paper, with three replicas: a majority has a batch of an older term durable. Returns
/// the batch's fate as its leader knows it, first then, and later when another leader has overwritten the
/// batch.
fn figure_eight(bug: Option<DeliberateBug>) -> (Fate, impl FnOnce() -> Fate) {
    let mut trio = Trio::new();
    if let Some(bug) = bug {
        trio.replicas.iter_mut().for_each(|replica| replica.misbehave(bug));
    }
    trio.lead(1);
    // Large enough to fill a message, so that the next batch comes in another one.
    let old = append(trio.at(1), &"old".repeat(500_000)).unwrap();
    trio.sync(1);
    drop(trio.at(1).take_messages());
    elect(&mut trio, 2, 3);
    elect(&mut trio, 1, 3);
    let end = trio.at(1).reader().log_end();
    while trio.at(3).reader().log_end() < end {
        trio.at(1).tick(NOW);
        for at in [1, 3] {
            trio.sync(at);
            let messages = trio.at(at).take_messages().into_iter().filter(|m| m.to() != ReplicaId(2));
            messages.for_each(|message| trio.at(message.to().0).receive(message, NOW));
        }
    }
    trio.sync(3);
    for message in trio.at(3).take_messages() {
        trio.at(1).receive(message, NOW);
    }
    drop(trio.at(1).take_messages());
    let fate = trio.at(1).fate(&old);
    let overwritten = move || {
        elect(&mut trio, 2, 3);
        trio.beat(2, 20, |_, _| false);
        assert_eq!(trio.at(2).role(), Role::Leader);
        assert_eq!((trio.at(1).counters().truncations, trio.at(3).counters().truncations), (1, 1));
        trio.at(1).fate(&old)
    };
    (fate, overwritten)
}

/// Seed 2709 of clusters: with nothing appended, a replica that was gone counted towards the majority, and
/// another one was removed.
#[test]
fn who_is_gone_does_not_keep_up_however_much_it_had() {
    let mut trio = Trio::new();
    trio.lead(1);
    append(trio.at(1), "a").unwrap();
    trio.beat(1, 12, |_, _| false);
    for _ in 0..60 {
        assert!((1..=3).all(|id| trio.at(1).keeps_up(ReplicaId(id))));
        trio.beat(1, 1, |_, _| false);
    }
    trio.beat(1, 25, cut_off(3));
    assert!(trio.at(1).has_caught_up(ReplicaId(3)));
    let keeping_up: Vec<u64> = (1..=3).filter(|id| trio.at(1).keeps_up(ReplicaId(*id))).collect();
    assert_eq!(keeping_up, [1, 2]);
    trio.beat(1, 4, |_, _| false);
    assert!(trio.at(1).keeps_up(ReplicaId(3)));
}

#[test]
fn a_leader_that_the_one_before_has_removed_makes_way() {
    let mut trio = Trio::new();
    trio.lead(1);
    trio.at(1).change_members(MemberChange::Remove(ReplicaId(2)), NOW).unwrap();
    for message in trio.at(1).take_messages() {
        let to = message.to().0;
        trio.at(to).receive(message, NOW);
    }
    // All have it, but the leader does not learn of that.
    for id in [2, 3] {
        trio.sync(id);
        drop(trio.at(id).take_messages());
    }
    elect(&mut trio, 2, 3);
    for _ in 0..100 {
        (1..=3).for_each(|id| trio.at(id).tick(NOW));
        trio.talk(|_, _| false);
    }
    let leader = [1, 3].into_iter().find(|id| trio.at(*id).role() == Role::Leader).unwrap();
    assert!(!trio.at(leader).members().voters.contains(&ReplicaId(2)));
    let appended = append(trio.at(leader), "after").unwrap();
    trio.talk(|_, _| false);
    assert_eq!(trio.at(leader).fate(&appended), Fate::Committed);
}

#[test]
fn an_entry_of_an_older_term_is_not_committed_by_counting_replicas() {
    let (fate, overwritten) = figure_eight(None);
    assert_eq!(fate, Fate::Open);
    assert_eq!(overwritten(), Fate::Lost);
}

#[test]
fn an_entry_of_an_older_term_that_is_committed_by_counting_replicas_is_noticed() {
    assert_eq!(figure_eight(Some(DeliberateBug::CountOlderTerms)).0, Fate::Committed);
}

#[test]
fn a_term_is_durable_before_any_entry_of_it_is() {
    let mut trio = Trio::new();
    trio.at(1).campaign(NOW);
    let to_third = trio.talk_among(&[1, 2]);
    assert_eq!(trio.at(1).role(), Role::Leader);
    let path_ends = "ballot".to_owned();
    let (kind, effect) = (Some(OpKind::Write), Effect::Eio);
    trio.disks[2].add_rule(Rule { kind, path_ends, after: 0, times: u64::MAX, effect });
    // It learns of the term with the leader's first entry.
    trio.at(3).receive(to_third.into_iter().last().unwrap(), NOW);
    assert!(trio.at(3).halted().is_some());
    let disk = trio.disks[2].crash(CrashMode::KeepAll);
    open(&disk, options(3, &[1, 2, 3])).unwrap();
}

/// A vote survives a power failure, even if nothing was ever written to the log. In seed 406562 of clusters,
/// the folder was gone, and a replica that had voted voted again.
#[test]
fn a_vote_of_a_replica_that_has_nothing_else_is_durable() {
    let mut trio = Trio::new();
    trio.at(1).campaign(NOW);
    for _ in 0..4 {
        for id in [1, 2] {
            for message in trio.at(id).take_messages().into_iter().filter(|message| message.to().0 < 3) {
                let to = message.to().0;
                if trio.at(1).role() != Role::Leader {
                    trio.at(to).receive(message, NOW);
                }
            }
        }
    }
    assert_eq!(trio.at(1).role(), Role::Leader);
    assert_eq!(trio.at(2).reader().log_end().get(), 0);
    let voted_in = trio.at(2).epoch();
    assert!(voted_in.get() > 0);
    let again = open(&trio.disks[1].crash(CrashMode::LoseAll), options(2, &[1, 2, 3])).unwrap();
    assert_eq!(again.epoch(), voted_in);
}

#[test]
fn a_folder_of_another_replica_or_without_its_log_is_refused() {
    let disk = disk();
    drop(open(&disk, options(2, &[1, 2, 3])).unwrap());
    let refused = open(&disk, options(3, &[1, 2, 3])).unwrap_err().to_string();
    assert!(refused.contains("belongs to replica 2, expected 3"), "{refused}");
}

#[test]
fn a_partition_that_had_one_replica_is_taken_over_with_all_that_is_in_it() {
    let disk = disk();
    let store = LogStore::new(disk.clone(), 4);
    let dir = Path::new("/data/t-0");
    let (mut solo, _) = Solo::open(&store, dir, &identity(), LogConfig::default(), STRICT, NOW).unwrap();
    solo.begin_epoch().unwrap();
    for text in ["a", "b"] {
        let (header, bytes) = batch(text);
        solo.append(&header, &bytes, NOW).unwrap();
    }
    solo.close().unwrap();
    let mut replica = open(&disk, options(1, &[1])).unwrap();
    assert_eq!(replica.reader().high_watermark().get(), 2);
    replica.campaign(NOW);
    assert_eq!(replica.role(), Role::Leader);
    let appended = append(&mut replica, "c").unwrap();
    assert_eq!(appended.base_offset, Offset(2));
    let ticket = replica.begin_sync(false).unwrap();
    let result = ticket.run();
    replica.finish_sync(&ticket, &result, NOW);
    assert_eq!(replica.reader().high_watermark().get(), 3);
    assert!(replica.epoch().get() > 0);
}

#[test]
fn a_damaged_batch_of_a_peer_is_not_taken() {
    let mut trio = Trio::new();
    trio.lead(1);
    append(trio.at(1), "unharmed").unwrap();
    let messages = trio.at(1).take_messages();
    let to_second = messages.into_iter().find(|message| message.to() == ReplicaId(2)).unwrap();
    let mut bytes = BytesMut::new();
    to_second.encode(&mut bytes);
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    let damaged = PeerMessage::decode(bytes.freeze()).unwrap();
    trio.at(2).receive(damaged, NOW);
    assert_eq!(trio.at(2).counters().refused_messages, 1);
    assert_eq!(trio.at(2).reader().log_end().get(), 0);
    assert!(trio.at(2).halted().is_none());
}

/// The engine asks for the last term while it is created, and panics if it gets no answer: seeds 7202 and
/// 12221 of clusters.
#[test]
fn a_disk_that_cannot_be_read_keeps_a_replica_from_opening_and_does_nothing_worse() {
    let mut trio = Trio::new();
    trio.lead(1);
    for text in ["a", "b", "c"] {
        append(trio.at(1), text).unwrap();
        trio.talk(|_, _| false);
    }
    let mut refused = 0;
    for after in 0.. {
        let disk = trio.disks[0].crash(CrashMode::KeepAll);
        let (kind, path_ends, times) = (Some(OpKind::Read), String::new(), u64::MAX);
        disk.add_rule(Rule { kind, path_ends, after, times, effect: Effect::Eio });
        let opened = open(&disk, options(1, &[1, 2, 3]));
        disk.clear_rules();
        assert_eq!(open(&disk, options(1, &[1, 2, 3])).unwrap().reader().log_end().get(), 3);
        if opened.is_ok() {
            break;
        }
        refused += 1;
    }
    assert!(refused > 3, "{refused}");
}

/// At a start, the high watermark is where the ballot says. A table of producers from a later time no longer
/// shows that the marker above the high watermark may not count. Readers of committed records would then see
/// an open transaction, and compaction would take its records for committed. Seeds 15160 and 28713 of
/// clusters.
#[test]
fn a_table_of_producers_is_not_ahead_of_the_ballot() {
    let mut trio = Trio::new();
    trio.lead(1);
    let (producer_id, producer_epoch) = (ProducerId(9), ProducerEpoch(0));
    let transactional =
        BatchOptions { producer_id, producer_epoch, transactional: true, ..BatchOptions::default() };
    let mut builder = BatchBuilder::new(transactional);
    builder.push(NOW, None, Some(b"in a transaction"), &[]).unwrap();
    let bytes = builder.build();
    trio.at(1).append(&BatchHeader::parse(&bytes).unwrap(), bytes, None, NOW).unwrap();
    append(trio.at(1), "outside").unwrap();
    trio.talk(|_, _| false);
    // All ballots know this.
    trio.hand_over(2);
    trio.hand_over(1);
    let marker = TransactionMarker {
        producer_id,
        producer_epoch,
        coordinator_epoch: 0,
        committed: false,
        epochs_are_bumped: false,
    };
    let marked = trio.at(1).append_marker(&marker, NOW).unwrap();
    assert_eq!(trio.at(1).reader().last_stable_offset(), Offset(0));
    trio.talk(|_, _| false);
    assert_eq!(trio.at(1).reader().last_stable_offset(), Offset(3));
    let ticket = trio.at(1).begin_sync(true).unwrap();
    let result = ticket.run();
    trio.at(1).finish_sync(&ticket, &result, NOW);
    let reader = open(&trio.disks[0].crash(CrashMode::LoseAll), options(1, &[1, 2, 3])).unwrap().reader();
    assert_eq!(reader.log_end().offset(), Offset(3));
    let (high_watermark, stable) = (reader.high_watermark().offset(), reader.last_stable_offset());
    assert!(
        stable == Offset(0) || high_watermark > marked.base_offset,
        "{stable}, committed {high_watermark}"
    );
}
