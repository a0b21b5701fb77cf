//! One node: its disk, and its process while it runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;
use tailrace_coordination::groups::GroupCoordinator;
use tailrace_coordination::transactions::TransactionCoordinator;
use tailrace_log::{Disk, LogConfig, LogError, LogStore};
use tailrace_metadata::cluster::Leaders;
use tailrace_metadata::{Controller, MetadataImage, TopicImage};
use tailrace_replication::raft::{
    ChunkRequest, Counters, Members, PeerMessage, Replica, ReplicaId, ReplicaOptions,
};
use tailrace_replication::{Partition, SyncTicket};
use tailrace_types::{GroupId, LeaderEpoch, NodeId, Offset, TimestampMs, TopicId, TopicPartition};

use super::coordinators::Shard;
use super::messages::Letter;
use super::upkeep::Upkeep;
use super::{CONTROLLER, Halt, World};
use crate::{CrashMode, SimDisk};

pub(super) const TICK_MS: u64 = 20;
/// How long a message to a throttled replica is held up at most, and how many are not sent at all.
const HELD_UP_MS_MAX: u64 = 500;
const REFUSED_ONE_IN: u64 = 10;
/// Wall clocks begin here.
const EPOCH_MS: i64 = 1_700_000_000_000;
pub(super) const DATA: &str = "/data";

/// A node's place in the cluster, as its disk remembers it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) replica: ReplicaId,
    pub(super) founders: Vec<ReplicaId>,
}

pub(super) struct Node {
    pub(super) number: u64,
    pub(super) disk: SimDisk,
    /// Names the disk; random.
    pub(super) directory: [u8; 16],
    /// Goes with the disk.
    pub(super) place: Option<Place>,
    /// The newest replica of each group that was begun here; goes with the disk, too. The server's journal of replicas.
    pub(super) begun: BTreeMap<GroupId, ReplicaId>,
    /// Counts processes.
    pub(super) life: u64,
    pub(super) running: Option<Running>,
    pub(super) up_again_ms: u64,
    pub(super) paused_until_ms: u64,
    /// By how much its wall clock is wrong.
    pub(super) clock_ms: i64,
    /// Power fails from some operation of the disk on.
    pub(super) is_dying: bool,
    /// Operations of its disk may fail until the machine is started anew.
    pub(super) is_failing: bool,
    /// Somebody is asked to let it in.
    pub(super) is_joining: bool,
    /// Something on its disk was damaged, and not mended yet.
    pub(super) is_damaged: bool,
}

/// What a process has in memory.
pub(super) struct Running {
    pub(super) controller: Controller,
    pub(super) image: Arc<MetadataImage>,
    /// One past the last metadata record that was taken over.
    pub(super) applied: Offset,
    pub(super) store: LogStore<SimDisk>,
    pub(super) slots: BTreeMap<GroupId, Slot>,
    /// The topics as they were last carried out.
    pub(super) topics: BTreeMap<TopicId, Arc<TopicImage>>,
    pub(super) leaders: Leaders,
    /// When other nodes were heard of.
    pub(super) heard: BTreeMap<u64, u64>,
    pub(super) transactions: BTreeMap<i32, Shard<TransactionCoordinator>>,
    pub(super) groups: BTreeMap<i32, Shard<GroupCoordinator>>,
    /// Who writes markers; true if it has to look once more.
    pub(super) marker_writers: BTreeMap<String, bool>,
    pub(super) producer_ids: (i64, i64),
    /// By how much its steady clock is ahead of the simulation's: what the wall clock said at the start.
    pub(super) steady_ms: i64,
    pub(super) leads_controller_since: Option<u64>,
    /// One command at a time is planned.
    pub(super) is_planning: bool,
}

