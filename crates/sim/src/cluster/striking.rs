//! Faults happen, and end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tailrace_log::Disk;
use tailrace_metadata::Command;
use tailrace_types::{NodeId, PartitionId, RaftGroup};

use super::faults::{End, Fault, FaultKind};
use super::node::DATA;
use super::options::{CONTROLLER, DATA_TOPIC};
use super::sim::Sim;
use super::tasks::Owner;
use super::world::{Halt, World, make_data_folder};
use crate::mask::AIMED_FROM;
use crate::{CrashMode, Effect, OpKind, Rng, Rule, SimDisk};

/// How many of a coordinator's requests for markers are late, in the runs where some are.
const LATE_MARKERS_PERCENT: u64 = 8;

/// Lets everything happen that is due.
pub(super) fn strike(sim: &Sim) {
    loop {
        let mut world = sim.world();
        let now_ms = world.now_ms;
        let Some(fault) = world.faults.pop_front_if(|fault| fault.at_ms <= now_ms) else { break };
        if !world.is_masked(fault.number) {
            drop(world);
            inject(sim, fault);
        }
    }
    let mut world = sim.world();
    let now_ms = world.now_ms;
    while let Some(entry) = world.ends.first_entry().filter(|entry| entry.key().0 <= now_ms) {
        let end = entry.remove();
        world.end(end);
    }
    if now_ms.is_multiple_of(20) && !world.postponed.is_empty() && world.is_whole() {
        let fault = world.postponed.remove(0);
        world.damage(&fault);
        world.injected.push(fault);
    }
}

fn inject(sim: &Sim, fault: Fault) {
    let mut world = sim.world();
    let Fault { node, for_ms, kind, draw, .. } = fault;
    let mut rng = Rng::new(draw);
    let mode = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random][rng.below(3) as usize];
    let other = 1 + rng.below(world.nodes.len() as u64);
    let until = world.now_ms + for_ms;
    match kind {
        FaultKind::Crash => world.crash(node, mode, for_ms),
        FaultKind::CrashOfAll => {
            let all: Vec<u64> = world.nodes.keys().copied().collect();
            all.into_iter().for_each(|node| world.crash(node, mode, for_ms));
        }
        FaultKind::Pause => drop(world.nodes.entry(node).and_modify(|node| node.paused_until_ms = until)),
        FaultKind::CutOneWay => world.cut(node, other, until),
        FaultKind::CutOff | FaultKind::CutAfterElection => {
            for other in world.others(node) {
                world.cut(node, other, until);
                world.cut(other, node, until);
            }
        }
        FaultKind::CoordinatorMoves => world.move_coordinator(node),
        FaultKind::DiskFull => {
            if let Some(node) = world.nodes.get(&node) {
                node.disk.set_space(Some(node.disk.used_bytes() + rng.below(4096)));
            }
            world.end_at(until, End::Room(node));
        }
        FaultKind::Eio => world.fail_operations(node, &mut rng),
        FaultKind::PowerFailsWithinAStep => {
            world.fail_slowly(node, &mut rng);
            world.end_at(until, End::Power(node));
        }
        FaultKind::ClockJump => {
            let hours = rng.between(1, 30) as i64 - 15;
            world.nodes.entry(node).and_modify(|node| node.clock_ms = hours * 3_600_000);
        }
        // Only while everything else is whole: two lost copies of three are too many.
        FaultKind::DiskLost | FaultKind::BitRot | FaultKind::MisdirectedWrite => {
            return world.postponed.push(fault);
        }
        FaultKind::Reassignment => {
            drop(world);
            reassign(sim, &mut rng);
            world = sim.world();
        }
        FaultKind::ControlledRestart => {
            drop(world);
            restart(sim, node, for_ms);
            world = sim.world();
        }
    }
    world.count_fault(kind);
    world.injected.push(fault);
}

/// Somebody asks for other replicas of some partition.
fn reassign(sim: &Sim, rng: &mut Rng) {
    let (nodes, topic, partition) = {
        let world = sim.world();
        let mut nodes: Vec<NodeId> = world.nodes.keys().map(|number| NodeId(*number as i32)).collect();
        for at in (1..nodes.len()).rev() {
            nodes.swap(at, rng.below(at as u64 + 1) as usize);
        }
        nodes.truncate(3);
        let topics = [
            (DATA_TOPIC, 2),
            (super::OUT_TOPIC, 1),
            (tailrace_metadata::CONSUMER_OFFSETS_TOPIC, 1),
            (tailrace_metadata::TRANSACTION_STATE_TOPIC, 1),
        ];
        let (topic, count) = topics[rng.below(4) as usize];
        (nodes, topic.to_owned(), PartitionId(rng.below(count) as i32))
    };
    let (sim, at) = (sim.clone(), rng.between(1, 3));
    sim.clone().spawn(Owner::Client, async move {
        let command = Command::ReassignPartition { topic, partition, nodes: Some(nodes) };
        let asked = super::messages::Request::Command(Box::new(command));
        let leader = sim.world().controller().unwrap_or(at);
        sim.ask(900, leader, asked, 2_000).await;
    });
}

