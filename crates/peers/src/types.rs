//! What the links are told, and whom they tell.

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use tailrace_env::time::Duration;

use bytes::Bytes;
use tailrace_replication::raft::PeerMessage;
use tailrace_types::{LeaderEpoch, NodeId, RaftGroup};

/// Levels of the protocol between nodes that this build speaks. docs/cluster-protocol.md says what each is. A build with
/// `--cfg tailrace_next_level` has one more that is like the last: tests of rolling upgrades need a second build.
pub const LEVELS: RangeInclusive<u16> = 1..=if cfg!(tailrace_next_level) { 2 } else { 1 };

/// Longest cluster id in bytes; ours have 22.
pub(super) const CLUSTER_ID_BYTES_MAX: usize = 64;

/// A future of a trait that is used as an object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Another node, and where it listens for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNode {
    /// Its number.
    pub node: NodeId,
    /// HOST:PORT. Host names are looked up at each attempt.
    pub address: String,
}

/// Who this node is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its number.
    pub node: NodeId,
    /// Of the data folder; stays as long as that.
    pub directory: [u8; 16],
    /// Random, new at each start: tells a node from itself and from another one with its number.
    pub instance: [u8; 16],
    /// `None` until the node has founded or joined a cluster.
    pub cluster_id: Option<String>,
    /// See [`LEVELS`].
    pub levels: RangeInclusive<u16>,
}

/// Who answered a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its number.
    pub node: NodeId,
    pub(crate) directory: [u8; 16],
    pub(crate) instance: [u8; 16],
    pub(crate) cluster_id: Option<String>,
    /// The level that both ends speak on this connection.
    pub(crate) level: u16,
}

/// Limits of the links. One node has as many links in each direction as there are other nodes.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Largest frame in bytes, either way, and the same on all nodes: a raft message with 1 MiB of batches and a largest one
    /// above that, or a request's body. At least 1 MiB. Memory: as much for each member that is sending such a
    /// frame. A frame goes whole, and heartbeats wait for its end: bodies are better cut into pieces of some MiB.
    pub frame_bytes_max: usize,
    /// Bytes of NATS messages that wait for one link, but for a single one that is larger; what is more is refused. Word of
    /// subscriptions may take 4 MiB more. Memory: as much for each other node that does not keep up.
    pub nats_bytes_max: usize,
    /// Bytes that wait for one link, but for a single frame that is larger; what is more is refused. Memory: as much for each other node that does not keep up.
    /// Batches are shared with whoever sends them, not copied.
    pub queue_bytes_max: usize,
    /// Requests without an answer on one link, and requests of one peer that are served at once. Memory: their bodies, at most
    /// `queue_bytes_max` together, and as many answers.
    pub requests_in_flight_max: usize,
    /// Connections that have not made the handshake, or come from nodes that are no members.
    pub strangers_max: usize,
    /// Members that are connected to this node.
    pub links_max: usize,
    /// How often each link asks for a sign of life.
    pub ping_interval: Duration,
    /// A connection on which nothing comes in, or nothing can be sent, for so long is cut.
    pub silence_max: Duration,
    /// For the connection, TLS and the handshake.
    pub handshake_timeout: Duration,
    /// Pause before the first attempt to connect again; doubles from attempt to attempt.
    pub reconnect_min: Duration,
    /// The longest pause before it is connected to again.
    pub reconnect_max: Duration,
}

/// Above [`PeerOptions::nats_bytes_max`], for word of subscriptions alone.
pub(crate) const NATS_INTEREST_RESERVE_BYTES: usize = 4 << 20;

/// Lower bound of [`PeerOptions::frame_bytes_max`].
pub(crate) const FRAME_BYTES_MIN: usize = 1 << 20;

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            frame_bytes_max: 128 << 20,
            nats_bytes_max: 64 << 20,
            queue_bytes_max: 64 << 20,
            requests_in_flight_max: 256,
            strangers_max: 64,
            links_max: 1024,
            ping_interval: Duration::from_millis(500),
            silence_max: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(5),
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(1),
        }
    }
}

