//! The nodes, what goes between them, and what is known of the run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use tailrace_log::Disk;
use tailrace_metadata::RegisterNode;
use tailrace_replication::raft::ReplicaId;
use tailrace_types::{NodeId, ProducerId};

use super::faults::{self, End, Fault};
use super::messages::{Call, Letter, Response};
use super::node::{self, Membership, Node};
use super::options::{Bug, CONTROLLER, ClusterOptions};
use super::tasks::{Owner, Turn, Work};
use crate::history::History;
use crate::network::{Network, Weather};
use crate::{CrashMode, Mask, Rng, SimDisk};

const LINKS: Weather = Weather {
    lost_percent: 3,
    doubled_percent: 2,
    delay_ms_min: 1,
    delay_ms_max: 15,
    late_percent: 0,
    late_ms_max: 0,
};
/// Requests are not doubled: they go over connections.
const CALLS: Weather = Weather {
    lost_percent: 1,
    doubled_percent: 0,
    delay_ms_min: 1,
    delay_ms_max: 10,
    late_percent: 2,
    late_ms_max: 2_500,
};

/// One run in so many throttles how new replicas are brought up to date: the seeds that leave this remainder, among which there is none that
/// found something before.
const THROTTLED_ONE_IN: (u64, u64) = (7, 4);

/// A process that has to be started anew.
pub(super) struct Halt {
    pub(super) at_ms: u64,
    pub(super) mode: CrashMode,
}

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) now_ms: u64,
    pub(super) bug: Option<Bug>,
    pub(super) mask: Mask,
    pub(super) is_calm: bool,
    /// Leaders are cut off after their election.
    pub(super) aims: bool,
    /// Markers are late and their coordinators move meanwhile, as this tells.
    pub(super) late_markers: Option<Rng>,
    /// New replicas are brought up to date slowly, as this tells.
    pub(super) throttle: Option<Rng>,
    pub(super) aimed: usize,
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) links: Network<Letter>,
    pub(super) calls: Network<Call>,
    /// What came for nodes that are paused.
    pub(super) backlog: BTreeMap<u64, Vec<(u64, Parcel)>>,
    /// Requests that wait for their answer.
    pub(super) asked: BTreeMap<u64, Option<Response>>,
    pub(super) calls_made: u64,
    pub(super) spawned: Vec<(Owner, Work)>,
    pub(super) faults: VecDeque<Fault>,
    pub(super) injected: Vec<Fault>,
    /// Damages that wait until everything is whole.
    pub(super) postponed: Vec<Fault>,
    pub(super) ends: BTreeMap<(u64, u64), End>,
    pub(super) ends_made: u64,
    pub(super) restarts: BTreeMap<u64, Halt>,
    /// Coordinators to be loaded, by node.
    pub(super) to_load: BTreeMap<u64, Vec<(String, i32)>>,
    pub(super) to_tell: BTreeSet<u64>,
    pub(super) history: History,
    pub(super) producer_ids: BTreeSet<ProducerId>,
    /// Clients that have begun something.
    pub(super) busy: usize,
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) trace: u32,
    pub(super) failure: Option<String>,
}

pub(super) enum Parcel {
    Letter(Letter),
    Call(Call),
}

pub(super) fn make_data_folder(disk: &SimDisk) {
    let made = disk.create_dir(Path::new(node::DATA)).and_then(|()| disk.sync_dir(Path::new("/")));
    made.expect("a fresh disk takes a folder");
}

