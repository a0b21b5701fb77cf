//! Receives what other nodes send to this one.

use std::sync::{Arc, OnceLock, Weak};
use tailrace_env::task;

use bytes::Bytes;
use parking_lot::Mutex;
use tailrace_replication::raft::PeerMessage;
use tailrace_types::{LeaderEpoch, NodeId, RaftGroup};

use super::chunk;
use super::heard::Heard;
use super::join::{self, Status};
use super::link_user::LinkUser;
use crate::ask;
use crate::caller::Caller;
use crate::deadlines::TELL_TIMEOUT;
use crate::node::Node;
use crate::partitions::PartitionHandle;
use crate::relay;
use tailrace_peers::{BoxFuture, NatsReceiver, PeerReceiver, RequestError, RequestKind};

/// Announced groups that are kept until the server is up.
const EARLY_GROUPS_MAX: usize = 1 << 18;

/// A node, the groups that it leads, and their epochs.
type Announcement = (NodeId, Vec<(RaftGroup, LeaderEpoch)>);

/// The receiver of messages from other nodes. Until the server is up, it only answers who this node is.
pub(crate) struct Receiver {
    node: OnceLock<Weak<Node>>,
    link_user: Option<Arc<dyn LinkUser>>,
    status: Mutex<Option<Status>>,
    heard: Arc<Heard>,
    /// Leaders that other nodes announced before this one was up. At most [`EARLY_GROUPS_MAX`]. Others are
    /// announced again.
    early: Mutex<Vec<Announcement>>,
}

impl Receiver {
    pub(crate) fn new(link_user: Option<Arc<dyn LinkUser>>) -> Self {
        Self {
            node: OnceLock::new(),
            link_user,
            status: Mutex::default(),
            heard: Arc::default(),
            early: Mutex::default(),
        }
    }

    /// Returns what is known about the nodes that were heard from.
    pub(crate) fn heard(&self) -> &Arc<Heard> {
        &self.heard
    }

    /// Sets the answer to status requests that arrive before the server is up.
    pub(crate) fn set_status(&self, status: Status) {
        *self.status.lock() = Some(status);
    }

    /// Accepts everything from now on.
    pub(crate) fn set_node(&self, here: &Arc<Node>) {
        // Called once, at start.
        let _ = self.node.set(Arc::downgrade(here));
        for (from, groups) in std::mem::take(&mut *self.early.lock()) {
            here.links.announced(from, groups, &here.image());
        }
        // Nodes that connected earlier do not know this node's address yet, and may look for it at the old
        // one.
        let Some(peers) = here.links.peers() else { return };
        // Not from the metadata: they may not have arrived yet.
        self.heard
            .nodes()
            .into_iter()
            .filter(|node| peers.is_up(*node))
            .for_each(|node| self.tell(here, node));
    }

    /// Tells another node what this one leads, and its address.
    fn tell(&self, here: &Node, node: NodeId) {
        super::announce_all(here, Some(node));
        let (Some(peers), Some(status)) = (here.links.peers().cloned(), self.status()) else { return };
        task::spawn(async move {
            // A node that misses this gets the address from the controller.
            let _ = peers.request(node, RequestKind::Status, join::encode(&status), TELL_TIMEOUT).await;
        });
    }

    /// Returns this node's status with the address that it announces.
    pub(super) fn status(&self) -> Option<Status> {
        self.status.lock().clone()
    }

    fn node(&self) -> Option<Arc<Node>> {
        self.node.get()?.upgrade()
    }
}

/// Takes a message. A message for a new replica waits until the throttle lets it through.
fn receive(node: &Arc<Node>, partition: Arc<PartitionHandle>, message: PeerMessage) {
    let Some(bytes) = message.append_bytes().filter(|_| partition.takes_slowly()) else {
        return take(node, &partition, message);
    };
    match node.links.inbound().admit(bytes) {
        Some(pass) if pass.is_due() => take(node, &partition, message),
        Some(pass) => {
            let node = Arc::clone(node);
            task::spawn(async move {
                pass.wait().await;
                take(&node, &partition, message);
            });
        }
        None => not_taken(node, "throttled"),
    }
}

fn take(node: &Node, partition: &Arc<PartitionHandle>, message: PeerMessage) {
    if !node.stepper.receive(partition, message) {
        not_taken(node, "inbox_full");
    }
}

