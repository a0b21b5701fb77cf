//! Messages of partitions to other nodes, and the leader of each partition.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tailrace_env::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tailrace_config::BrokerConfig;
use tailrace_env::sync::watch;
use tailrace_metadata::MetadataImage;
use tailrace_metadata::cluster::{Leader, Leaders};
use tailrace_replication::raft::{ChunkRequest, PeerMessage};
use tailrace_types::{LeaderEpoch, NodeId, RaftGroup, ReplicaId};

use super::chunk;
use super::leases::Leases;
use super::throttle::Throttle;
use crate::controller::GROUP as CONTROLLER;
use crate::deadlines::CHUNK_TIMEOUT;
use tailrace_peers::{PeerError, Peers, RequestKind};

/// Maximum number of partitions whose leaders are known.
const GROUPS_MAX: usize = 1 << 20;

/// Maximum number of announcements kept until the metadata name their topics and replicas. The others are
/// repeated within seconds.
const EARLY_MAX: usize = 1 << 16;

/// How long they are kept. They may be about a topic that was deleted.
const EARLY_AGE_MAX: Duration = Duration::from_secs(30);

/// An announcement about a topic or replica that this node does not know yet.
struct Early {
    from: NodeId,
    epoch: LeaderEpoch,
    since: Instant,
}

