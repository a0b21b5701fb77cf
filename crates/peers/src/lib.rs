//! Links between the nodes of a cluster: raft messages, announcements of leaders, requests.
//!
//! Each node dials every other one. A connection carries what its dialler sends, and the answers to its
//! requests, so two nodes have two of them. docs/cluster-protocol.md describes the bytes. The way out:
//! [`Peers::send`] -> `link` -> `outgoing` (lanes, bounded) -> socket. The way in: `accept` (handshake) ->
//! `incoming` -> [`PeerReceiver`].
//!
//! Deliberately elsewhere: what messages and requests mean, who is a member, and whether a node is alive.
//!
//! # Traps
//!
//! * Between nodes, heartbeats overtake everything else that waits (`outgoing.rs`): behind a queue of batches
//!   they would look like the death of their sender.
//! * An end that closes a connection first, with bytes unread, takes back what the other end has not read
//!   yet. So a link that ends in peace shuts down its direction and waits for the other end to close, and so
//!   does a refusal.

mod accept;
mod dial;
mod dialler;
mod error;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handshake;
mod incoming;
mod link;
mod metrics;
mod outgoing;
mod port;
mod presence;
mod quiet;
mod reader;
mod session;
mod shared;
mod stream;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{select, task, time};

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tailrace_env::sync::watch;
use tailrace_env::task::JoinHandle;
use tailrace_replication::raft::PeerMessage;
use tailrace_types::{LeaderEpoch, NodeId, RaftGroup};

pub use error::PeerError;
pub use handshake::Refusal;
pub use port::Port;
pub use tailrace_env::net::ListenError;
pub use tailrace_tls::{PeerTls, TlsError};
pub use types::{
    BoxFuture, Identity, LEVELS, NatsFrame, NatsReceiver, NatsUnsent, PeerIdentity, PeerNode, PeerOptions,
    PeerReceiver, RequestError, RequestKind,
};
use types::{FRAME_BYTES_MIN, NATS_INTEREST_RESERVE_BYTES};

use frame::FrameKind;
use handshake::Purpose;
use metrics::PeerMetrics;
use outgoing::Unsent;
use presence::Presence;
use quiet::Quiet;
use session::Session;
use shared::{Links, Shared, WantedLinks};
use tailrace_env::metrics::Metrics;

/// How long the backlog may still be sent when the links are stopped.
const FAREWELL_MAX: Duration = Duration::from_millis(500);

/// A node that is silent for more than this many pings does not block another one with its id.
const PINGS_ALIVE: u32 = 3;

/// All links of one node. Cheap to clone.
#[derive(Clone)]
pub struct Peers {
    shared: Arc<Shared>,
}