impl World {
    pub(super) fn new(options: ClusterOptions) -> Self {
        let ClusterOptions { seed, storm_ms, bug, mask } = options;
        let mut rng = Rng::new(seed ^ 0x5eed_c105);
        let count = rng.between(3, 5);
        let faults = faults::schedule(&mut rng.fork(), count, storm_ms);
        let aims = rng.percent(25);
        let mut late_markers = Rng::new(seed ^ 0x1a7e_3a23);
        let (one_in, remainder) = THROTTLED_ONE_IN;
        let throttle = (seed % one_in == remainder).then(|| Rng::new(seed ^ 0x7407_71e5));
        let mut nodes = BTreeMap::new();
        for number in 1..=count {
            let disk = SimDisk::new(rng.next_u64());
            make_data_folder(&disk);
            let mut directory = [number as u8; 16];
            directory[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
            let own = ReplicaId::new(NodeId(number as i32), 1);
            let place = (number == 1).then(|| Membership { replica: own, founders: vec![own] });
            let node = Node {
                number,
                disk,
                directory,
                begun: BTreeMap::new(),
                place,
                life: 0,
                running: None,
                is_joining: false,
                up_again_ms: 0,
                paused_until_ms: 0,
                clock_ms: 0,
                is_dying: false,
                is_failing: false,
                is_damaged: false,
            };
            nodes.insert(number, node);
        }
        Self {
            now_ms: 0,
            bug,
            mask,
            is_calm: false,
            aims,
            late_markers: late_markers.percent(25).then_some(late_markers),
            throttle,
            aimed: 0,
            nodes,
            links: Network::new(rng.next_u64(), LINKS),
            calls: Network::new(rng.next_u64(), CALLS),
            backlog: BTreeMap::new(),
            asked: BTreeMap::new(),
            calls_made: 0,
            spawned: Vec::new(),
            faults: faults.into(),
            injected: Vec::new(),
            postponed: Vec::new(),
            ends: BTreeMap::new(),
            ends_made: 0,
            restarts: BTreeMap::new(),
            to_load: BTreeMap::new(),
            to_tell: BTreeSet::new(),
            history: History::default(),
            producer_ids: BTreeSet::new(),
            busy: 0,
            counts: BTreeMap::new(),
            trace: 0,
            failure: None,
            rng,
        }
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Adds to the trace.
    pub(super) fn note(&mut self, what: u8, numbers: &[u64]) {
        let mut line = vec![what];
        line.extend(self.now_ms.to_le_bytes());
        numbers.iter().for_each(|number| line.extend(number.to_le_bytes()));
        self.trace = crc32c::crc32c_append(self.trace, &line);
    }

    pub(super) fn others(&self, number: u64) -> Vec<u64> {
        self.nodes.keys().copied().filter(|other| *other != number).collect()
    }

    pub(super) fn is_paused(&self, number: u64) -> bool {
        self.nodes.get(&number).is_some_and(|node| node.paused_until_ms > self.now_ms)
    }

    pub(super) fn runs(&self, number: u64) -> bool {
        self.nodes.get(&number).is_some_and(|node| node.runs(self.now_ms))
    }

    pub(super) fn is_tick_of_coordinators(&self, number: u64) -> bool {
        self.now_ms.is_multiple_of(5) && self.runs(number)
    }

    pub(super) fn turn(&self, owner: Owner) -> Turn {
        match owner {
            Owner::Client => Turn::Runs,
            Owner::Node { node, life } => match self.nodes.get(&node) {
                Some(node) if node.life == life && node.paused_until_ms > self.now_ms => Turn::Waits,
                Some(node) if node.life == life => Turn::Runs,
                _ => Turn::IsGone,
            },
        }
    }

    pub(super) fn registration(&self, number: u64) -> RegisterNode {
        let address = |port: u64| format!("node{number}.test:{port}");
        let node = self.nodes.get(&number);
        RegisterNode {
            node: NodeId(number as i32),
            directory: node.map_or([0; 16], |node| node.directory),
            cluster: address(7000),
            kafka: address(9092),
            nats: None,
            http: None,
            rack: None,
            levels: (1, 1),
            replica: node.and_then(|node| node.place.as_ref()).map(|place| place.replica),
            renews: false,
        }
    }

    /// The node that leads the metadata log, if there is one.
    pub(super) fn controller(&self) -> Option<u64> {
        let leads = |node: &&Node| {
            let running = node.running.as_ref();
            running.and_then(|running| running.slots.get(&CONTROLLER)?.leads()).is_some()
        };
        self.nodes.values().find(leads).map(|node| node.number)
    }
}
