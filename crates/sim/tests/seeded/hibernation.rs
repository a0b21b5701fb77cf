//! Idle groups go to sleep, and wake up when a member is gone or wants something: for any order in which
//! messages arrive, are lost or are duplicated, and for nodes that die, come back or are cut off.
#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::collections::VecDeque;

use tailrace_replication::raft::{
    Beats, Fate, Members, PeerMessage, Replica, ReplicaId, ReplicaOptions, Role,
};
use tailrace_sim::{Rng, SimDisk};
use tailrace_types::NodeId;

use crate::common::trio::{NOW, append, disk, open};

const ELECTION_TICKS: usize = 10;
const SILENCE_TICKS: u32 = 10;

/// A node with its replica of the only group.
struct Node {
    disk: SimDisk,
    replica: Option<Replica<SimDisk>>,
    beats: Beats,
    lease: u64,
}

/// Three nodes, the messages between them, and the faults of the network.
struct Nodes {
    nodes: Vec<Node>,
    rng: Rng,
    waiting: VecDeque<PeerMessage>,
    /// The node that is cut off from the others.
    cut_off: Option<usize>,
    is_lossy: bool,
    starts: u64,
}

fn id(number: usize) -> ReplicaId {
    ReplicaId::new(NodeId(number as i32), 1)
}

fn start(disk: &SimDisk, number: usize, seed: u64) -> Replica<SimDisk> {
    let members = Members { voters: (0..3).map(id).collect(), learners: Vec::new() };
    let options =
        ReplicaOptions { id: id(number), members, election_ticks: ELECTION_TICKS, heartbeat_ticks: 2, seed };
    open(disk, options).unwrap()
}

impl Nodes {
    fn new(seed: u64) -> Self {
        let node = |number| {
            let disk = disk();
            let replica = Some(start(&disk, number, seed * 3 + number as u64));
            Node { disk, replica, beats: Beats::new(SILENCE_TICKS), lease: number as u64 }
        };
        let nodes = (0..3).map(node).collect();
        let rng = Rng::new(seed);
        Self { nodes, rng, waiting: VecDeque::new(), cut_off: None, is_lossy: false, starts: 3 }
    }

    fn is_apart(&self, one: usize, other: usize) -> bool {
        let is_down = |number: usize| self.nodes[number].replica.is_none();
        self.cut_off.is_some_and(|cut| cut == one || cut == other) || is_down(one) || is_down(other)
    }

    /// Ticks every node: beats, clocks, and the messages that follow.
    fn tick(&mut self) {
        for number in 0..3 {
            for other in 0..3 {
                if other != number
                    && !self.is_apart(number, other)
                    && !(self.is_lossy && self.rng.percent(20))
                {
                    let lease = self.nodes[other].lease;
                    self.nodes[number].beats.heard(NodeId(other as i32), lease);
                }
            }
            let node = &mut self.nodes[number];
            node.beats.tick();
            let Some(replica) = &mut node.replica else { continue };
            replica.set_lease(Some(node.lease));
            if replica.relies_on().iter().any(|lease| !node.beats.holds(lease)) {
                replica.wake(0);
            }
            replica.tick(NOW);
        }
        self.talk();
    }

    /// Delivers the waiting messages and their answers. Some of them arrive late, twice, or never.
    fn talk(&mut self) {
        for _ in 0..200 {
            for node in &mut self.nodes {
                let Some(replica) = &mut node.replica else { continue };
                while let Some(ticket) = replica.begin_sync(false) {
                    let result = ticket.run();
                    replica.finish_sync(&ticket, &result, NOW);
                }
                self.waiting.extend(replica.take_messages());
            }
            let Some(message) = self.waiting.pop_front() else { return };
            let (from, to) = (message.from().node().0 as usize, message.to().node().0 as usize);
            if self.is_apart(from, to) {
                continue;
            }
            if self.is_lossy {
                match self.rng.below(10) {
                    0 => continue,
                    1 => self.waiting.push_back(message.clone()),
                    2 => {
                        // Late: after everything that comes before the next tick.
                        self.waiting.push_back(message);
                        if self.rng.percent(50) {
                            return;
                        }
                        continue;
                    }
                    _ => {}
                }
            }
            if let Some(replica) = &mut self.nodes[to].replica {
                replica.receive(message, NOW);
            }
        }
    }