fn not_taken(node: &Node, reason: &'static str) {
    if let Some(peers) = node.links.peers() {
        peers.not_taken(reason);
    }
}

impl PeerReceiver for Receiver {
    fn raft(&self, from: NodeId, messages: Vec<(RaftGroup, PeerMessage)>) {
        let Some(node) = self.node() else { return };
        for (group, message) in messages {
            // A message for an earlier replica, whose disk is gone, must not reach the current one.
            if message.from().node() == from
                && let Some(partition) = node.partition_of(group)
                && partition.replica() == Some(message.to())
            {
                receive(&node, partition, message);
            }
        }
    }

    fn beat(&self, from: NodeId, lease: u64) {
        if let Some(node) = self.node() {
            node.links.leases().heard(from, lease);
        }
    }

    fn leading(&self, from: NodeId, _complete: bool, groups: Vec<(RaftGroup, LeaderEpoch)>) {
        let mut early = self.early.lock();
        // Checked under the lock. An announcement that arrives while the node is being set is either in the
        // list before the list is emptied, or not put there at all.
        if let Some(node) = self.node() {
            drop(early);
            node.links.announced(from, groups, &node.image());
        } else if early.iter().map(|(_, groups)| groups.len()).sum::<usize>() + groups.len()
            <= EARLY_GROUPS_MAX
        {
            early.push((from, groups));
        }
    }

    fn nats(&self, from: NodeId) -> Option<Box<dyn NatsReceiver>> {
        Some(self.link_user.clone()?.linked_by(from))
    }

    fn request(
        &self,
        from: Option<NodeId>,
        kind: RequestKind,
        body: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, RequestError>> {
        let here = self.node();
        if kind == RequestKind::Status
            && let Some(here) = &here
        {
            super::note_address(here, from, &body);
        }
        let (caller, status) = (Caller::on_link(from), self.status());
        Box::pin(async move {
            match kind {
                RequestKind::Join | RequestKind::Status => {}
                RequestKind::Ask | RequestKind::Chunk | RequestKind::Append | RequestKind::Judge => {
                    ask::only_nodes(&caller)?;
                }
            }
            match (kind, here) {
                (RequestKind::Status, here) => Ok(join::status(here.as_deref(), status)),
                (_, None) => Err(RequestError::Failed("the node is starting".to_owned())),
                (RequestKind::Join, Some(here)) => join::admit(&here, &caller, &body).await,
                (RequestKind::Ask, Some(here)) => ask::serve(&here, &caller, &body).await,
                (RequestKind::Chunk, Some(here)) => chunk::serve(&here, &caller, body).await,
                (RequestKind::Append, Some(here)) => relay::serve(&here, &caller, body).await,
                (RequestKind::Judge, Some(here)) => relay::serve_judge(&here, &caller, body).await,
            }
        })
    }

    fn connected(&self, node: NodeId) {
        tracing::info!(%node, "connected to another node");
        if let Some(user) = &self.link_user {
            user.link_up(node);
        }
        if let Some(here) = self.node() {
            self.tell(&here, node);
        }
    }

    fn disconnected(&self, node: NodeId) {
        tracing::info!(%node, "the connection to another node has ended");
        if let Some(user) = &self.link_user {
            user.link_down(node);
        }
        if let Some(here) = self.node() {
            here.links.leases().lost(node);
        }
    }

    fn heard(&self, node: NodeId) {
        self.heard.note(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a non-member asks is refused before its content is looked at. The links refuse it, too.
    #[tokio::test]
    async fn who_is_no_member_is_told_who_this_node_is_and_nothing_else() {
        let receiver = Receiver::new(None);
        for kind in [RequestKind::Ask, RequestKind::Chunk, RequestKind::Append, RequestKind::Judge] {
            let asked =
                |from| receiver.request(from, kind, Bytes::from_static(b"\x01{\"describe-quorum\":{}}"));
            assert_eq!(asked(None).await, Err(RequestError::NotServed), "{kind:?}");
            let starting = RequestError::Failed("the node is starting".to_owned());
            assert_eq!(asked(Some(NodeId(2))).await, Err(starting), "{kind:?}");
        }
        assert!(receiver.request(None, RequestKind::Status, Bytes::new()).await.is_ok());
    }
}
