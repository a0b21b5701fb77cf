//! One replicated partition: shipped replicas on simulated disks, a simulated network, idempotent producers,
//! and faults, all from one seed.
//!
//! [`run`] lets the faults rage, then ends them, waits until the replicas agree, and judges what was seen.

mod aim;
mod aiming;
mod asking;
mod barriers;
mod history;
mod keeping;
mod letter;
mod options;
mod producer;
mod upkeep;
mod world;

use bytes::BytesMut;
use tailrace_log::LogError;
use tailrace_replication::raft::{
    ChunkRequest, MemberChange, Members, PeerMessage, Replica, ReplicaId, Role,
};

pub use self::options::{Bug, GroupOptions, GroupReport};

use self::letter::Letter;
use self::options::REPLICAS;
use self::producer::Producer;
use self::world::{Node, Replacement, World, make_data_folder};
use crate::network::{Traffic, Weather};
use crate::{CrashMode, Failure, SimDisk, tables};

const TICK_MS: u64 = 10;
/// After the faults have ended, the replicas must agree within this time.
const SETTLE_MS: u64 = 30_000;

/// The faults, described for people.
const TROUBLES: [&str; 14] = [
    "crash",
    "crash",
    "crash",
    "pause",
    "cut, one way",
    "cut, one way",
    "cut off",
    "all cuts end",
    "all cuts end",
    "disk full",
    "disks have room",
    "node lost",
    "power fails within a step",
    "leadership moves",
];
/// Events that must occur in a campaign of sufficient length.
pub const RARE: [&str; 29] = [
    "barrier fell",
    "barrier passed",
    "compaction",
    "crash",
    "crash of all",
    "crash right after an installation",
    "crash while fetching a snapshot",
    "cut off",
    "cut right after an election",
    "cut, one way",
    "disk full",
    "doubled",
    "election",
    "halted",
    "leader moved",
    "log start moved",
    "lost",
    "node lost",
    "node replaced",
    "pause",
    "power failed within a step",
    "records deleted",
    "reordered",
    "retry",
    "snapshot given up",
    "snapshot installed",
    "snapshot offered",
    "trim",
    "truncation",
];

/// Runs one seed.
///
/// # Errors
/// The anomaly that was found, and the faults up to then.
pub fn run(options: GroupOptions) -> Result<GroupReport, Failure> {
    let storm_ms = options.storm_ms;
    let bare = |anomaly| Failure { anomaly, faults: Vec::new() };
    let mut world = World::new(options).map_err(bare)?;
    let outcome = live(&mut world, storm_ms);
    let faults = std::mem::take(&mut world.injected);
    outcome.and_then(|()| world.judge()).map_err(|anomaly| Failure { anomaly, faults })
}

fn live(world: &mut World, storm_ms: u64) -> Result<(), String> {
    while world.now_ms < storm_ms {
        world.trouble()?;
        world.cut_leaders();
        world.step()?;
    }
    world.calm()?;
    let settled = world.now_ms + SETTLE_MS;
    while !world.has_settled() {
        if world.now_ms >= settled {
            return Err(format!(
                "the replicas do not agree after {SETTLE_MS} ms without faults: {}",
                world.state()
            ));
        }
        world.step()?;
    }
    Ok(())
}

impl World {
    /// Advances the world by one millisecond.
    fn step(&mut self) -> Result<(), String> {
        self.now_ms += 1;
        while let Some((_, to, letter)) = self.network.arrived(self.now_ms) {
            self.deliver(to, letter)?;
        }
        for id in self.ids() {
            self.run_node(id)?;
        }
        self.replace();
        self.run_producers();
        self.run_barriers()?;
        self.run_consumer()
    }