/// Hands over first, stops then, is started again.
fn restart(sim: &Sim, node: u64, for_ms: u64) {
    let (owner, sim) = (sim.world().owner(node), sim.clone());
    sim.clone().spawn(owner, async move {
        for _ in 0..50 {
            if sim.world().hand_over(node) == 0 {
                break;
            }
            sim.sleep(20).await;
        }
        let mut world = sim.world();
        if let Some(running) = world.nodes.get_mut(&node).and_then(|node| node.running.as_mut()) {
            for slot in running.slots.values_mut() {
                if let Some(core) = slot.core.take() {
                    // A failure leaves what a crash leaves.
                    let _ = core.close();
                }
            }
        }
        let down_ms = world.now_ms + for_ms;
        world.count("a node was shut down in order");
        world.restarts.insert(node, Halt { at_ms: 0, mode: CrashMode::KeepAll });
        world.nodes.entry(node).and_modify(|node| node.up_again_ms = down_ms);
    });
}

impl World {
    pub(super) fn is_masked(&self, number: usize) -> bool {
        self.mask.leaves_out(number)
    }

    pub(super) fn end_at(&mut self, at_ms: u64, end: End) {
        let number = self.ends_made;
        self.ends_made += 1;
        self.ends.insert((at_ms, number), end);
    }

    fn cut(&mut self, from: u64, to: u64, until: u64) {
        self.links.cut(from, to);
        self.calls.cut(from, to);
        self.end_at(until, End::Mend(from, to));
    }

    fn end(&mut self, end: End) {
        match end {
            End::Mend(from, to) => {
                self.links.join(from, to);
                self.calls.join(from, to);
            }
            End::Room(node) => {
                if let Some(node) = self.nodes.get(&node) {
                    node.disk.set_space(None);
                }
            }
            End::Power(number) => {
                if self.nodes.get(&number).is_some_and(|node| node.is_dying) {
                    self.crash(number, CrashMode::Random, 100);
                }
            }
            End::Verification(number) => self.verify(number),
        }
    }

    /// A few operations of the disk fail.
    fn fail_operations(&mut self, number: u64, rng: &mut Rng) {
        let kinds =
            [OpKind::Write, OpKind::SyncData, OpKind::Read, OpKind::Write, OpKind::Rename, OpKind::SetLen];
        let kind = Some(kinds[rng.below(kinds.len() as u64) as usize]);
        let effect = if rng.percent(50) { Effect::Eio } else { Effect::ShortWriteEio };
        let rule =
            Rule { kind, path_ends: String::new(), after: rng.below(20), times: 1 + rng.below(3), effect };
        let Some(node) = self.nodes.get_mut(&number) else { return };
        node.is_failing = true;
        node.disk.add_rule(rule);
    }

    /// From some moment on nothing gets onto the disk.
    fn fail_slowly(&mut self, number: u64, rng: &mut Rng) {
        let after = rng.below(40);
        let Some(node) = self.nodes.get_mut(&number).filter(|node| node.running.is_some()) else { return };
        (node.is_dying, node.is_failing) = (true, true);
        Rule::fading(after).for_each(|rule| node.disk.add_rule(rule));
    }

    /// A copy is lost, or damaged.
    fn damage(&mut self, fault: &Fault) {
        let mut rng = Rng::new(fault.draw);
        self.count_fault(fault.kind);
        let verified_at = self.now_ms + fault.for_ms;
        match fault.kind {
            FaultKind::DiskLost => return self.replace_disk(fault.node),
            FaultKind::BitRot => self.rot(fault.node, &mut rng),
            _ => {
                if let Some(node) = self.nodes.get(&fault.node) {
                    let (kind, effect) = (Some(OpKind::Write), Effect::Misdirected);
                    let path_ends = [".log", ".log", ".index", "entries"][rng.below(4) as usize].to_owned();
                    node.disk.add_rule(Rule { kind, path_ends, after: rng.below(20), times: 1, effect });
                }
            }
        }
        self.nodes.entry(fault.node).and_modify(|node| node.is_damaged = true);
        self.end_at(verified_at, End::Verification(fault.node));
    }

