//! This node's place among the others: which cluster it belongs to, what it tells other nodes and hears from
//! them, and what it does as the controller or as a leader.
//!
//! - `join`: founding a cluster and joining one. `identity`: what the data folder stores about it.
//!   `registration`: what a node registers about itself.
//! - `leaders`: which replica leads what.
//! - `receiver`: everything that arrives over the links of `tailrace_peers`. `heard`: when each node was last
//!   heard from. `links`: the way out, and the leader of each partition.
//! - `throttle`: how fast new replicas catch up.
//! - `liveness`, `membership`: periodic work of the controller and of the leaders.

mod addresses;
mod chunk;
mod errors;
mod format;
mod heard;
mod identity;
mod join;
pub mod leaders;
mod leases;
mod link_user;
mod links;
mod liveness;
mod membership;
mod meta;
mod page;
mod receiver;
mod registration;
mod settled;
mod throttle;

use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::{select, task, time};

use bytes::Bytes;
use tailrace_env::sync::oneshot;
use tailrace_env::time::MissedTicks;
use tailrace_metadata::{ACCESS_LEVEL, Command, ControlError, MetadataImage, RegisterNode};
use tailrace_types::{LeaderEpoch, NodeId, RaftGroup};

use crate::caller::Caller;
use crate::controller::CommandError;
use crate::deadlines::SEED_STATUS_TIMEOUT;
use crate::node::Node;
use crate::retry::Pauses;
pub use tailrace_env::task::stopped;
pub use tailrace_peers::{PeerError, PeerNode, Refusal, RequestKind};

pub use addresses::Addresses;
pub use errors::{ClusterError, JoinError};
pub(crate) use heard::Heard;
pub use identity::Entered;
pub(crate) use identity::Own;
pub(crate) use identity::enter;
use join::Status;
pub use link_user::LinkUser;
pub(crate) use links::Links;
pub use membership::{hand_over, hand_to};
pub use page::page;
pub(crate) use registration::registration;
pub(crate) use settled::Settled;
pub(crate) use throttle::Throttled;

/// Interval between two complete lists of what this node leads.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);

/// Pause between two attempts to register.
const REGISTER: Pauses = Pauses::steady(Duration::from_millis(200));

/// Maximum number of groups in one announcement.
const ANNOUNCED_AT_ONCE: usize = 10_000;

/// Returns every group that this node leads now.
fn led(node: &Node) -> Vec<(RaftGroup, LeaderEpoch)> {
    let topics = node.topics();
    let metadata = node.controller.handle();
    let partitions = topics.online().chain(std::iter::once(&metadata));
    partitions.filter_map(|handle| Some((handle.group, handle.leads()?))).collect()
}

/// Tells one node, or all, everything that this node leads.
fn announce_all(here: &Node, to: Option<NodeId>) {
    let Some(peers) = here.links.peers() else { return };
    for groups in led(here).chunks(ANNOUNCED_AT_ONCE) {
        match to {
            Some(node) => peers.send_leading_to(node, false, groups),
            None => peers.send_leading(false, groups),
        }
    }
}

/// Runs what a node of a cluster does besides serving clients, for as long as the node runs.
pub(crate) async fn run(node: Arc<Node>, registration: Registration) {
    let mut stopping = node.stopping.subscribe();
    let registered = async {
        let own = registration.node.clone();
        register(&node, registration).await;
        register_listeners(&node, &own).await;
        std::future::pending::<()>().await;
    };
    select! {
        () = registered => {}
        () = look_up_seeds(&node) => {}
        () = announce(&node) => {}
        () = follow_nodes(&node) => {}
        () = liveness::run(&node) => {}
        () = membership::run(Arc::clone(&node)) => {}
        () = membership::balance(&node) => {}
        () = stopped(&mut stopping) => {}
    }
}

/// How this node presents itself to the controller at each start.
pub(crate) struct Registration {
    /// Its addresses and capabilities.
    pub(crate) node: RegisterNode,
    /// The cluster id, if this node founds the cluster. Used only while the cluster has no founder.
    pub(crate) founds: Option<String>,
    /// Receives the controller's answer.
    pub(crate) answered: oneshot::Sender<Result<(), ControlError>>,
}

async fn register(here: &Arc<Node>, Registration { node, founds, answered }: Registration) {
    let mut logged = false;
    let (mut answered, mut retry) = (Some(answered), REGISTER.without_end());
    loop {
        let command = match &founds {
            Some(cluster_id) if here.image().founder().is_none() => {
                Command::FoundCluster { cluster_id: cluster_id.clone(), node: node.clone() }
            }
            _ => Command::RegisterNode(node.clone()),
        };
        match registered(here, command, &node).await {
            Ok(()) => {
                // The receiver may have gone.
                drop(answered.take().map(|answered| answered.send(Ok(()))));
                return;
            }
            Err(CommandError::Refused(error)) => {
                if let Some(answered) = answered.take()
                    && answered.send(Err(error.clone())).is_ok()
                {
                    return;
                }
                tracing::error!(%error, "the controller refuses to register this node");
                time::sleep(ANNOUNCE_INTERVAL).await;
            }
            Err(error) => {
                if !logged {
                    tracing::info!(%error, "waiting for a controller to register this node");
                    logged = true;
                }
                retry.pause().await;
            }
        }
    }
}

