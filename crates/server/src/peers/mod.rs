//! Links between the nodes of a cluster: raft messages, announcements of leaders, requests.
//!
//! Each node dials every other one. A connection carries what its dialler sends, and the answers to its requests.

mod error;
mod handshake;
mod tls;
mod types;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tailrace_replication::raft::PeerMessage;
use tailrace_types::{GroupId, LeaderEpoch, NodeId};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) use error::{PeerError, RequestError};
pub(crate) use handshake::Refusal;
pub(crate) use tls::PeerTls;
pub(crate) use types::{
    BoxFuture, FRAME_BYTES_MIN, Identity, LEVELS, PeerIdentity, PeerNode, PeerOptions, PeerReceiver,
    RequestKind,
};

use crate::metrics::Metrics;

/// All links of one node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Peers {
    inner: Arc<Inner>,
}

struct Inner {}

impl Peers {
    /// Links without nodes. To be called within the runtime on which they are to live.
    pub(crate) fn new(
        _options: PeerOptions,
        _identity: Identity,
        _tls: Option<Arc<PeerTls>>,
        _metrics: &Metrics,
    ) -> Self {
        Self { inner: Arc::new(Inner {}) }
    }

    /// Accepts connections until [`Peers::stop`], and hands everything that arrives, on any connection, to `receiver`. Nodes
    /// are dialled from now on.
    pub(crate) fn serve(&self, listener: TcpListener, _receiver: Arc<dyn PeerReceiver>) -> JoinHandle<()> {
        tokio::spawn(async move { drop(listener) })
    }

    /// The other nodes from now on (this one may be among them and is left out): new ones are dialled, links to those that
    /// are not named any more are closed, those with another address are dialled there.
    pub(crate) fn set_nodes(&self, _nodes: Vec<PeerNode>) {}

    /// The cluster that this node now belongs to.
    pub(crate) fn set_cluster(&self, _cluster_id: &str) {}

    /// Sends a raft message. Never blocks. False if it was dropped: the link is down, its queue is full, or the message is
    /// too large.
    pub(crate) fn send(&self, _to: NodeId, _group: GroupId, _message: PeerMessage) -> bool {
        false
    }

    /// Tells all nodes which groups this one leads; `complete` if these are all. Never blocks. Nodes whose links are down do
    /// not hear it: whoever calls repeats the whole list at [`PeerReceiver::connected`] and now and then.
    pub(crate) fn send_leading(&self, _complete: bool, _groups: &[(GroupId, LeaderEpoch)]) {}

    /// As [`Peers::send_leading`], to one node.
    pub(crate) fn send_leading_to(&self, _to: NodeId, _complete: bool, _groups: &[(GroupId, LeaderEpoch)]) {}

    /// Asks a node. Whoever drops the future takes the request back; it may have been carried out all the same.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub(crate) async fn request(
        &self,
        to: NodeId,
        _kind: RequestKind,
        _body: Bytes,
        _timeout: Duration,
    ) -> Result<Bytes, PeerError> {
        Err(PeerError::NotConnected(to))
    }

    /// Asks whoever listens at `address` (HOST:PORT), over a connection of its own, and says who it was. `timeout` is for
    /// all of it.
    ///
    /// # Errors
    /// See [`PeerError`]; [`Refusal::Itself`] if the address leads here.
    pub(crate) async fn ask(
        &self,
        _address: &str,
        _kind: RequestKind,
        _body: Bytes,
        _timeout: Duration,
    ) -> Result<(PeerIdentity, Bytes), PeerError> {
        Err(PeerError::Stopped)
    }

    /// True while the link to `node` is up.
    pub(crate) fn is_up(&self, _node: NodeId) -> bool {
        false
    }

    /// The level of the protocol on the link to `node`, while that is up.
    pub(crate) fn level(&self, _node: NodeId) -> Option<u16> {
        None
    }

    /// Closes all connections, after what waits has had a moment to be sent. Requests under way end with
    /// [`PeerError::Stopped`] or [`PeerError::Disconnected`]. The receiver is let go.
    pub(crate) async fn stop(&self) {}
}
