//! The options of the links, and the traits and types of what they deliver.

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use tailrace_env::time::Duration;

use bytes::Bytes;
use tailrace_replication::raft::PeerMessage;
use tailrace_types::{LeaderEpoch, NodeId, RaftGroup};

/// Levels of the protocol between nodes that this build supports. docs/cluster-protocol.md describes each. A
/// build with `--cfg tailrace_next_level` has one more that equals the last: tests of rolling upgrades need a
/// second build.
pub const LEVELS: RangeInclusive<u16> = 1..=if cfg!(tailrace_next_level) { 3 } else { 2 };

/// Longest cluster id in bytes. Ours have 22.
pub(super) const CLUSTER_ID_BYTES_MAX: usize = 64;

/// A boxed future, for traits that are used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Another node, and where it listens for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNode {
    /// Its id.
    pub node: NodeId,
    /// HOST:PORT. Host names are looked up at each attempt.
    pub address: String,
}

/// The identity of this node.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its id.
    pub node: NodeId,
    /// Id of the data folder, which never changes.
    pub directory: [u8; 16],
    /// Random, new at each start. It tells two processes with the same node id apart.
    pub instance: [u8; 16],
    /// `None` until the node has founded or joined a cluster.
    pub cluster_id: Option<String>,
    /// See [`LEVELS`].
    pub levels: RangeInclusive<u16>,
}

/// The identity of the node that answered a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its id.
    pub node: NodeId,
    pub(crate) directory: [u8; 16],
    pub(crate) instance: [u8; 16],
    pub(crate) cluster_id: Option<String>,
    /// The protocol level of this connection.
    pub(crate) level: u16,
}

/// Limits of the links. One node has as many links in each direction as there are other nodes.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Maximum frame in bytes, either way, and the same on all nodes. It must hold a raft message with 1 MiB
    /// of batches and one batch of maximum size above that, or a request's body. At least 1 MiB. Memory: as
    /// much for each member that is sending such a frame. A frame is sent as a whole, and heartbeats wait for
    /// its end, so bodies should be cut into pieces of a few MiB.
    pub frame_bytes_max: usize,
    /// Maximum bytes of NATS messages that wait for one link, not counting a single larger one. Beyond that,
    /// messages are refused. Announcements of subscriptions may take 4 MiB more. Memory: as much for each
    /// other node that does not keep up.
    pub nats_bytes_max: usize,
    /// Maximum bytes that wait for one link, not counting a single larger frame. Beyond that, frames are
    /// refused. Memory: as much for each other node that does not keep up. Batches are shared with the
    /// sender, not copied.
    pub queue_bytes_max: usize,
    /// Maximum requests without an answer on one link, and requests of one peer that are served concurrently.
    /// Memory: their bodies, at most `queue_bytes_max` together, and as much for answers.
    pub requests_in_flight_max: usize,
    /// Maximum connections that have not completed the handshake, or come from nodes that are not members.
    pub strangers_max: usize,
    /// Maximum members that are connected to this node.
    pub links_max: usize,
    /// How often each link asks for a sign of life.
    pub ping_interval: Duration,
    /// A connection is cut if nothing arrives, or nothing can be sent, for this long.
    pub silence_max: Duration,
    /// Time limit for the connection, TLS and the handshake.
    pub handshake_timeout: Duration,
    /// Pause before the first attempt to reconnect. It doubles from attempt to attempt.
    pub reconnect_min: Duration,
    /// Maximum pause before an attempt to reconnect.
    pub reconnect_max: Duration,
}

/// Room above [`PeerOptions::nats_bytes_max`], only for announcements of subscriptions.
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