    /// Changes a byte or a few of one file.
    fn rot(&mut self, number: u64, rng: &mut Rng) {
        let Some(node) = self.nodes.get(&number) else { return };
        let files: Vec<PathBuf> = partition_files(&node.disk);
        if files.is_empty() {
            return;
        }
        let path = &files[rng.below(files.len() as u64) as usize];
        node.disk.damage(path, |bytes| {
            for _ in 0..rng.between(1, 3) {
                let at = rng.below(bytes.len() as u64) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
        });
    }

    /// All folders of a damaged node are looked through, and its disk is replaced. (Where a damaged copy can be mended in place, this is
    /// the place to do so.)
    fn verify(&mut self, number: u64) {
        let Some(node) = self.nodes.get(&number).filter(|node| node.is_damaged) else { return };
        let disk = node.disk.clone();
        let folders: BTreeSet<PathBuf> =
            partition_files(&disk).iter().filter_map(|path| path.parent().map(Path::to_owned)).collect();
        let found = folders.iter().any(|folder| match tailrace_log::inspect::verify_dir(&disk, folder) {
            Ok(report) => !report.problems.is_empty(),
            Err(_) => true,
        });
        self.count(if found { "verification found damage" } else { "verification found nothing" });
        self.replace_disk(number);
    }

    /// A process has come upon damage: its node gets another disk.
    pub(super) fn damage_was_found(&mut self, number: u64) {
        self.count("damage was found");
        self.replace_disk(number);
    }

    pub(super) fn replace_disk(&mut self, number: u64) {
        let (seed, down_ms) = (self.rng.next_u64(), self.rng.between(50, 500));
        let mut directory = [0; 16];
        directory[..8].copy_from_slice(&seed.to_le_bytes());
        directory[15] = 1;
        self.crash(number, CrashMode::LoseAll, down_ms);
        self.count("a disk was replaced");
        let Some(node) = self.nodes.get_mut(&number) else { return };
        (node.disk, node.directory, node.place) = (SimDisk::new(seed), directory, None);
        node.begun.clear();
        (node.is_damaged, node.is_failing) = (false, false);
        make_data_folder(&node.disk);
    }

    /// In some runs leaders are cut off right after their election, for about as long as the next one takes.
    pub(super) fn aim_at(&mut self, group: RaftGroup, node: u64) {
        if !self.aims || self.is_calm || group == CONTROLLER || !self.rng.percent(20) {
            return;
        }
        let (number, draw) = (AIMED_FROM + self.aimed, self.rng.next_u64());
        let (at_ms, for_ms) = (self.now_ms + self.rng.below(30), self.rng.between(200, 700));
        self.aim(Fault { number, at_ms, node, for_ms, kind: FaultKind::CutAfterElection, draw });
    }

    /// In some runs markers for other nodes are late, and their coordinator moves meanwhile: when they arrive, the one after it may have
    /// ended the transaction, and the producer begun another. By how much they are late, in milliseconds.
    pub(super) fn aim_at_markers(&mut self, node: u64) -> u64 {
        let (number, now_ms, is_calm) = (AIMED_FROM + self.aimed, self.now_ms, self.is_calm);
        let Some(rng) = self.late_markers.as_mut().filter(|_| !is_calm) else { return 0 };
        if !rng.percent(LATE_MARKERS_PERCENT) {
            return 0;
        }
        let (at_ms, for_ms, draw) = (now_ms + rng.below(20), rng.between(150, 900), rng.next_u64());
        self.aim(Fault { number, at_ms, node, for_ms, kind: FaultKind::CoordinatorMoves, draw });
        if self.is_masked(number) { 0 } else { for_ms }
    }

    fn aim(&mut self, fault: Fault) {
        self.aimed += 1;
        let at = self.faults.iter().position(|other| other.at_ms > fault.at_ms).unwrap_or(self.faults.len());
        self.faults.insert(at, fault);
    }
}

/// The files of all partitions of a disk that hold something.
fn partition_files(disk: &SimDisk) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let folders = disk.read_dir(Path::new(DATA)).unwrap_or_default();
    for folder in folders.into_iter().filter(|entry| entry.is_dir) {
        let folder = Path::new(DATA).join(&folder.name);
        for entry in disk.read_dir(&folder).unwrap_or_default() {
            let path = folder.join(&entry.name);
            if !entry.is_dir && disk.len(&path).is_ok_and(|bytes| bytes > 0) {
                files.push(path);
            }
        }
    }
    files
}
