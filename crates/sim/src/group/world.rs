//! The replicas, their disks and network, and their clients.

use std::collections::BTreeMap;
use std::path::Path;

use tailrace_log::{Disk, LogError, LogStore, PartitionIdentity};
use tailrace_replication::raft::{Members, Replica, ReplicaId, ReplicaOptions};
use tailrace_replication::{Durability, Policy, SyncTicket};
use tailrace_types::{PartitionId, TimestampMs, TopicId, TopicName, TopicPartition};

use super::aim::Aim;
use super::barriers::Barriers;
use super::history::History;
use super::letter::Letter;
use super::options::{Bug, GroupOptions, REPLICAS};
use super::producer::Producer;
use super::upkeep::{Cleanup, Upkeep};
use crate::network::{Network, Weather};
use crate::{CrashMode, Mask, Rng, SimDisk};

const PRODUCERS: i64 = 3;
const STRICT: Policy = Policy {
    durability: Durability::Strict,
    producer_expiration_ms: i64::MAX,
    timestamp_type: tailrace_records::TimestampType::CreateTime,
};
const STORM: Weather = Weather {
    lost_percent: 5,
    doubled_percent: 3,
    delay_ms_min: 1,
    delay_ms_max: 30,
    late_percent: 0,
    late_ms_max: 0,
};
/// The replacement of a node that is gone for good.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement {
    pub(super) old: u64,
    pub(super) new: u64,
}

pub(super) struct Node {
    pub(super) disk: SimDisk,
    pub(super) replica: Option<Replica<SimDisk>>,
    /// The sync in progress, and when it ends.
    pub(super) sync: Option<(u64, SyncTicket<SimDisk>)>,
    pub(super) up_again_ms: u64,
    pub(super) paused_until_ms: u64,
    pub(super) upkeep: Upkeep,
}

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) now_ms: u64,
    pub(super) bug: Option<Bug>,
    pub(super) trouble_at_ms: u64,
    /// The longest time between two faults.
    pub(super) calm_ms_max: u64,
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) network: Network<Letter>,
    pub(super) cleanup: Cleanup,
    pub(super) producers: Vec<Producer>,
    pub(super) history: History,
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) replacement: Option<Replacement>,
    pub(super) newest_id: u64,
    pub(super) mask: Mask,
    pub(super) aim: Aim,
    pub(super) barriers: Barriers,
    /// The number of faults so far, including those left out.
    pub(super) troubles: usize,
    pub(super) injected: Vec<(usize, String)>,
}

impl World {
    pub(super) fn new(options: GroupOptions) -> Result<Self, String> {
        let mut rng = Rng::new(options.seed);
        let network = Network::new(rng.next_u64(), STORM);
        let producers = (0..PRODUCERS).map(|id| Producer::new(id, rng.fork())).collect();
        let aim = Aim::draw(&mut rng);
        let calm_ms_max = if aim.is_taken() { 2000 } else { rng.between(50, 1000) };
        let cleanup = Cleanup::draw(&mut rng);
        let mut world = Self {
            rng,
            now_ms: 1,
            bug: options.bug,
            trouble_at_ms: 500,
            calm_ms_max,
            nodes: BTreeMap::new(),
            network,
            cleanup,
            producers,
            history: History::new(cleanup),
            counts: BTreeMap::new(),
            replacement: None,
            newest_id: REPLICAS,
            mask: options.mask,
            aim,
            barriers: Barriers::new(options.seed),
            troubles: 0,
            injected: Vec::new(),
        };
        for id in 1..=REPLICAS {
            world.add_node(id)?;
        }
        Ok(world)
    }

    pub(super) fn add_node(&mut self, id: u64) -> Result<(), String> {
        let disk = SimDisk::new(self.rng.next_u64());
        make_data_folder(&disk)?;
        let upkeep = Upkeep::default();
        let node = Node { disk, replica: None, sync: None, up_again_ms: 0, paused_until_ms: 0, upkeep };
        self.nodes.insert(id, node);
        self.open(id)
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.nodes.keys().copied().collect()
    }

    pub(super) fn any_id(&mut self) -> u64 {
        let ids = self.ids();
        ids[self.rng.below(ids.len() as u64) as usize]
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn now(&self) -> TimestampMs {
        TimestampMs(self.now_ms as i64)
    }

    pub(super) fn open(&mut self, id: u64) -> Result<(), String> {
        let now = self.now();
        let seed = self.rng.next_u64();
        let lying = self.bug == Some(Bug::AcknowledgeBeforeSync);
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(()) };
        if lying {
            node.disk.add_rule(lie());
        }
        let store = LogStore::new(node.disk.clone(), 4);
        let options = ReplicaOptions {
            id: ReplicaId(id),
            members: Members { voters: (1..=REPLICAS).map(ReplicaId).collect(), learners: Vec::new() },
            election_ticks: 10,
            heartbeat_ticks: 2,
            seed,
        };
        let config = self.cleanup.config();
        let (folder, identity) = (Path::new("/data/t-0"), identity()?);
        // Sync the file system first, as a node does before it reads anything.
        let synced = node.disk.sync_fs(folder).map_err(|error| LogError::io("sync", folder, error));
        let opened =
            synced.and_then(|()| Replica::open(&store, folder, &identity, config, STRICT, options, now));
        match opened {
            Ok((mut replica, _)) => {
                if let Some(Bug::Replicas(bug)) = self.bug {
                    replica.misbehave(bug);
                }
                node.replica = Some(replica);
                Ok(())
            }
            // Recovery must write, too. Try again when there may be space.
            Err(error) if error.is_no_space() => {
                node.up_again_ms = now.0 as u64 + 100;
                self.count("no room to open");
                Ok(())
            }
            Err(error) => Err(format!("replica {id} does not open: {error}")),
        }
    }

    /// Ends a node. It may lose what was not synced.
    pub(super) fn crash(&mut self, id: u64, mode: CrashMode) {
        let up_again = self.now_ms + self.rng.between(20, 1500);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some(replica) = node.replica.take() {
            let counters = replica.counters();
            let happened = [
                ("truncation", counters.truncations),
                ("election", counters.elected),
                ("snapshot offered", counters.snapshots_offered),
                ("snapshot installed", counters.snapshots_installed),
                ("snapshot given up", counters.snapshots_given_up),
                ("crash while fetching a snapshot", u64::from(replica.wanted_chunk().is_some())),
            ];
            for (what, times) in happened {
                *self.counts.entry(what).or_default() += times;
            }
        }
        node.sync = None;
        node.upkeep = Upkeep::default();
        node.disk.clear_rules();
        node.disk.set_space(None);
        node.disk = node.disk.crash(mode);
        node.up_again_ms = up_again;
        self.network.forget(id);
    }
}

pub(super) fn make_data_folder(disk: &SimDisk) -> Result<(), String> {
    let made = disk.create_dir(Path::new("/data")).and_then(|()| disk.sync_dir(Path::new("/")));
    made.map_err(|error| format!("no data folder: {error}"))
}

fn identity() -> Result<PartitionIdentity, String> {
    let topic = TopicName::new("t").map_err(|error| error.to_string())?;
    let topic_partition = TopicPartition::new(topic, PartitionId(0));
    Ok(PartitionIdentity { topic_id: TopicId([7; 16]), topic_partition })
}

fn lie() -> crate::Rule {
    crate::Rule {
        kind: Some(crate::OpKind::SyncData),
        path_ends: ".log".to_owned(),
        after: 0,
        times: u64::MAX,
        effect: crate::Effect::Lie,
    }
}