    fn kill(&mut self, number: usize) {
        self.nodes[number].replica = None;
        for node in &mut self.nodes {
            node.beats.lost(NodeId(number as i32));
        }
    }

    fn start(&mut self, number: usize) {
        if self.nodes[number].replica.is_none() {
            self.starts += 1;
            let node = &mut self.nodes[number];
            (node.lease, node.beats) = (self.starts, Beats::new(SILENCE_TICKS));
            node.replica = Some(start(&node.disk, number, self.starts));
        }
    }

    fn leader(&self) -> Option<usize> {
        let leads = |node: &Node| node.replica.as_ref().and_then(|replica| replica.leads());
        let leading = (0..3).filter(|number| self.cut_off != Some(*number));
        leading.filter(|number| leads(&self.nodes[*number]).is_some()).max_by_key(|n| leads(&self.nodes[*n]))
    }

    fn all_hibernate(&self) -> bool {
        self.nodes.iter().all(|node| node.replica.as_ref().is_some_and(|replica| replica.hibernates()))
    }

    /// Ticks until `holds`. Fails after `ticks` ticks.
    fn until(&mut self, ticks: usize, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        for _ in 0..ticks {
            if holds(self) {
                return;
            }
            self.tick();
        }
        let shown: Vec<_> =
            self.nodes.iter().map(|node| node.replica.as_ref().map(|r| (r.role(), r.hibernates()))).collect();
        panic!("{what} did not happen: {shown:?}");
    }

    /// Appends a batch at the current leader and waits for the commit. Tries again if the leader turns out to
    /// be deposed.
    fn produce(&mut self, text: &str) {
        let mut offered = None;
        self.until(300, "a commit", |nodes| {
            let replica = |number: usize| nodes.nodes[number].replica.as_ref().unwrap();
            if let Some((leader, appended)) = &offered {
                match replica(*leader).fate(appended) {
                    Fate::Open => return false,
                    Fate::Committed => return true,
                    Fate::Lost => offered = None,
                }
            }
            if let Some(leader) = nodes.leader() {
                let appended = append(nodes.nodes[leader].replica.as_mut().unwrap(), text);
                offered = appended.ok().map(|appended| (leader, appended));
                nodes.talk();
            }
            false
        });
    }

    fn fault(&mut self) {
        let number = self.rng.below(3) as usize;
        match self.rng.below(6) {
            0 => self.kill(number),
            1 => (0..3).for_each(|number| self.start(number)),
            2 => self.cut_off = Some(number),
            3 => self.cut_off = None,
            4 => self.is_lossy = !self.is_lossy,
            _ => {
                if let Some(replica) = &mut self.nodes[number].replica {
                    let _ = append(replica, "x");
                    self.talk();
                }
            }
        }
    }

    fn heal(&mut self) {
        (self.cut_off, self.is_lossy) = (None, false);
        (0..3).for_each(|number| self.start(number));
    }
}

#[test]
fn an_idle_group_falls_silent_and_wakes_for_a_batch() {
    let mut nodes = Nodes::new(1);
    nodes.produce("a");
    nodes.until(100, "sleep", |nodes| nodes.all_hibernate());
    for _ in 0..1000 {
        nodes.tick();
        assert!(nodes.all_hibernate() && nodes.waiting.is_empty());
    }
    let before = nodes.leader().unwrap();
    nodes.produce("b");
    assert_eq!(nodes.leader(), Some(before));
    let ends: Vec<_> =
        nodes.nodes.iter().map(|node| node.replica.as_ref().unwrap().reader().log_end().get()).collect();
    assert_eq!(ends, [2, 2, 2]);
    nodes.until(100, "sleep again", |nodes| nodes.all_hibernate());
}

#[test]
fn a_dead_leader_of_a_sleeping_group_is_replaced_within_an_election() {
    for seed in 0..20 {
        let mut nodes = Nodes::new(seed);
        nodes.produce("a");
        nodes.until(100, "sleep", |nodes| nodes.all_hibernate());
        let leader = nodes.leader().unwrap();
        nodes.kill(leader);
        nodes.until(3 * ELECTION_TICKS, "another leader", |nodes| nodes.leader().is_some());
        nodes.produce("b");
        nodes.start(leader);
        nodes.until(300, "sleep", |nodes| nodes.all_hibernate());
    }
}

