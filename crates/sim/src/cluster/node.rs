//! One node: its disk, and its process while it runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailrace_coordination::groups::GroupCoordinator;
use tailrace_coordination::transactions::TransactionCoordinator;
use tailrace_log::{LogConfig, LogStore};
use tailrace_metadata::cluster::Leaders;
use tailrace_metadata::{Controller, MetadataImage, TopicImage};
use tailrace_replication::raft::{Members, Replica, ReplicaId, ReplicaOptions, Role};
use tailrace_replication::{Partition, SyncTicket};
use tailrace_types::{LeaderEpoch, NodeId, Offset, RaftGroup, TimestampMs, TopicId, TopicPartition};

use super::shard::Shard;
use super::upkeep::Upkeep;
use crate::SimDisk;

/// Wall clocks begin here.
const EPOCH_MS: i64 = 1_700_000_000_000;
pub(super) const DATA: &str = "/data";

/// A node's place in the cluster, as its disk remembers it.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    pub(super) replica: ReplicaId,
    pub(super) founders: Vec<ReplicaId>,
}

pub(super) struct Node {
    pub(super) number: u64,
    pub(super) disk: SimDisk,
    /// Names the disk; random.
    pub(super) directory: [u8; 16],
    /// Goes with the disk.
    pub(super) place: Option<Membership>,
    /// The newest replica of each group that was begun here; goes with the disk, too. The server's journal of replicas.
    pub(super) begun: BTreeMap<RaftGroup, ReplicaId>,
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
    pub(super) slots: BTreeMap<RaftGroup, Slot>,
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

    pub(super) fn slot(&mut self, group: RaftGroup) -> Option<&mut Slot> {
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

/// The epoch in which a replica answers as the leader.
pub(super) fn leads(slot: &mut Slot, unchecked: bool) -> Option<LeaderEpoch> {
    let leads = slot.leads();
    if !unchecked || leads.is_some() {
        return leads;
    }
    let replica = slot.replica()?;
    (replica.role() == Role::Leader && replica.halted().is_none()).then(|| replica.epoch())
}