/// One replica here.
pub(super) struct Slot {
    pub(super) id: TopicPartition,
    /// `None` if it could not be opened, or has panicked.
    pub(super) core: Option<Partition<SimDisk>>,
    pub(super) replica: ReplicaId,
    /// The first of the founders asks for votes at once.
    pub(super) is_eager: bool,
    pub(super) sync: Option<(u64, SyncTicket<SimDisk>)>,
    pub(super) led: Option<LeaderEpoch>,
    pub(super) upkeep: Upkeep,
    pub(super) wants_room: bool,
}

impl Slot {
    pub(super) fn leads(&self) -> Option<LeaderEpoch> {
        self.core.as_ref().and_then(Partition::leads)
    }

    pub(super) fn replica(&mut self) -> Option<&mut Replica<SimDisk>> {
        self.core.as_mut()?.replica()
    }
}

impl Node {
    pub(super) fn id(&self) -> NodeId {
        NodeId(self.number as i32)
    }

    pub(super) fn wall(&self, now_ms: u64) -> TimestampMs {
        TimestampMs(EPOCH_MS + now_ms as i64 + self.clock_ms)
    }

    pub(super) fn runs(&self, now_ms: u64) -> bool {
        self.running.is_some() && self.paused_until_ms <= now_ms
    }

    pub(super) fn slot(&mut self, group: GroupId) -> Option<&mut Slot> {
        self.running.as_mut()?.slots.get_mut(&group)
    }
}

pub(super) fn folder(id: &TopicPartition) -> PathBuf {
    Path::new(DATA).join(id.to_string())
}

pub(super) fn replica_options(id: ReplicaId, founders: Vec<ReplicaId>, seed: u64) -> ReplicaOptions {
    let members = Members { voters: founders, learners: Vec::new() };
    ReplicaOptions { id, members, election_ticks: 10, heartbeat_ticks: 2, seed }
}

pub(super) fn small_segments(bytes: u64) -> LogConfig {
    LogConfig { segment_bytes: bytes, preallocate_bytes: 1024, retention_ms: None, ..LogConfig::default() }
}

impl World {
    /// One millisecond of one node's replicas.
    pub(super) fn run_replicas(&mut self, number: u64) {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get(&number).filter(|node| node.runs(now_ms)) else { return };
        let now = node.wall(now_ms);
        let groups: Vec<GroupId> =
            node.running.iter().flat_map(|running| running.slots.keys().copied()).collect();
        for (at, group) in groups.into_iter().enumerate() {
            let sync_ms = self.rng.below(6);
            let checkpoint = self.rng.below(200) == 0;
            let Some(node) = self.nodes.get_mut(&number) else { return };
            let Some(slot) = node.slot(group) else { continue };
            let Some(core) = &mut slot.core else { continue };
            // Each node's clock ticks a little beside those of the others.
            if (now_ms + number * 3 + at as u64).is_multiple_of(TICK_MS)
                && let Partition::Replica(replica) = core
            {
                let is_eager = slot.is_eager;
                replica.tick(now);
                if replica.leader().is_none() && is_eager {
                    replica.campaign(now);
                }
                slot.is_eager &= replica.leader().is_none();
            }
            if let Some((_, ticket)) = slot.sync.take_if(|(end, _)| *end <= now_ms) {
                let result: Result<(), LogError> = ticket.run();
                core.finish_sync(&ticket, &result, now);
            }
            if slot.sync.is_none() {
                slot.sync = core.begin_sync(checkpoint).map(|ticket| (now_ms + sync_ms, ticket));
            }
            self.keep_up(number, group);
            self.stepped(number, group);
        }
    }

