//! The replicas of a node: they are stepped, heard and told.

use std::path::Path;

use bytes::BytesMut;
use tailrace_log::{Disk, LogError};
use tailrace_replication::Partition;
use tailrace_replication::raft::{ChunkRequest, Counters, PeerMessage, ReplicaId};
use tailrace_types::{LeaderEpoch, NodeId, RaftGroup, TopicPartition};

use super::messages::Letter;
use super::node::{Slot, leads};
use super::options::{Bug, CONTROLLER};
use super::world::{Halt, World};
use crate::CrashMode;

pub(super) const TICK_MS: u64 = 20;
/// How long a message to a throttled replica is held up at most, and how many are not sent at all.
const HELD_UP_MS_MAX: u64 = 500;
const REFUSED_ONE_IN: u64 = 10;
impl World {
    /// One millisecond of one node's replicas.
    pub(super) fn run_replicas(&mut self, number: u64) {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get(&number).filter(|node| node.runs(now_ms)) else { return };
        let now = node.wall(now_ms);
        let groups: Vec<RaftGroup> =
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
    pub(super) fn stepped(&mut self, number: u64, group: RaftGroup) {
        let now_ms = self.now_ms;
        let unchecked = self.bug == Some(Bug::StaleLeaderReads);
        let Some(slot) = self.nodes.get_mut(&number).and_then(|node| node.slot(group)) else { return };
        let is_throttled = self.throttle.is_some() && !self.is_calm;
        let messages = slot.replica().map(|replica| {
            replica.pace(|_| is_throttled);
            let messages = replica.take_messages().into_iter();
            messages.map(|message| (replica.is_paced(message.to()), message)).collect::<Vec<_>>()
        });
        let messages = messages.unwrap_or_default();
        let (before, leads, own) = (slot.led, leads(slot, unchecked), slot.replica);
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
    fn not_sent(&mut self, number: u64, group: RaftGroup, to: ReplicaId) {
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
        group: RaftGroup,
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
    pub(super) fn announce(&mut self, number: u64, groups: Vec<(RaftGroup, LeaderEpoch)>) {
        for to in self.others(number) {
            self.links.send(self.now_ms, number, to, Letter::Leading(groups.clone()));
        }
    }

    fn replica_halted(&mut self, number: u64, group: RaftGroup, reason: &str) {
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