/// The way out for the partitions of this node.
pub(crate) struct Links {
    node: NodeId,
    /// `None` in a standalone server.
    peers: OnceLock<Peers>,
    leaders: Mutex<Leaders>,
    /// Announcements about topics and replicas that this node does not know yet.
    early: Mutex<HashMap<RaftGroup, Early>>,
    /// Counts how often this node started or stopped leading a partition.
    own: watch::Sender<u64>,
    leases: Leases,
    outbound: Arc<Throttle>,
    inbound: Arc<Throttle>,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Links {
    /// Makes the links of a node that is standalone so far.
    pub(crate) fn new(node: NodeId, silence_ticks: u32) -> Self {
        let leaders = Mutex::new(Leaders::new(GROUPS_MAX));
        let (early, own) = (Mutex::default(), watch::Sender::new(0));
        let leases = Leases::new(silence_ticks);
        let (outbound, inbound) = Default::default();
        Self { node, peers: OnceLock::new(), leaders, early, own, leases, outbound, inbound }
    }

    /// Sets the links to the other nodes.
    pub(crate) fn connect(&self, peers: Peers) {
        // Called once, at start.
        let _ = self.peers.set(peers);
    }

    /// Returns the links themselves. `None` in a standalone server.
    pub(crate) fn peers(&self) -> Option<&Peers> {
        self.peers.get()
    }

    /// Leases on sleeping replicas.
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Returns the throttle for data sent to new replicas on other nodes.
    pub(super) fn outbound(&self) -> &Arc<Throttle> {
        &self.outbound
    }

    /// Returns the throttle for data that new replicas on this node receive.
    pub(crate) fn inbound(&self) -> &Arc<Throttle> {
        &self.inbound
    }

    /// Sets the rates of the throttles.
    pub(crate) fn configure(&self, config: &BrokerConfig) {
        self.outbound.set_rate(config.leader_replication_throttled_rate);
        self.inbound.set_rate(config.follower_replication_throttled_rate);
    }

    pub(crate) fn register_into(&self, registry: &mut Registry) {
        let metrics = [
            ("throttled_sent_bytes", "Bytes sent to new replicas under the throttle", &self.outbound),
            (
                "throttled_received_bytes",
                "Bytes that new replicas received under the throttle",
                &self.inbound,
            ),
        ];
        for (name, help, throttle) in metrics {
            registry.register(name, help, throttle.passed_bytes.clone());
        }
    }

    /// Sends a message of a group to its replica's node. Never blocks. Drops what it cannot send.
    pub(crate) fn send(&self, group: RaftGroup, message: PeerMessage) {
        if let Some(peers) = self.peers.get() {
            // Raft itself detects what did not arrive.
            let _ = peers.send(message.to().node(), group, message);
        }
    }

    /// Sends a message once the throttle lets it through. False if too much waits already.
    pub(crate) fn send_slowly(&self, group: RaftGroup, message: PeerMessage, bytes: usize) -> bool {
        let Some(peers) = self.peers.get() else { return true };
        let Some(pass) = self.outbound.admit(bytes) else { return false };
        if pass.is_due() {
            self.send(group, message);
            return true;
        }
        let later = peers.clone();
        peers.spawn(async move {
            pass.wait().await;
            let _ = later.send(message.to().node(), group, message);
        });
        true
    }

    /// Asks another replica of a group for a chunk of a snapshot. `None` if it no longer has that snapshot.
    pub(crate) async fn ask_chunk(
        &self,
        group: RaftGroup,
        request: &ChunkRequest,
    ) -> Result<Option<Bytes>, PeerError> {
        let node = request.to().node();
        let peers = self.peers.get().ok_or(PeerError::NotConnected(node))?;
        let body = chunk::encode_request(group, request);
        let answer = peers.request(node, RequestKind::Chunk, body, CHUNK_TIMEOUT).await?;
        Ok(chunk::decode_answer(answer))
    }

    /// Records that this node's replica now leads a group, or no longer does, and tells the others.
    pub(crate) fn leadership_changed(
        &self,
        group: RaftGroup,
        replica: ReplicaId,
        leads: Option<LeaderEpoch>,
    ) {
        if let Some(epoch) = leads {
            self.leaders.lock().announce(group, replica, epoch);
            if let Some(peers) = self.peers.get() {
                peers.send_leading(false, &[(group, epoch)]);
            }
            tracing::debug!(%group, %epoch, "this node leads");
        }
        self.own.send_modify(|changes| *changes += 1);
    }

    /// Records what another node announces that it leads.
    pub(crate) fn announced(
        &self,
        from: NodeId,
        groups: Vec<(RaftGroup, LeaderEpoch)>,
        image: &MetadataImage,
    ) {
        let (mut leaders, mut early) = (self.leaders.lock(), self.early.lock());
        for (group, epoch) in groups {
            let replica = match image.topic_by_id(group.topic) {
                // Also for a node that the metadata do not name yet: without a controller they never will.
                _ if group == CONTROLLER => image
                    .node(from)
                    .map_or(Some(ReplicaId::new(from, 0)), |node| Some(node.registration.replica)),
                Some(topic) => {
                    topic.partition(group.partition).and_then(|partition| partition.present_on(from))
                }
                None => None,
            };
            if let Some(replica) = replica {
                leaders.announce(group, replica, epoch);
            } else if early.get(&group).map_or(early.len() < EARLY_MAX, |known| known.epoch < epoch) {
                early.insert(group, Early { from, epoch, since: Instant::now() });
            }
        }
    }

    /// Records the announcements that arrived before the metadata named their topics and replicas.
    pub(crate) fn place_early(&self, image: &MetadataImage) {
        let early = std::mem::take(&mut *self.early.lock());
        for (group, Early { from, epoch, since }) in early {
            if since.elapsed() >= EARLY_AGE_MAX {
                continue;
            }
            self.announced(from, vec![(group, epoch)], image);
            if let Some(still) = self.early.lock().get_mut(&group) {
                still.since = still.since.min(since);
            }
        }
    }

    /// Returns the leader of a group, as far as this node knows.
    pub(crate) fn leader(&self, group: RaftGroup) -> Option<Leader> {
        self.leaders.lock().get(group)
    }

    /// Returns a copy of all known leaders.
    pub(crate) fn leaders(&self) -> Leaders {
        self.leaders.lock().clone()
    }

    /// Forgets the leaders of what no longer exists.
    pub(crate) fn forget_unknown(&self, image: &MetadataImage) {
        self.leaders.lock().forget_unknown(image, CONTROLLER.topic);
    }

    /// Returns a receiver that changes whenever this node starts or stops leading a partition.
    pub(crate) fn own_leadership(&self) -> watch::Receiver<u64> {
        self.own.subscribe()
    }
}
