//! The state of one running node, without a client protocol.

use std::sync::Arc;
use tailrace_env::time::Duration;

use tailrace_config::BrokerConfig;
use tailrace_env::sync::Mutex;
use tailrace_log::DamagedRange;
use tailrace_metadata::MetadataImage;
use tailrace_types::{NodeId, RaftGroup, TimestampMs};

use crate::access::{Access, OwnUsers};
use crate::cleaner::Cleaner;
use crate::cluster::{Heard, LinkUser, Links};
use crate::controller::{ControllerShell, GROUP as METADATA, ProducerIdBlock};
use crate::coordinators::Coordinators;
use crate::dirty::DirtyPages;
use crate::metrics::NodeMetrics;
use crate::partitions::{Flusher, Lookups, PartitionHandle, PartitionSlot, Stepper, TopicTable};
use crate::relay::Relay;
use crate::scrubber::Scrubber;
use crate::share::ShareGroups;
use crate::space::DiskSpace;
use crate::streams::Streams;
use crate::taps::Taps;
use tailrace_env::time::wall_clock;
use tailrace_env::workers::Workers;

/// One running node.
pub struct Node {
    /// Its counters and timings.
    pub(crate) metrics: Arc<NodeMetrics>,
    /// Links to the other nodes.
    pub(crate) links: Arc<Links>,
    /// What this node knows about others from their messages.
    pub(crate) heard: Arc<Heard>,
    /// The metadata.
    pub(crate) controller: Arc<ControllerShell>,
    pub(crate) cleaner: Cleaner,
    pub(crate) scrubber: Scrubber,
    /// Coordinators of groups and transactions.
    pub(crate) coordinators: Coordinators,
    /// Records in flight of share groups, and the sessions of their clients.
    pub(crate) share: ShareGroups,
    /// Tables of the streams that this node leads.
    pub(crate) streams: Streams,
    /// Users of a front, whose names no user of the cluster may get.
    pub(crate) own_users: Option<Arc<dyn OwnUsers>>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) stepper: Stepper,
    pub(crate) dirty: Arc<DirtyPages>,
    /// Threads for CPU-bound work.
    pub(crate) workers: Arc<Workers>,
    /// Lookups by time.
    pub(crate) lookups: Lookups,
    /// Batches on their way to the leaders of their partitions.
    pub(crate) relay: Relay,
    /// The other user of the links between nodes, if any.
    pub(crate) link_user: Option<Arc<dyn LinkUser>>,
    /// The sinks that hear of appended batches.
    pub(crate) taps: Taps,
    /// Users, rules, and logins.
    pub(crate) access: Access,
    /// The block of producer ids reserved for this node.
    pub(crate) producer_ids: Mutex<ProducerIdBlock>,
    /// Id of the cluster that this node belongs to.
    pub(crate) cluster_id: String,
    /// The data folder, as DescribeLogDirs reports it.
    pub(crate) data_dir: std::path::PathBuf,
    /// Free space on its disk.
    pub(crate) space: DiskSpace,
    /// Becomes true when the server is stopping: connections finish what they have and close.
    pub(crate) stopping: tailrace_env::sync::watch::Sender<bool>,
}

impl Node {
    /// Returns the wall clock.
    pub fn now(&self) -> TimestampMs {
        wall_clock()
    }

    /// Returns the current topics.
    pub fn topics(&self) -> arc_swap::Guard<Arc<TopicTable>> {
        self.controller.topics()
    }

    /// Returns the current metadata.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.controller.image()
    }

    /// Returns the replica of this group on this node. `None` if it has none.
    pub(crate) fn partition_of(&self, group: RaftGroup) -> Option<Arc<PartitionHandle>> {
        if group == METADATA {
            return Some(self.controller.handle());
        }
        let topic = self.topics().by_id(group.topic.0)?;
        topic.here(group.partition.0).ok().cloned()
    }

    /// Returns the current settings.
    pub fn config(&self) -> Arc<BrokerConfig> {
        Arc::clone(self.image().broker())
    }

    /// Returns the id of this node.
    pub fn id(&self) -> NodeId {
        self.config().node()
    }

    /// Returns how long all other nodes have been silent. `None` if this node never heard from any.
    pub(crate) fn silence_of_all(&self) -> Option<Duration> {
        self.heard.silence_of_all()
    }

    /// Returns how long another node has been silent. `None` if this node never heard from it.
    pub(crate) fn silence(&self, node: NodeId) -> Option<Duration> {
        self.heard.silence(node)
    }

    /// Lists the reasons why `/healthz` fails: metadata or partitions that cannot be written or read, and
    /// coordinators that cannot be loaded.
    pub fn problems(&self) -> Vec<String> {
        let topics = self.topics();
        let mut problems = Vec::new();
        if let Some(reason) = self.controller.halted() {
            problems.push(format!("the metadata log accepts no writes: {reason}"));
        }
        for topic in topics.iter() {
            for (number, slot) in topic.partitions.iter().enumerate() {
                match slot {
                    PartitionSlot::Offline(offline) => {
                        problems.push(format!("{}-{number} is offline: {}", topic.name, offline.reason));
                    }
                    PartitionSlot::Online(handle) => {
                        let halted = handle.halted();
                        problems.extend(
                            halted.iter().map(|reason| format!("{} accepts no writes: {reason}", handle.id)),
                        );
                        // With several replicas, the damage is repaired while the others serve.
                        if halted.is_none() && !handle.is_replica() {
                            let damaged = handle.reader.log().damaged();
                            problems.extend(
                                damaged.iter().map(|found| format!("{} is damaged at {found}", handle.id)),
                            );
                        }
                    }
                    PartitionSlot::Elsewhere => {}
                }
            }
        }
        problems.extend(self.coordinators.problems());
        problems
    }

    /// Lists conditions that need attention although the node serves. `/healthz` names them and does not
    /// fail.
    pub fn warnings(&self) -> Vec<String> {
        let uncleanable = self.cleaner.uncleanable().into_iter();
        let uncleanable = uncleanable.map(|(id, reason)| format!("{id} is no longer compacted: {reason}"));
        let warnings = self.disk_warning().into_iter().chain(uncleanable).chain(self.nodes_away());
        warnings.chain(self.being_mended()).collect()
    }

    /// Lists damaged ranges of replicas that are repaired from the others, and those that no replica has.
    fn being_mended(&self) -> Vec<String> {
        let topics = self.topics();
        let metadata = self.controller.handle();
        let replicas = topics.online().chain(std::iter::once(&metadata));
        let damaged = replicas.filter(|handle| handle.is_replica()).flat_map(|handle| {
            let damaged = handle.reader.log().damaged().into_iter();
            let state = |found: &DamagedRange| match found.is_lost {
                true => "not repaired: no replica has it",
                false => "being repaired",
            };
            damaged.map(move |found| format!("{} is damaged, and is {}: {found}", handle.id, state(&found)))
        });
        damaged.collect()
    }

    /// Lists the other nodes that this one has no connection to.
    fn nodes_away(&self) -> Vec<String> {
        let Some(peers) = self.links.peers() else { return Vec::new() };
        let (image, own) = (self.image(), self.id());
        let nodes = image.nodes().map(|node| node.registration.node);
        let away = nodes.filter(|node| *node != own && !peers.is_up(*node));
        away.map(|node| format!("there is no connection to node {node}")).collect()
    }

    /// Returns a warning while the disk is full or nearly full.
    pub(crate) fn disk_warning(&self) -> Option<String> {
        self.space.warning(&self.data_dir, self.config().tailrace_disk_free_warning_bytes)
    }
}