    fn deliver(&mut self, to: u64, letter: Letter) -> Result<(), String> {
        let now = self.now();
        let Some(node) = self.nodes.get_mut(&to) else { return Ok(()) };
        if node.paused_until_ms > self.now_ms {
            return Ok(());
        }
        match letter {
            Letter::Raft(bytes) => {
                let message = PeerMessage::decode(bytes).map_err(|error| error.to_string())?;
                if let Some(replica) = &mut node.replica {
                    replica.receive(message, now);
                }
            }
            Letter::Ask(bytes) => {
                let request = ChunkRequest::decode(bytes).map_err(|error| error.to_string())?;
                self.receive_request(to, &request);
            }
            Letter::Chunk(request, chunk) => self.receive_chunk(to, &request, chunk),
        }
        Ok(())
    }

    fn run_node(&mut self, id: u64) -> Result<(), String> {
        let (now, now_ms) = (self.now(), self.now_ms);
        let sync_ms = self.rng.between(0, 5);
        let checkpoint = self.rng.percent(5);
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(()) };
        if node.replica.is_none() && node.up_again_ms <= now_ms {
            return self.open(id);
        }
        let Some(replica) = node.replica.as_mut().filter(|_| node.paused_until_ms <= now_ms) else {
            return Ok(());
        };
        // Each node's clock ticks slightly apart from the others.
        if (now_ms + id * 3).is_multiple_of(TICK_MS) {
            replica.tick(now);
        }
        if let Some((_, ticket)) = node.sync.take_if(|(end, _)| *end <= now_ms) {
            let result: Result<(), LogError> = ticket.run();
            replica.finish_sync(&ticket, &result, now);
        }
        if node.sync.is_none() {
            node.sync = replica.begin_sync(checkpoint).map(|ticket| (now_ms + sync_ms, ticket));
        }
        for message in replica.take_messages() {
            let mut bytes = BytesMut::new();
            message.encode(&mut bytes);
            self.network.send(now_ms, id, message.to().0, Letter::Raft(bytes.freeze()));
        }
        self.keep_up(id)?;
        let replica = self.nodes.get(&id).and_then(|node| node.replica.as_ref());
        if let Some(replica) = replica
            && let Some(reason) = replica.halted()
        {
            let reason = reason.to_owned();
            self.halted(id, &reason)?;
        }
        Ok(())
    }

    /// Reopens a halted replica, as a server would once its disk works again.
    fn halted(&mut self, id: u64, reason: &str) -> Result<(), String> {
        if reason.contains("under a new id") {
            return Err(format!("replica {id}: {reason}"));
        }
        self.count("halted");
        let is_dying = self.nodes.get(&id).is_some_and(|node| node.upkeep.is_dying);
        self.crash(id, if is_dying { CrashMode::Random } else { CrashMode::KeepAll });
        Ok(())
    }

    /// Injects a fault now and then.
    fn trouble(&mut self) -> Result<(), String> {
        if self.now_ms < self.trouble_at_ms {
            return Ok(());
        }
        self.trouble_at_ms = self.now_ms + self.rng.between(1, self.calm_ms_max);
        let (id, kind) = (self.any_id(), self.rng.below(14));
        let number = self.troubles;
        self.troubles += 1;
        if self.mask.leaves_out(number) {
            return Ok(());
        }
        self.injected
            .push((number, format!("at {} ms, replica {id}: {}", self.now_ms, TROUBLES[kind as usize])));
        match kind {
            0..=2 => self.crash_somehow(id)?,
            3 => {
                self.count("pause");
                let until = self.now_ms + self.rng.between(50, 1000);
                self.nodes.entry(id).and_modify(|node| node.paused_until_ms = until);
            }
            4 | 5 => {
                self.count("cut, one way");
                let to = self.any_id();
                self.network.cut(id, to);
            }
            6 => {
                self.count("cut off");
                for other in self.ids().into_iter().filter(|other| *other != id) {
                    self.network.cut(id, other);
                    self.network.cut(other, id);
                }
            }
            7 | 8 => {
                self.count("mended");
                self.network.mend();
            }
            9 => {
                self.count("disk full");
                if let Some(node) = self.nodes.get(&id) {
                    let room = self.rng.below(4096);
                    node.disk.set_space(Some(node.disk.used_bytes() + room));
                }
            }
            10 => {
                for node in self.nodes.values() {
                    node.disk.set_space(None);
                }
            }
            11 => self.lose_node(id)?,
            12 => self.kill_slowly(id),
            _ => self.move_leader(id),
        }
        Ok(())
    }

    fn crash_somehow(&mut self, id: u64) -> Result<(), String> {
        let mode = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random][self.rng.below(3) as usize];
        self.count("crash");
        self.crash(id, mode);
        if self.bug == Some(Bug::ReuseReplicaId) && self.rng.percent(50) {
            let disk = SimDisk::new(self.rng.next_u64());
            make_data_folder(&disk)?;
            self.nodes.entry(id).and_modify(|node| node.disk = disk);
        }
        if self.rng.percent(10) {
            self.count("crash of all");
            for other in self.ids() {
                self.crash(other, mode);
            }
        }
        Ok(())
    }

    /// A node is lost together with its disk. This happens to one node at a time: with two of three lost,
    /// nothing could be done.
    fn lose_node(&mut self, old: u64) -> Result<(), String> {
        if self.replacement.is_some() || self.nodes.len() as u64 != REPLICAS {
            return Ok(());
        }
        self.count("node lost");
        self.crash(old, CrashMode::LoseAll);
        self.nodes.remove(&old);
        let new = self.newest_id + 1;
        self.newest_id = new;
        self.replacement = Some(Replacement { old, new });
        self.add_node(new)
    }

    /// Replaces a lost node as an operator would: adds a learner, promotes it to voter, then removes the old
    /// replica. Each step is repeated until it is done.
    ///
    /// The replacement is done once every replica has applied it. Until replicas know that the change is
    /// committed, they count by the old members, and another loss in that time may be one too many.
    fn replace(&mut self) {
        let Some(Replacement { old, new }) = self.replacement else { return };
        let (now, now_ms) = (self.now(), self.now_ms);
        if !now_ms.is_multiple_of(50) {
            return;
        }
        let (old, new) = (ReplicaId(old), ReplicaId(new));
        let is_done = |members: &Members| members.voters.contains(&new) && !members.voters.contains(&old);
        let everywhere = self
            .nodes
            .values()
            .all(|node| node.replica.as_ref().is_some_and(|replica| is_done(&replica.members())));
        if everywhere {
            self.replacement = None;
            self.count("node replaced");
            return;
        }
        let running = self.nodes.values_mut().filter(|node| node.paused_until_ms <= now_ms);
        let mut replicas = running.filter_map(|node| node.replica.as_mut());
        let Some(leader) = replicas.find(|replica| replica.role() == Role::Leader) else { return };
        let members = leader.members();
        let (is_voter, is_learner) = (members.voters.contains(&new), members.learners.contains(&new));
        let change = match (is_voter, is_learner) {
            (true, _) if members.voters.contains(&old) => MemberChange::Remove(old),
            (false, true) if leader.has_caught_up(new) => MemberChange::Promote(new),
            (true, _) | (false, true) => return,
            (false, false) => MemberChange::AddLearner(new),
        };
        // If the change is refused, the next round tries again.
        let _ = leader.change_members(change, now);
    }

    fn move_leader(&mut self, to: u64) {
        let now = self.now();
        self.count("leader moved");
        for node in self.nodes.values_mut() {
            if let Some(replica) = &mut node.replica {
                replica.transfer_leadership(ReplicaId(to), now);
            }
        }
    }

    /// Ends all faults.
    fn calm(&mut self) -> Result<(), String> {
        self.network.mend();
        self.network.set_weather(Weather::FINE);
        // Crash nodes whose disks are fading.
        let dying = self.nodes.iter().filter(|(_, node)| node.upkeep.is_dying);
        let dying: Vec<u64> = dying.map(|(id, _)| *id).collect();
        dying.into_iter().for_each(|id| self.crash(id, CrashMode::Random));
        for node in self.nodes.values_mut() {
            (node.paused_until_ms, node.up_again_ms) = (0, 0);
            node.disk.set_space(None);
        }
        for producer in &mut self.producers {
            producer.stop();
        }
        Ok(())
    }

    fn run_producers(&mut self) {
        let now = self.now();
        let eager = self.bug == Some(Bug::AcknowledgeOnAppend);
        let ids: Vec<u64> = self.nodes.keys().copied().collect();
        for producer in &mut self.producers {
            let target = producer.target(&ids);
            let node = self.nodes.get_mut(&target).filter(|node| node.paused_until_ms <= self.now_ms);
            let replica = node.and_then(|node| node.replica.as_mut());
            producer.step(self.now_ms, now, replica, eager, &mut self.history);
        }
    }

    /// Lets a consumer read a little from some replica.
    fn run_consumer(&mut self) -> Result<(), String> {
        if !self.rng.percent(10) {
            return Ok(());
        }
        let id = self.any_id();
        let too_far = self.bug == Some(Bug::ReadUncommitted);
        let Some(node) = self.nodes.get(&id).filter(|node| node.paused_until_ms <= self.now_ms) else {
            return Ok(());
        };
        let Some(replica) = &node.replica else { return Ok(()) };
        self.history.read(&replica.reader(), too_far)
    }

    /// Reports whether all replicas run, one leads, no producer waits, and everything is committed
    /// everywhere.
    fn has_settled(&self) -> bool {
        let replicas: Vec<_> = self.nodes.values().filter_map(|node| node.replica.as_ref()).collect();
        let Some(first) = replicas.first() else { return false };
        let end = first.reader().log_end();
        let alike = |replica: &&&Replica<SimDisk>| {
            let reader = replica.reader();
            let deleted = self.cleanup.retains || reader.log_start() == first.reader().log_start();
            reader.log_end() == end && reader.high_watermark().offset() == end.offset() && deleted
        };
        self.replacement.is_none()
            && replicas.len() as u64 == REPLICAS
            && replicas.iter().any(|replica| replica.role() == Role::Leader)
            && self.producers.iter().all(Producer::is_idle)
            && replicas.iter().filter(alike).count() as u64 == REPLICAS
    }

    fn state(&self) -> String {
        let describe = |(id, node): (&u64, &Node)| match &node.replica {
            Some(replica) => {
                let reader = replica.reader();
                let (start, end, committed) = (reader.log_start(), reader.log_end(), reader.high_watermark());
                format!(
                    "{id}: {:?} in {}, from {start} to {end}, committed {committed}, {:?}, wants {:?}",
                    replica.role(),
                    replica.epoch(),
                    replica.counters(),
                    replica.wanted_chunk()
                )
            }
            None => format!("{id}: down"),
        };
        self.nodes.iter().map(describe).collect::<Vec<_>>().join("; ")
    }

    /// A table that is rebuilt from a compacted log lacks what compaction removed, so compacted logs are not
    /// judged.
    fn judge_tables(&self) -> Result<(), String> {
        let replicas = || self.nodes.iter().filter_map(|(id, node)| Some((*id, node.replica.as_ref()?)));
        let from = replicas().map(|(_, replica)| replica.reader().log_start()).max();
        match from.filter(|_| !self.cleanup.compacts) {
            Some(from) => tables::judge(replicas().map(|(id, replica)| (id, replica.producers())), from),
            None => Ok(()),
        }
    }

    fn judge(mut self) -> Result<GroupReport, String> {
        for node in self.nodes.values() {
            if let Some(replica) = &node.replica {
                self.history.judge(&replica.reader())?;
            }
        }
        self.history.judge_log_starts()?;
        self.judge_tables()?;
        for id in self.ids() {
            self.crash(id, CrashMode::KeepAll);
        }
        let traffic: Traffic = self.network.traffic();
        let more = [("lost", traffic.lost), ("doubled", traffic.doubled), ("reordered", traffic.reordered)];
        self.counts.extend(more);
        self.counts.insert("retry", self.producers.iter().map(Producer::retries).sum());
        Ok(self.history.report(self.counts))
    }
}