    /// Sends what a replica has to say, and takes note of whether it leads.
    pub(super) fn stepped(&mut self, number: u64, group: GroupId) {
        let now_ms = self.now_ms;
        let unchecked = self.bug == Some(super::Bug::StaleLeaderReads);
        let Some(slot) = self.nodes.get_mut(&number).and_then(|node| node.slot(group)) else { return };
        let is_throttled = self.throttle.is_some() && !self.is_calm;
        let messages = slot.replica().map(|replica| {
            replica.pace(|_| is_throttled);
            let messages = replica.take_messages().into_iter();
            messages.map(|message| (replica.is_paced(message.to()), message)).collect::<Vec<_>>()
        });
        let messages = messages.unwrap_or_default();
        let (before, leads, own) = (slot.led, super::services::leads(slot, unchecked), slot.replica);
        slot.led = leads;
        let halted = slot.core.as_ref().and_then(Partition::halted).map(str::to_owned);
        for (is_paced, message) in messages {
            let to = message.to().node().0 as u64;
            let mut bytes = BytesMut::new();
            message.encode(&mut bytes);
            let entries = message.append_bytes().filter(|_| is_paced);
            let late_ms = match (entries, &mut self.throttle) {
                (Some(_), Some(throttle)) => throttle.below(HELD_UP_MS_MAX),
                _ => 0,
            };
            if entries.is_some() && late_ms.is_multiple_of(REFUSED_ONE_IN) {
                self.not_sent(number, group, message.to());
            } else if self.nodes.contains_key(&to) {
                self.links.send_late(now_ms, number, to, Letter::Raft(group, bytes.freeze()), late_ms);
                if entries.is_some() {
                    self.count("a throttled message was held up");
                }
            }
        }
        if before != leads {
            self.leadership_changed(number, group, own, leads);
        }
        if let Some(reason) = halted {
            self.replica_halted(number, group, &reason);
        }
    }

    /// Too much is held up already.
    fn not_sent(&mut self, number: u64, group: GroupId, to: ReplicaId) {
        self.count("a throttled message was not sent");
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let now = node.wall(now_ms);
        if let Some(replica) = node.slot(group).and_then(Slot::replica) {
            replica.unreachable(to, now);
        }
    }

    fn leadership_changed(
        &mut self,
        number: u64,
        group: GroupId,
        own: ReplicaId,
        leads: Option<LeaderEpoch>,
    ) {
        if let Some(epoch) = leads {
            self.note(b'l', &[number, epoch.get() as u64, group.partition.0 as u64]);
            self.count("a leader counts");
            if group == CONTROLLER {
                self.count("the controller moved");
            }
            if let Some(running) = self.nodes.get_mut(&number).and_then(|node| node.running.as_mut()) {
                running.leaders.announce(group, own, epoch);
            }
            self.announce(number, vec![(group, epoch)]);
            self.aim_at(group, number);
        }
        self.follow_leader(number, group);
    }

    /// Tells the other nodes what this one leads.
    pub(super) fn announce(&mut self, number: u64, groups: Vec<(GroupId, LeaderEpoch)>) {
        for to in self.others(number) {
            self.links.send(self.now_ms, number, to, Letter::Leading(groups.clone()));
        }
    }

    fn replica_halted(&mut self, number: u64, group: GroupId, reason: &str) {
        let now_ms = self.now_ms;
        let up_again = now_ms + self.rng.between(100, 1000);
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let is_damaged = node.is_damaged;
        let Some(slot) = node.slot(group) else { return };
        if slot.wants_room {
            return;
        }
        if reason.contains("under a new id") && !is_damaged {
            self.failure.get_or_insert(format!(
                "forgotten: replica {} of {group} on node {number}: {reason}",
                slot.replica
            ));
            return;
        }
        if is_damaged && slot.replica().and_then(|replica| replica.beyond_repair()).is_some() {
            slot.wants_room = true;
            self.count("a replica stopped over damage");
            return self.damage_was_found(number);
        }
        let ran_out_of_room = slot.replica().is_some_and(|replica| replica.ran_out_of_room());
        if ran_out_of_room && group != CONTROLLER {
            slot.wants_room = true;
            return self.count("a replica waits for room");
        }
        // Until the process is started anew, this replica takes part in nothing; after a failed sync that takes a new start of the machine.
        slot.wants_room = true;
        self.count("a replica halted");
        self.restarts.insert(number, Halt { at_ms: up_again, mode: CrashMode::Random });
    }