impl Peers {
    /// Makes links without nodes. Call this within the runtime on which they should live.
    ///
    /// # Panics
    /// If [`PeerOptions::frame_bytes_max`] is below 1 MiB.
    pub fn new(
        options: PeerOptions,
        identity: Identity,
        tls: Option<Arc<PeerTls>>,
        metrics: &Metrics,
    ) -> Self {
        assert!(options.frame_bytes_max >= FRAME_BYTES_MIN, "frames of {} bytes", options.frame_bytes_max);
        let peer_metrics = PeerMetrics::new();
        metrics.add(|registry| peer_metrics.register_into(registry));
        let alive = options.ping_interval * PINGS_ALIVE;
        let shared = Shared {
            presence: Arc::new(Presence::new(alive, options.links_max)),
            options,
            identity: ArcSwap::from_pointee(identity),
            tls,
            metrics: peer_metrics,
            quiet: Quiet::default(),
            links: ArcSwap::default(),
            wanted: Mutex::default(),
            stopping: watch::Sender::new(false),
            spawner: task::Spawner::current(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Accepts connections until [`Peers::stop`], and hands everything that arrives, on any connection, to
    /// `receiver`. Starts dialling the nodes.
    pub fn serve(&self, port: Port, receiver: Arc<dyn PeerReceiver>) -> JoinHandle<()> {
        let accepting = accept::serve(port.0, Arc::clone(&self.shared), Arc::clone(&receiver));
        let task = self.shared.spawner.spawn(accepting);
        let mut wanted = self.shared.wanted.lock();
        wanted.receiver = Some(receiver);
        self.adjust(&wanted);
        task
    }

    /// Sets the other nodes. This one may be among them and is ignored. Dials new ones, closes links to those
    /// that are no longer named, and dials those with a new address there.
    pub fn set_nodes(&self, nodes: Vec<PeerNode>) {
        let mut wanted = self.shared.wanted.lock();
        wanted.nodes = nodes;
        self.adjust(&wanted);
    }

    /// Sets the cluster that this node now belongs to.
    ///
    /// # Panics
    /// If the id is empty or longer than 64 bytes.
    pub fn set_cluster(&self, cluster_id: &str) {
        let bytes = 1..=types::CLUSTER_ID_BYTES_MAX;
        assert!(bytes.contains(&cluster_id.len()), "a cluster id of {} bytes", cluster_id.len());
        let identity =
            Identity { cluster_id: Some(cluster_id.to_owned()), ..(**self.shared.identity.load()).clone() };
        self.shared.identity.store(Arc::new(identity));
        self.shared.links.load().values().for_each(|link| link.nudge());
    }

    /// Sends a raft message. Never blocks. False if it was dropped: the link is down, its queue is full, or
    /// the message is too large. Heartbeats may overtake other messages.
    pub fn send(&self, to: NodeId, group: RaftGroup, message: PeerMessage) -> bool {
        let dropped = |reason| {
            self.shared.metrics.dropped(reason, 1);
            false
        };
        let max = self.shared.options.frame_bytes_max;
        let queued = self.with_session(to, |session| match message.heartbeat() {
            Some(heartbeat) => Ok(session.outgoing.push_heartbeat(group, &heartbeat)),
            None if frame::HEADER_BYTES + frame::message_bytes(&message) > max => Err("too_large"),
            None => Ok(session.outgoing.push_message(group, message)),
        });
        match queued {
            Some(Ok(Ok(()))) => true,
            None | Some(Ok(Err(Unsent::Closed))) => dropped("down"),
            Some(Ok(Err(Unsent::Full))) => dropped("queue_full"),
            Some(Err(reason)) => dropped(reason),
        }
    }

    /// Runs `work` beside the links.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.spawner.spawn(work);
    }

    /// Counts a raft message that arrived and was dropped.
    pub fn not_taken(&self, reason: &'static str) {
        self.shared.metrics.dropped(reason, 1);
    }

    /// Queues a frame for NATS clients with a payload of this many bytes. Never blocks.
    ///
    /// # Errors
    /// Why it was not queued. Nothing of it is sent.
    pub fn send_nats(
        &self,
        to: NodeId,
        frame: NatsFrame,
        bytes: usize,
        write: impl FnOnce(&mut BytesMut),
    ) -> Result<(), NatsUnsent> {
        let options = &self.shared.options;
        let bytes = frame::HEADER_BYTES + bytes;
        if bytes > options.frame_bytes_max {
            return Err(NatsUnsent::TooLarge);
        }
        let room = match frame {
            NatsFrame::Interest => options.nats_bytes_max + NATS_INTEREST_RESERVE_BYTES,
            NatsFrame::Message => options.nats_bytes_max,
        };
        let queued =
            self.with_session(to, |session| session.outgoing.push_nats(frame.into(), bytes, room, write));
        match queued {
            Some(Ok(())) => Ok(()),
            None | Some(Err(Unsent::Closed)) => Err(NatsUnsent::Down),
            Some(Err(Unsent::Full)) => Err(NatsUnsent::QueueFull),
        }
    }

    /// Returns the bytes for NATS clients that wait for a node. 0 while its link is down.
    pub fn nats_pending(&self, node: NodeId) -> usize {
        self.with_session(node, |session| session.outgoing.nats_bytes()).unwrap_or(0)
    }

    /// Waits until no more than `bytes` for NATS clients wait for a node, or its link ends.
    pub async fn nats_room(&self, node: NodeId, bytes: usize) {
        let session = self.shared.links.load().get(&node).and_then(|link| link.session());
        if let Some(session) = session {
            session.outgoing.nats_room(bytes).await;
        }
    }

    /// Tells all nodes which groups this one leads. `complete` if these are all. Never blocks. Nodes whose
    /// links are down miss it, so the caller repeats the whole list at [`PeerReceiver::connected`] and
    /// periodically.
    pub fn send_leading(&self, complete: bool, groups: &[(RaftGroup, LeaderEpoch)]) {
        let frames = frame::leading_frames(complete, groups, self.shared.options.frame_bytes_max);
        for link in self.shared.links.load().values() {
            // A node whose link is down, or that is far behind, gets it later.
            let _ = link.with_session(|session| session.outgoing.push_leading(complete, &frames));
        }
    }

    /// Renews the lease of this node's sleeping replicas with all nodes. Never blocks.
    pub fn beat(&self, lease: u64) {
        for link in self.shared.links.load().values() {
            let _ = link.with_session(|session| session.outgoing.push_control(FrameKind::Beat, lease));
        }
    }

    /// Like [`Peers::send_leading`], to one node.
    pub fn send_leading_to(&self, to: NodeId, complete: bool, groups: &[(RaftGroup, LeaderEpoch)]) {
        let frames = frame::leading_frames(complete, groups, self.shared.options.frame_bytes_max);
        let _ = self.with_session(to, |session| session.outgoing.push_leading(complete, &frames));
    }

    /// Sends a request to a node. Dropping the future cancels the request, but the other node may still have
    /// executed it.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn request(
        &self,
        to: NodeId,
        kind: RequestKind,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, PeerError> {
        let session = self.shared.links.load().get(&to).and_then(|link| link.session());
        let session = session.ok_or(PeerError::NotConnected(to));
        self.timed(kind, async { session?.request(kind, body, timeout).await }).await
    }

    /// Sends a request to the node that listens at `address` (HOST:PORT), over a connection of its own, and
    /// returns its identity and answer. `timeout` covers all of it.
    ///
    /// # Errors
    /// See [`PeerError`]. [`Refusal::Itself`] if the address leads to this node.
    pub async fn ask(
        &self,
        address: &str,
        kind: RequestKind,
        body: Bytes,
        timeout: Duration,
    ) -> Result<(PeerIdentity, Bytes), PeerError> {
        let mut stopping = self.shared.stopping.subscribe();
        let asked = async {
            select! {
                asked = time::timeout(timeout, self.dial_and_ask(address, kind, body, timeout)) => {
                    asked.unwrap_or(Err(PeerError::TimedOut(timeout)))
                }
                () = Shared::stopped(&mut stopping) => Err(PeerError::Stopped),
            }
        };
        self.timed(kind, asked).await
    }

    async fn dial_and_ask(
        &self,
        address: &str,
        kind: RequestKind,
        body: Bytes,
        timeout: Duration,
    ) -> Result<(PeerIdentity, Bytes), PeerError> {
        let (peer, halves) = dial::dial(&self.shared, address, Purpose::Ask, None).await?;
        let session = Session::new(peer.clone(), &self.shared.options);
        let answer = select! {
            answer = session.request(kind, body, timeout) => answer?,
            ended = session.run(halves, &self.shared.options, &self.shared.metrics, || {}) => {
                return Err(PeerError::Disconnected(ended.to_string()));
            }
        };
        Ok((peer, answer))
    }

    async fn timed<T>(
        &self,
        kind: RequestKind,
        request: impl Future<Output = Result<T, PeerError>>,
    ) -> Result<T, PeerError> {
        let started = Instant::now();
        let outcome = request.await;
        let failure = outcome.as_ref().err().map(PeerError::reason);
        self.shared.metrics.requested(kind, started.elapsed(), failure);
        outcome
    }

    /// Reports whether the link to `node` is up.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.level(node).is_some()
    }

    /// Reports whether another node refuses this one, because another instance with its id is alive. An
    /// instance that was just killed counts as alive for three pings.
    pub fn number_is_taken(&self) -> bool {
        self.shared.links.load().values().any(|link| link.number_is_taken())
    }

    /// Returns the protocol level on the link to `node`. `None` while the link is down.
    pub(crate) fn level(&self, node: NodeId) -> Option<u16> {
        self.with_session(node, |session| session.peer.level)
    }

    fn with_session<T>(&self, node: NodeId, f: impl FnOnce(&Session) -> T) -> Option<T> {
        self.shared.links.load().get(&node)?.with_session(f)
    }

    /// Closes all connections. The backlog gets 500 ms to be sent first. Requests in flight end with
    /// [`PeerError::Stopped`] or [`PeerError::Disconnected`]. Drops the receiver.
    pub async fn stop(&self) {
        let links = {
            let mut wanted = self.shared.wanted.lock();
            *wanted = WantedLinks::default();
            self.shared.links.load_full()
        };
        let finishing: Vec<Arc<Session>> = links.values().filter_map(|link| link.finish()).collect();
        let farewell = async {
            for session in finishing {
                session.outgoing.closed().await;
            }
        };
        let _ = time::timeout(FAREWELL_MAX, farewell).await;
        self.shared.links.store(Arc::default());
        for link in links.values() {
            if let Some(task) = link.end() {
                let _ = task.await;
            }
        }
        self.shared.stopping.send_replace(true);
        self.shared.stopping.closed().await;
    }

    /// Dials and closes links until they match those that are wanted.
    fn adjust(&self, wanted: &WantedLinks) {
        let Some(receiver) = &wanted.receiver else { return };
        let own = self.shared.identity.load().node;
        let before = self.shared.links.load_full();
        let mut links = Links::new();
        let nodes: BTreeMap<NodeId, &PeerNode> = wanted.nodes.iter().map(|node| (node.node, node)).collect();
        for (id, node) in nodes.into_iter().filter(|(id, _)| *id != own) {
            let link = match before.get(&id) {
                Some(link) if link.node == *node => Arc::clone(link),
                other => {
                    let ended = other.and_then(|link| link.end());
                    dialler::start(&self.shared, receiver, node.clone(), ended)
                }
            };
            links.insert(id, link);
        }
        for (id, link) in before.iter() {
            if !links.contains_key(id) {
                link.end();
            }
        }
        self.shared.links.store(Arc::new(links));
    }
}
