//! The topology as clients see it: nodes, leaders and replicas of partitions, coordinators, the controller.

use tailrace_kafka_wire::ErrorCode;
use tailrace_metadata::{MetadataImage, NodeImage};
use tailrace_types::{NodeId, PartitionId};

use crate::context::Context;
use tailrace_node::Node;
use tailrace_node::cluster::leaders::{controller as controller_of, leader};
use tailrace_node::partitions::Topic;

/// A node that clients may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeAddress {
    pub(crate) id: i32,
    pub(crate) host: String,
    pub(crate) port: i32,
    pub(crate) rack: Option<String>,
    /// Whether the node is fenced, because it has stopped sending heartbeats.
    pub(crate) fenced: bool,
}

/// Returns all nodes that have the listener by which the client came, including fenced ones. This node has
/// the address that the client used, unless another one is advertised.
pub(crate) fn nodes(context: &Context) -> Vec<NodeAddress> {
    let (here, image) = (context.node(), context.node().image());
    let own = this_node(context);
    let mut nodes = vec![own];
    for node in image.nodes() {
        let registration = &node.registration;
        if registration.node == here.id() {
            continue;
        }
        let address = context.session.came_by.address_of(registration);
        let Some((host, port)) = address.and_then(split) else { continue };
        let (id, rack) = (registration.node.get(), registration.rack.clone());
        nodes.push(NodeAddress { id, host, port, rack, fenced: node.fenced });
    }
    nodes.sort_by_key(|node| node.id);
    nodes
}

/// Returns the live nodes.
pub(crate) fn live_nodes(context: &Context) -> Vec<NodeAddress> {
    nodes(context).into_iter().filter(|node| !node.fenced).collect()
}

/// Returns this node.
pub(crate) fn this_node(context: &Context) -> NodeAddress {
    let (host, port) = context.session.came_by.own_address(context.session.local);
    NodeAddress {
        id: context.node().id().get(),
        host,
        port: port.into(),
        rack: context.node().config().broker_rack.clone(),
        fenced: false,
    }
}

/// Returns the address of a node if it is live.
pub(crate) fn live_node(context: &Context, node: NodeId) -> Option<NodeAddress> {
    live_nodes(context).into_iter().find(|known| known.id == node.get())
}

fn split(address: &str) -> Option<(String, i32)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host.to_owned(), port.parse::<u16>().ok()?.into()))
}

/// The leader and replicas of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionState {
    /// The leader's node and epoch.
    pub(crate) leader: Option<(i32, i32)>,
    /// Whether there is a leader without the listener by which the client came.
    pub(crate) lacks_listener: bool,
    /// The nodes of the replicas, the preferred leader first.
    pub(crate) replicas: Vec<i32>,
    /// The live replicas, except new ones that are still catching up.
    pub(crate) in_sync: Vec<i32>,
    /// The replicas that are not live, or not for clients of this listener.
    pub(crate) offline: Vec<i32>,
}

impl PartitionState {
    /// The partition's error code in a metadata answer.
    pub(crate) fn error(&self) -> ErrorCode {
        match self.leader {
            Some(_) if self.lacks_listener => ErrorCode::ListenerNotFound,
            Some(_) => ErrorCode::None,
            None => ErrorCode::LeaderNotAvailable,
        }
    }

    pub(crate) fn leader_id(&self) -> i32 {
        self.leader.filter(|_| !self.lacks_listener).map_or(-1, |(node, _)| node)
    }

    pub(crate) fn leader_epoch(&self) -> i32 {
        self.leader.map_or(-1, |(_, epoch)| epoch)
    }
}

/// Returns the state of partition `index` of the topic.
pub(crate) fn partition_state(
    context: &Context,
    image: &MetadataImage,
    topic: &Topic,
    index: i32,
) -> PartitionState {
    let here = context.node();
    let leader = leader(here, image, topic, index);
    let own = here.id();
    let has_listener = |node| is_reachable(context, image, node);
    let Some(assigned) = topic.image.partition(PartitionId(index)) else { return PartitionState::default() };
    let mut place = PartitionState {
        leader: leader.map(|(node, epoch)| (node.get(), epoch.get())),
        lacks_listener: leader.is_some_and(|(node, _)| !has_listener(node)),
        ..PartitionState::default()
    };
    for replica in &assigned.replicas {
        let node = replica.node();
        let is_there = if node == own { topic.here(index).is_ok() } else { image.is_live(node) };
        place.replicas.push(node.get());
        if !is_there || !has_listener(node) {
            place.offline.push(node.get());
        }
        if is_there && !assigned.adding.contains(replica) {
            place.in_sync.push(node.get());
        }
    }
    place
}

/// Reports whether a node has the listener by which the client came.
fn is_reachable(context: &Context, image: &MetadataImage, node: NodeId) -> bool {
    let has_it = |known: &NodeImage| context.session.came_by.address_of(&known.registration).is_some();
    node == context.node().id() || image.node(node).is_none_or(|known| has_it(known))
}

/// Returns the node that the client should take for the controller: the leader of the metadata log, or this
/// node if the client cannot reach that one. This node passes commands on. -1 if the leader is unknown.
pub(crate) fn controller_for(context: &Context) -> i32 {
    let here = context.node();
    match controller_of(here) {
        Some(node) if is_reachable(context, &here.image(), node) => node.get(),
        Some(_) => here.id().get(),
        None => -1,
    }
}

/// Returns the leader of the metadata log, or -1 if it is unknown.
pub(crate) fn controller(node: &Node) -> i32 {
    controller_of(node).map_or(-1, NodeId::get)
}