    /// A replica that has stopped for want of room is opened anew when there is some.
    pub(super) fn reopen(&mut self, number: u64) {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get(&number).filter(|node| node.runs(now_ms)) else { return };
        if node.disk.free_bytes(Path::new("/")).unwrap_or(0) < 1 << 16 {
            return;
        }
        let Some(running) = &node.running else { return };
        let waits =
            |slot: &&Slot| slot.wants_room && slot.core.as_ref().is_none_or(|core| core.halted().is_some());
        let waiting: Vec<TopicPartition> =
            running.slots.values().filter(waits).map(|slot| slot.id.clone()).collect();
        for id in waiting {
            if !self.restarts.contains_key(&number) && id.topic.as_str() != tailrace_metadata::METADATA_TOPIC
            {
                self.count("a replica was opened anew");
                self.open_partition(number, &id);
            }
        }
    }

    pub(super) fn receive(&mut self, from: u64, to: u64, letter: Letter) {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(&to) else { return };
        let now = node.wall(now_ms);
        let Some(running) = &mut node.running else { return };
        running.heard.insert(from, now_ms);
        match letter {
            Letter::Ping => {}
            Letter::Leading(groups) => {
                for (group, epoch) in groups {
                    let sender = NodeId(from as i32);
                    let image = &running.image;
                    let replica = match image.topic_by_id(group.topic) {
                        _ if group == CONTROLLER => image
                            .node(sender)
                            .map_or(Some(ReplicaId::new(sender, 0)), |node| Some(node.registration.replica)),
                        Some(topic) => topic.partition(group.partition).and_then(|p| p.present_on(sender)),
                        None => None,
                    };
                    if let Some(replica) = replica {
                        running.leaders.announce(group, replica, epoch);
                    }
                }
            }
            Letter::Raft(group, bytes) => {
                let Ok(message) = PeerMessage::decode(bytes) else {
                    self.failure.get_or_insert("a message between replicas is garbled".to_owned());
                    return;
                };
                let Some(slot) = running.slots.get_mut(&group) else { return };
                // What is meant for an earlier replica, whose disk is gone, must not be taken for one's own.
                if message.from().node().0 as u64 != from || message.to() != slot.replica {
                    return self.count("a message for an earlier replica");
                }
                if let Some(replica) = slot.replica() {
                    replica.receive(message, now);
                    self.stepped(to, group);
                }
            }
            Letter::Ask(group, bytes) => {
                if let Ok(request) = ChunkRequest::decode(bytes) {
                    self.receive_request(to, group, &request);
                }
            }
            Letter::Chunk(group, request, chunk) => self.receive_chunk(to, group, &request, chunk),
        }
    }

    /// Ends a node's process, or its machine. What was not synced may be gone.
    pub(super) fn crash(&mut self, number: u64, mode: CrashMode, down_ms: u64) {
        let up_again = self.now_ms + down_ms;
        self.restarts.remove(&number);
        let Some(node) = self.nodes.get_mut(&number) else { return };
        node.life += 1;
        node.up_again_ms = up_again;
        node.paused_until_ms = 0;
        (node.is_dying, node.is_failing, node.is_joining) = (false, false, false);
        let running = node.running.take();
        node.disk.clear_rules();
        node.disk.set_space(None);
        node.disk = node.disk.crash(mode);
        self.backlog.remove(&number);
        self.links.forget(number);
        self.calls.forget(number);
        for mut slot in running.into_iter().flat_map(|running| running.slots.into_values()) {
            if let Some(replica) = slot.replica() {
                self.add_counters(replica.counters(), replica.wanted_chunk().is_some());
            }
        }
    }

    pub(super) fn add_counters(&mut self, counters: Counters, was_fetching: bool) {
        let happened = [
            ("truncation", counters.truncations),
            ("election", counters.elected),
            ("snapshot offered", counters.snapshots_offered),
            ("snapshot installed", counters.snapshots_installed),
            ("crash while fetching a snapshot", u64::from(was_fetching)),
        ];
        for (what, times) in happened {
            *self.counts.entry(what).or_default() += times;
        }
    }
}
