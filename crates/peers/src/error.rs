//! Errors between nodes.

use std::io;
use tailrace_env::time::Duration;

use tailrace_types::NodeId;

use super::frame::FrameError;
use super::handshake::Refusal;
use super::types::RequestError;

/// Why a request to another node has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// There is no connection. Nothing was sent.
    #[error("there is no connection to node {0}")]
    NotConnected(NodeId),
    /// A queue or limit is full. Nothing was sent.
    #[error("too much is waiting to be sent to that node, or for its answers")]
    QueueFull,
    /// The request is too large. Nothing was sent.
    #[error("a frame of {bytes} bytes is larger than {max}")]
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
        /// The maximum.
        max: usize,
    },
    /// The answer did not arrive in time. The request may have been executed.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The connection ended. The request may have been executed.
    #[error("the connection ended before the answer arrived: {0}")]
    Disconnected(String),
    /// The other node did not execute the request.
    #[error(transparent)]
    Answer(#[from] RequestError),
    /// No connection was made.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// The address that was dialled.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// TLS failed.
    #[error("TLS with {address}: {error}")]
    Tls {
        /// The address that was dialled.
        address: String,
        /// The TLS error.
        error: io::Error,
    },
    /// One of the two ends refuses this connection.
    #[error("{address}: {refusal}")]
    Refused {
        /// The address that was dialled.
        address: String,
        /// The reason.
        refusal: Refusal,
    },
    /// Whatever listens there is not a tailrace node.
    #[error("{address} is not a tailrace node: {reason}")]
    NoPeer {
        /// The address that was dialled.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// This node is stopping.
    #[error("the links are stopped")]
    Stopped,
}

impl PeerError {
    /// Returns a label for the metrics.
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
    #[error("nothing arrived for {0:?}")]
    Silent(Duration),
    #[error("a frame did not arrive whole in time")]
    SlowFrame,
    #[error("nothing could be sent for {0:?}")]
    Stalled(Duration),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("an unexpected frame: {0}")]
    Misplaced(&'static str),
    #[error("a newer connection took its place")]
    Replaced,
}

impl Ended {
    /// Returns a label for the metric. `None` for an ordinary end.
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