/// What a request between nodes is about. What a body means is its server's and its asker's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RequestKind {
    /// A node wants to become a member. Served to nodes without a cluster.
    Join = 1,
    /// A part of a snapshot.
    Chunk = 4,
    /// Batches for a partition that the other node leads.
    Append = 5,
    /// Who are you? Served to nodes without a cluster.
    Status = 6,
    /// A question to the node that leads or coordinates something. (Builds before had 2, 3, 7 and 8 for this.)
    Ask = 9,
}

impl RequestKind {
    const ALL: [Self; 5] = [Self::Join, Self::Chunk, Self::Append, Self::Status, Self::Ask];

    pub(super) fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// For metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Chunk => "chunk",
            Self::Append => "append",
            Self::Status => "status",
            Self::Ask => "ask",
        }
    }

    /// True if a node that is no member may ask it.
    pub(super) fn is_for_strangers(self) -> bool {
        matches!(self, Self::Join | Self::Status)
    }
}

/// What another node says instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Too many requests at once. Nothing was done.
    #[error("the node serves too many requests")]
    Busy,
    /// Not this kind, or not to a node that is no member. Nothing was done.
    #[error("the node does not serve this request")]
    NotServed,
    /// The node stops. Nothing was done.
    #[error("the node stops")]
    Stopping,
    /// In the words of that node.
    #[error("{0}")]
    Failed(String),
}

/// What NATS clients' nodes tell each other. All of it arrives in the order in which it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsFrame {
    /// What there are subscribers for.
    Interest,
    /// A message for subscribers.
    Message,
}

/// Why something for NATS clients of another node was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsUnsent {
    /// The link is down.
    Down,
    /// Too much waits for it.
    QueueFull,
    /// It does not fit into a frame.
    TooLarge,
}

/// Takes what one link brings for NATS clients; dropped when the link ends. Must never block.
pub trait NatsReceiver: Send {
    /// One frame's payload.
    ///
    /// # Errors
    /// What is wrong with it: the connection ends then.
    fn take(&mut self, frame: NatsFrame, payload: Bytes) -> Result<(), &'static str>;

    /// True if what was taken has lasted for a turn: others are to have theirs before the next frame is taken.
    fn is_due(&mut self) -> bool;

    /// True if something that was taken is not done. What the link brings meanwhile does not wait for it: how much of it may be taken
    /// and kept is the receiver's business.
    fn is_under_way(&self) -> bool;

    /// Goes on with what is not done, for another turn.
    fn go_on(&mut self);

    /// What arrived together has been taken, or as much of it as a turn allows. True if there was anything.
    fn settle(&mut self) -> bool;
}

/// Who takes what arrives. Everything is called on the tasks of the connections and must never block.
pub trait PeerReceiver: Send + Sync + 'static {
    /// Raft messages in the order in which they were sent, but for heartbeats and their answers, which may overtake others.
    /// Each is from a replica on `from` and for one on this node.
    fn raft(&self, from: NodeId, messages: Vec<(RaftGroup, PeerMessage)>);

    /// `from` renews the lease of its sleeping replicas, which has this number.
    fn beat(&self, from: NodeId, lease: u64);

    /// Groups that `from` leads, and since which epoch; `complete` if these are all.
    fn leading(&self, from: NodeId, complete: bool, groups: Vec<(RaftGroup, LeaderEpoch)>);

    /// A link of `from` has begun: who takes what its NATS clients say, if anybody.
    fn nats(&self, from: NodeId) -> Option<Box<dyn NatsReceiver>>;

    /// Answers a request; `from` is `None` if a node asks that has no cluster yet, or if this one has none. The future is
    /// dropped when the asker gives up or its connection ends: what must be finished has to be spawned.
    fn request(
        &self,
        from: Option<NodeId>,
        kind: RequestKind,
        body: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, RequestError>>;

    /// The link to `node` is up.
    fn connected(&self, node: NodeId);

    /// The link to `node` is down. What was sent on it may be lost.
    fn disconnected(&self, node: NodeId);

    /// Something came from `node`, on either connection. At most about once in 100 ms for each connection.
    fn heard(&self, node: NodeId);
}