/// Has the names of this node's listeners registered once the cluster's level allows them.
async fn register_listeners(here: &Arc<Node>, own: &RegisterNode) {
    let (mut changes, mut retry) = (here.controller.changes(), REGISTER.without_end());
    let lacks_them = |image: &MetadataImage| {
        let known = image.node(own.node).map(|node| &node.registration);
        let is_own = known.is_some_and(|known| known.directory == own.directory);
        is_own
            && known.is_some_and(|known| known.listeners != own.listeners)
            && image.features().cluster_level() >= ACCESS_LEVEL
    };
    loop {
        if lacks_them(&here.image())
            && let Err(error) = registered(here, Command::RegisterNode(own.clone()), own).await
        {
            tracing::warn!(%error, "could not register the names of this node's listeners; trying again");
            retry.pause().await;
        } else if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Has the controller register this node, if the node hears of a controller. Meanwhile also asks the other
/// members, which can refuse it.
async fn registered(here: &Arc<Node>, command: Command, node: &RegisterNode) -> Result<(), CommandError> {
    let (work, now) = (Arc::clone(here), here.now());
    // Spawned, so that a command that was started runs to completion.
    let asked = task::spawn(async move { work.controller.execute(Caller::internal(), command, now).await });
    select! {
        done = asked => done.unwrap_or(Err(CommandError::Stopping)).map(drop),
        refusal = join::refused_by_members(here, node) => Err(CommandError::Refused(refusal)),
    }
}

/// Asks the seeds who they are. After several nodes restarted on other addresses, this may be the only way to
/// find them.
async fn look_up_seeds(here: &Arc<Node>) {
    let mut left = here.config().tailrace_cluster_seeds.clone();
    while let (Some(peers), false) = (here.links.peers(), left.is_empty()) {
        let mut unanswered = Vec::new();
        for seed in left {
            match peers.ask(&seed, RequestKind::Status, Bytes::new(), SEED_STATUS_TIMEOUT).await {
                Ok((who, status)) => note_address(here, Some(who.node), &status),
                Err(PeerError::Refused { refusal: Refusal::Itself, .. }) => {}
                Err(error @ PeerError::Refused { .. }) => {
                    tracing::warn!(%seed, %error, "a seed is not a node of this node's cluster");
                }
                Err(_) => unanswered.push(seed),
            }
        }
        left = unanswered;
        time::sleep(ANNOUNCE_INTERVAL).await;
    }
    std::future::pending::<()>().await;
}

async fn announce(node: &Arc<Node>) {
    let mut announce = time::interval(ANNOUNCE_INTERVAL);
    announce.set_missed(MissedTicks::Delay);
    loop {
        announce.tick().await;
        announce_all(node, None);
    }
}

/// Keeps links to the nodes that the metadata name.
async fn follow_nodes(node: &Arc<Node>) {
    let mut changes = node.controller.changes();
    loop {
        connect_to_nodes(node);
        node.links.place_early(&node.image());
        if let Some(user) = &node.link_user {
            user.follow_nodes(&node.image(), node.id());
        }
        node.links.forget_unknown(&node.image());
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Remembers the address that a node announces.
fn note_address(here: &Node, from: Option<NodeId>, body: &[u8]) {
    let Ok(Status { node, address: Some(address), .. }) = serde_json::from_slice(body) else { return };
    let node = NodeId(node);
    if from != Some(node) || here.image().node(node).is_none() {
        return;
    }
    if here.heard.note_address(node, address) {
        connect_to_nodes(here);
    }
}

/// Sets the nodes that this node keeps links to.
pub(crate) fn connect_to_nodes(here: &Node) {
    let image = here.image();
    let nodes = image.nodes().map(|node| PeerNode {
        node: node.registration.node,
        address: here
            .heard
            .address(node.registration.node)
            .unwrap_or_else(|| node.registration.cluster.clone()),
    });
    let nodes: Vec<_> = nodes.collect();
    if let Some(peers) = here.links.peers().filter(|_| !nodes.is_empty()) {
        peers.set_nodes(nodes);
    }
}

/// Waits until this node's metadata count it as live, so that replicas may be placed on it.
pub(crate) async fn known_to_itself(here: &Node) {
    let (node, mut changes) = (here.id(), here.controller.changes());
    while !here.image().is_live(node) || here.image().node(node).is_none() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}