/// The kind of a request between nodes. Only the asker and the serving code know what its body means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RequestKind {
    /// A node wants to become a member. Also served to nodes without a cluster.
    Join = 1,
    /// A part of a snapshot.
    Chunk = 4,
    /// Batches for a partition that the other node leads.
    Append = 5,
    /// Asks who the node is. Also served to nodes without a cluster.
    Status = 6,
    /// A question to the node that leads or coordinates something. (Earlier builds used 2, 3, 7 and 8 for
    /// this.)
    Ask = 9,
    /// Messages for a stream that the other node leads, which judges them.
    Judge = 10,
}

impl RequestKind {
    const ALL: [Self; 6] = [Self::Join, Self::Chunk, Self::Append, Self::Status, Self::Ask, Self::Judge];

    pub(super) fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Returns its name for metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Chunk => "chunk",
            Self::Append => "append",
            Self::Status => "status",
            Self::Ask => "ask",
            Self::Judge => "judge",
        }
    }

    /// Reports whether a node that is not a member may ask it.
    pub(super) fn is_for_strangers(self) -> bool {
        matches!(self, Self::Join | Self::Status)
    }
}

/// Why another node did not answer a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It serves too many requests at once. Nothing was done.
    #[error("the node serves too many requests")]
    Busy,
    /// It does not serve this kind, or not to a node that is not a member. Nothing was done.
    #[error("the node does not serve this request")]
    NotServed,
    /// The node is stopping. Nothing was done.
    #[error("the node is stopping")]
    Stopping,
    /// The request failed, in the words of that node.
    #[error("{0}")]
    Failed(String),
}

/// Frames that nodes exchange for NATS clients. All arrive in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsFrame {
    /// The subjects that have subscribers.
    Interest,
    /// A message for subscribers.
    Message,
}

/// Why a frame for NATS clients of another node was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsUnsent {
    /// The link is down.
    Down,
    /// Too much waits for the link.
    QueueFull,
    /// It does not fit into a frame.
    TooLarge,
}

/// Receives what one link brings for NATS clients. Dropped when the link ends. Must never block.
pub trait NatsReceiver: Send {
    /// Takes the payload of one frame.
    ///
    /// # Errors
    /// What is wrong with it. The connection then ends.
    fn take(&mut self, frame: NatsFrame, payload: Bytes) -> Result<(), &'static str>;

    /// Reports whether the frames taken so far have used up a turn. Others then get theirs before the next
    /// frame is taken.
    fn is_due(&mut self) -> bool;

    /// Reports whether a message that was taken is unfinished. Later frames of the link do not wait for it:
    /// the receiver decides how much of them it takes and keeps.
    fn is_under_way(&self) -> bool;

    /// Continues with the unfinished message for another turn.
    fn go_on(&mut self);

    /// Called when all frames that arrived together have been taken, or as many as a turn allows. True if
    /// there was anything.
    fn settle(&mut self) -> bool;
}

/// Receives what arrives. All methods are called on the tasks of the connections and must never block.
pub trait PeerReceiver: Send + Sync + 'static {
    /// Receives raft messages in the order in which they were sent. Only heartbeats and their answers may
    /// overtake others. Each message is from a replica on `from` and for one on this node.
    fn raft(&self, from: NodeId, messages: Vec<(RaftGroup, PeerMessage)>);

    /// `from` renews the lease of its sleeping replicas, which has this number.
    fn beat(&self, from: NodeId, lease: u64);

    /// `from` leads these groups, since these epochs. `complete` if these are all.
    fn leading(&self, from: NodeId, complete: bool, groups: Vec<(RaftGroup, LeaderEpoch)>);

    /// A link from `from` has started. Returns the receiver of its frames for NATS clients, if any.
    fn nats(&self, from: NodeId) -> Option<Box<dyn NatsReceiver>>;

    /// Answers a request. `from` is `None` if the asker has no cluster yet, or this node has none. The future
    /// is dropped when the asker cancels or its connection ends, so work that must complete has to be
    /// spawned.
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

    /// Something arrived from `node`, on either connection. Called at most about once in 100 ms for each
    /// connection.
    fn heard(&self, node: NodeId);
}
