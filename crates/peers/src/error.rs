//! What goes wrong between nodes.

use std::io;
use tailrace_env::time::Duration;

use tailrace_types::NodeId;

use super::frame::FrameError;
use super::handshake::Refusal;
use super::types::RequestError;

/// Why a request to another node has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Nothing was sent.
    #[error("there is no connection to node {0}")]
    NotConnected(NodeId),
    /// Nothing was sent.
    #[error("too much waits to be sent to that node, or for its answers")]
    QueueFull,
    /// Nothing was sent.
    #[error("a frame of {bytes} bytes is larger than {max}")]
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
        /// The most that is taken.
        max: usize,
    },
    /// It may have been carried out.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// It may have been carried out.
    #[error("the connection ended before the answer came: {0}")]
    Disconnected(String),
    /// The other node did not do it, or could not.
    #[error(transparent)]
    Answer(#[from] RequestError),
    /// No connection was made.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// Where it should be.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// TLS was not agreed on.
    #[error("TLS with {address}: {error}")]
    Tls {
        /// Where it should be.
        address: String,
        /// What went wrong.
        error: io::Error,
    },
    /// One of the two ends does not want this connection.
    #[error("{address}: {refusal}")]
    Refused {
        /// Where it is.
        address: String,
        /// Why it refuses.
        refusal: Refusal,
    },
    /// Something else than a node of tailrace listens there.
    #[error("{address} is no node of tailrace: {reason}")]
    NoPeer {
        /// Where it is.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// This node stops.
    #[error("the links are stopped")]
    Stopped,
}

impl PeerError {
    /// A label for the metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NotConnected(_) => "not_connected",
            Self::QueueFull => "queue_full",
            Self::TooLarge { .. } => "too_large",
            Self::TimedOut(_) => "timed_out",
            Self::Disconnected(_) => "disconnected",
            Self::Answer(RequestError::Busy) => "busy",
            Self::Answer(RequestError::NotServed) => "not_served",
            Self::Answer(RequestError::Stopping) => "stopping",
            Self::Answer(RequestError::Failed(_)) => "failed",
            Self::Connect { .. } => "connect",
            Self::Tls { .. } => "tls",
            Self::Refused { refusal, .. } => refusal.reason(),
            Self::NoPeer { .. } => "no_peer",
            Self::Stopped => "stopped",
        }
    }
}

/// Why a connection between nodes ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the other node closed the connection")]
    ByPeer,
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    #[error("nothing came for {0:?}")]
    Silent(Duration),
    #[error("a frame did not arrive whole in time")]
    SlowFrame,
    #[error("nothing could be sent for {0:?}")]
    Stalled(Duration),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("a frame that has no place here: {0}")]
    Misplaced(&'static str),
    #[error("a newer connection took its place")]
    Replaced,
}

impl Ended {
    /// A label for the metric; `None` for an ordinary end.
    pub(super) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::ByPeer | Self::Socket(_) | Self::Replaced => None,
            Self::Silent(_) => Some("silent"),
            Self::SlowFrame => Some("slow_frame"),
            Self::Stalled(_) => Some("stalled"),
            Self::Frame(_) => Some("frame"),
            Self::Misplaced(_) => Some("misplaced_frame"),
        }
    }
}
