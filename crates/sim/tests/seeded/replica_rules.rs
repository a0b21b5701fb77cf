//! Rules of replicas, one by one: who appends, what is refused, what a deposed leader and one that forgot do.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what went wrong")]

use std::path::Path;

use bytes::{Bytes, BytesMut};
use tailrace_log::{Disk, LogConfig, LogError, LogStore, PartitionIdentity};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::raft::{
    Fate, MemberChange, Members, PeerMessage, ProposeError, Replica, ReplicaId, ReplicaOptions, Role,
};
use tailrace_replication::{Appended, Durability, Policy, Solo};
use tailrace_sim::{CrashMode, SimDisk};
use tailrace_types::{Offset, PartitionId, TimestampMs, TopicId, TopicName, TopicPartition};

const NOW: TimestampMs = TimestampMs(1000);
const STRICT: Policy = Policy { durability: Durability::Strict, producer_expiration_ms: i64::MAX };

fn disk() -> SimDisk {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new("/data")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn identity() -> PartitionIdentity {
    let topic_partition = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
    PartitionIdentity { topic_id: TopicId([7; 16]), topic_partition }
}

fn options(id: u64, voters: &[u64]) -> ReplicaOptions {
    let members = Members { voters: voters.iter().copied().map(ReplicaId).collect(), learners: Vec::new() };
    ReplicaOptions { id: ReplicaId(id), members, election_ticks: 10, heartbeat_ticks: 2, seed: id }
}

fn open(disk: &SimDisk, options: ReplicaOptions) -> Result<Replica<SimDisk>, LogError> {
    let store = LogStore::new(disk.clone(), 4);
    let opened = Replica::open(
        &store,
        Path::new("/data/t-0"),
        &identity(),
        LogConfig::default(),
        STRICT,
        options,
        NOW,
    );
    opened.map(|(replica, _)| replica)
}

fn batch(text: &str) -> (BatchHeader, Bytes) {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(TimestampMs(1), None, Some(text.as_bytes()), &[]).unwrap();
    let bytes = builder.build();
    (BatchHeader::parse(&bytes).unwrap(), bytes)
}

fn append(replica: &mut Replica<SimDisk>, text: &str) -> Result<Appended, ProposeError> {
    let (header, bytes) = batch(text);
    replica.append(&header, bytes, None, NOW)
}

/// Three replicas whose messages go where and when a test says.
struct Trio {
    disks: Vec<SimDisk>,
    replicas: Vec<Replica<SimDisk>>,
}

impl Trio {
    fn new() -> Self {
        let disks: Vec<_> = (0..3).map(|_| disk()).collect();
        let replicas =
            (1..).zip(&disks).map(|(id, disk)| open(disk, options(id, &[1, 2, 3])).unwrap()).collect();
        Self { disks, replicas }
    }

    fn at(&mut self, id: u64) -> &mut Replica<SimDisk> {
        &mut self.replicas[id as usize - 1]
    }

    fn sync(&mut self, id: u64) {
        while let Some(ticket) = self.at(id).begin_sync(false) {
            let result = ticket.run();
            self.at(id).finish_sync(&ticket, &result, NOW);
        }
    }

    /// Lets everybody work and talk until nothing is left to say. What `lost` says gets lost.
    fn talk(&mut self, lost: impl Fn(u64, u64) -> bool) {
        loop {
            let mut all = Vec::new();
            for id in 1..=3 {
                self.sync(id);
                all.extend(self.at(id).take_messages());
            }
            if all.is_empty() {
                return;
            }
            for message in all {
                let (from, to) = (message.from().0, message.to().0);
                if !lost(from, to) {
                    self.at(to).receive(message, NOW);
                }
            }
        }
    }

    /// The same among `some` only. Returns what they say to others.
    fn talk_among(&mut self, some: &[u64]) -> Vec<PeerMessage> {
        let mut to_others = Vec::new();
        loop {
            let mut all = Vec::new();
            for &id in some {
                self.sync(id);
                all.extend(self.at(id).take_messages());
            }
            if all.is_empty() {
                return to_others;
            }
            for message in all {
                let to = message.to().0;
                if some.contains(&to) { self.at(to).receive(message, NOW) } else { to_others.push(message) }
            }
        }
    }

    fn lead(&mut self, id: u64) {
        self.at(id).campaign(NOW);
        self.talk(|_, _| false);
        assert_eq!(self.at(id).role(), Role::Leader);
    }
}

fn cut_off(id: u64) -> impl Fn(u64, u64) -> bool {
    move |from, to| from == id || to == id
}

#[test]
fn a_batch_counts_when_a_majority_has_it_durable() {
    let mut trio = Trio::new();
    trio.lead(1);
    let appended = append(trio.at(1), "a").unwrap();
    let epoch = trio.at(1).epoch_of_append(&appended);
    for message in trio.at(1).take_messages() {
        let to = message.to().0;
        trio.at(to).receive(message, NOW);
    }
    // All three have it, nobody has synced.
    assert!((1..=3).all(|id| trio.at(id).reader().log_end().get() == 1));
    assert_eq!(trio.at(1).fate(&appended, epoch), Fate::Open);
    for id in [2, 3] {
        assert!(trio.at(id).take_messages().is_empty(), "acknowledged before the sync");
    }
    // The followers are enough: the leader's own disk may be slow.
    for id in [2, 3] {
        trio.sync(id);
        for message in trio.at(id).take_messages() {
            trio.at(1).receive(message, NOW);
        }
    }
    assert_eq!(trio.at(1).fate(&appended, epoch), Fate::Committed);
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
fn what_a_deposed_leader_alone_had_is_cut_off_and_its_fate_told() {
    let mut trio = Trio::new();
    trio.lead(1);
    let kept = append(trio.at(1), "kept").unwrap();
    let kept_epoch = trio.at(1).epoch_of_append(&kept);
    trio.talk(|_, _| false);
    let lost = append(trio.at(1), "lost").unwrap();
    let lost_epoch = trio.at(1).epoch_of_append(&lost);
    trio.talk(cut_off(1));
    for _ in 0..40 {
        trio.at(2).tick(NOW);
        trio.at(3).tick(NOW);
        trio.talk(cut_off(1));
    }
    let leader = if trio.at(2).role() == Role::Leader { 2 } else { 3 };
    let other = append(trio.at(leader), "other").unwrap();
    trio.talk(cut_off(1));
    assert_eq!(trio.at(1).fate(&lost, lost_epoch), Fate::Open);
    for _ in 0..10 {
        trio.at(leader).tick(NOW);
        trio.talk(|_, _| false);
    }
    assert_eq!(trio.at(1).fate(&kept, kept_epoch), Fate::Committed);
    // Something else lies at the same offset, below the high watermark.
    assert_eq!(other.base_offset, lost.base_offset);
    assert!(trio.at(1).reader().high_watermark().get() > lost.base_offset.get());
    assert_eq!(trio.at(1).fate(&lost, lost_epoch), Fate::Lost);
    assert_eq!(trio.at(1).counters().truncations, 1);
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
    // The third is gone: without the deposed leader nothing is committed.
    let appended = append(trio.at(leader), "new").unwrap();
    let epoch = trio.at(leader).epoch_of_append(&appended);
    for _ in 0..5 {
        trio.at(leader).tick(NOW);
        trio.talk_among(&[1, leader]);
    }
    assert_eq!(trio.at(leader).fate(&appended, epoch), Fate::Committed);
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
fn a_partition_whose_beginning_is_gone_is_refused() {
    let disk = disk();
    let store = LogStore::new(disk.clone(), 4);
    let dir = Path::new("/data/t-0");
    let config = LogConfig { segment_bytes: 64, ..LogConfig::default() };
    let (mut solo, _) = Solo::open(&store, dir, &identity(), config, STRICT, NOW).unwrap();
    solo.begin_epoch().unwrap();
    for text in ["a", "b"] {
        let (header, bytes) = batch(text);
        solo.append(&header, &bytes, NOW).unwrap();
    }
    let ticket = solo.begin_sync(true).unwrap();
    let result = ticket.run();
    solo.finish_sync(&ticket, &result);
    let trim = solo.advance_log_start(Offset(1)).unwrap();
    let result = trim.run();
    solo.finish_trim(&trim, &result);
    solo.close().unwrap();
    let refused = open(&disk, options(1, &[1])).unwrap_err().to_string();
    assert!(refused.contains("cannot be replicated yet"), "{refused}");
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