#[test]
fn a_sleeping_leader_that_is_cut_off_leads_no_longer() {
    let mut nodes = Nodes::new(3);
    nodes.produce("a");
    nodes.until(100, "sleep", |nodes| nodes.all_hibernate());
    let leader = nodes.leader().unwrap();
    nodes.cut_off = Some(leader);
    let is_deposed = |nodes: &mut Nodes| nodes.nodes[leader].replica.as_ref().unwrap().role() != Role::Leader;
    nodes.until(SILENCE_TICKS as usize + 2 * ELECTION_TICKS, "its end", is_deposed);
    nodes.until(5 * ELECTION_TICKS, "another leader", |nodes| nodes.leader().is_some());
    nodes.heal();
    nodes.produce("b");
    nodes.until(300, "sleep", |nodes| nodes.all_hibernate());
}

#[test]
fn elections_of_many_groups_are_spread() {
    const SPREAD: usize = 400;
    let mut took = Vec::new();
    for seed in 0..20 {
        let mut nodes = Nodes::new(seed);
        nodes.produce("a");
        nodes.until(100, "sleep", |nodes| nodes.all_hibernate());
        nodes.kill(nodes.leader().unwrap());
        nodes.nodes.iter_mut().flat_map(|node| &mut node.replica).for_each(|replica| replica.wake(SPREAD));
        let mut ticks = 0;
        nodes.until(SPREAD + 5 * ELECTION_TICKS, "another leader", |nodes| {
            ticks += 1;
            nodes.leader().is_some()
        });
        took.push(ticks);
    }
    took.sort_unstable();
    assert!(took[5] > 2 * ELECTION_TICKS && took[15] > took[5] + 2 * ELECTION_TICKS, "{took:?}");
    // More than raft would accept.
    let replica =
        Nodes::new(1).nodes[0].replica.as_mut().map(|replica| replica.spread_election(usize::MAX / 2));
    assert!(replica.is_some());
}

#[test]
fn a_silence_that_ends_in_time_deposes_nobody() {
    for seed in 0..20 {
        let mut nodes = Nodes::new(seed);
        nodes.produce("a");
        nodes.until(100, "sleep", |nodes| nodes.all_hibernate());
        let leader = nodes.leader().unwrap();
        // The members have just woken up when they hear from the leader again.
        nodes.cut_off = Some(leader);
        (0..=SILENCE_TICKS).for_each(|_| nodes.tick());
        assert!(!nodes.all_hibernate());
        nodes.cut_off = None;
        nodes.until(300, "sleep", |nodes| nodes.all_hibernate());
        assert_eq!(nodes.leader(), Some(leader), "seed {seed}");
    }
}

#[test]
fn a_node_that_comes_back_is_told_who_leads() {
    let mut nodes = Nodes::new(4);
    nodes.produce("a");
    nodes.until(100, "sleep", |nodes| nodes.all_hibernate());
    let leader = nodes.leader().unwrap();
    let other = (leader + 1) % 3;
    // The node comes back so quickly that no other node noticed. Its beats say that it restarted.
    nodes.nodes[other].replica = None;
    nodes.start(other);
    nodes.until(20, "word of the leader", |nodes| {
        nodes.nodes[other].replica.as_ref().unwrap().leader() == Some(id(leader))
    });
    assert_eq!(nodes.leader(), Some(leader));
}

#[test]
fn whatever_happens_a_healed_group_leads_commits_and_sleeps() {
    let (mut slept, mut elected) = (0, 0);
    for seed in 0..300 {
        let mut nodes = Nodes::new(seed);
        for _ in 0..60 {
            nodes.fault();
            for _ in 0..nodes.rng.below(30) {
                nodes.tick();
                slept += u32::from(nodes.all_hibernate());
            }
        }
        nodes.heal();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            nodes.produce("the end");
            nodes.until(300, "sleep", |nodes| nodes.all_hibernate());
        }));
        assert!(result.is_ok(), "seed {seed}");
        elected += nodes.nodes.iter().flat_map(|n| &n.replica).map(|r| r.counters().elected).sum::<u64>();
    }
    assert!(slept > 1000 && elected > 300, "{slept} ticks asleep, {elected} elections");
}
