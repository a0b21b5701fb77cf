//! Where things are, as clients are told: nodes, partitions' leaders and replicas, coordinators, the controller.

use tailrace_kafka_wire::ErrorCode;
use tailrace_metadata::MetadataImage;
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
    /// It has fallen silent.
    pub(crate) fenced: bool,
}

/// All nodes, also those that have fallen silent. This one is told with the address that the client used, unless another one is
/// advertised.
pub(crate) fn nodes(context: &Context) -> Vec<NodeAddress> {
    let (here, image) = (context.node(), context.node().image());
    let own = this_node(context);
    let mut nodes = vec![own];
    for node in image.nodes() {
        let registration = &node.registration;
        let Some((host, port)) = split(&registration.kafka).filter(|_| registration.node != here.id()) else {
            continue;
        };
        let (id, rack) = (registration.node.get(), registration.rack.clone());
        nodes.push(NodeAddress { id, host, port, rack, fenced: node.fenced });
    }
    nodes.sort_by_key(|node| node.id);
    nodes
}

/// The nodes that are there.
pub(crate) fn live_nodes(context: &Context) -> Vec<NodeAddress> {
    nodes(context).into_iter().filter(|node| !node.fenced).collect()
}

/// This node.
pub(crate) fn this_node(context: &Context) -> NodeAddress {
    let address = context.node().advertised(context.session.local);
    NodeAddress {
        id: context.node().id().get(),
        host: address.host,
        port: address.port.into(),
        rack: context.node().config().broker_rack.clone(),
        fenced: false,
    }
}

/// The address of one node, if it is there.
pub(crate) fn live_node(context: &Context, node: NodeId) -> Option<NodeAddress> {
    live_nodes(context).into_iter().find(|known| known.id == node.get())
}

fn split(address: &str) -> Option<(String, i32)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host.to_owned(), port.parse::<u16>().ok()?.into()))
}

/// Where a partition is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionState {
    /// Who leads it, and in which epoch.
    pub(crate) leader: Option<(i32, i32)>,
    /// The nodes of its replicas, the preferred leader first.
    pub(crate) replicas: Vec<i32>,
    /// Those of them that are there, but for new ones that are still brought up to date.
    pub(crate) in_sync: Vec<i32>,
    /// Those of them that are not.
    pub(crate) offline: Vec<i32>,
}

impl PartitionState {
    /// What stands for it in an answer about metadata.
    pub(crate) fn error(&self) -> ErrorCode {
        if self.leader.is_some() { ErrorCode::None } else { ErrorCode::LeaderNotAvailable }
    }

    pub(crate) fn leader_id(&self) -> i32 {
        self.leader.map_or(-1, |(node, _)| node)
    }

    pub(crate) fn leader_epoch(&self) -> i32 {
        self.leader.map_or(-1, |(_, epoch)| epoch)
    }
}

/// Where partition `index` of the topic is.
pub(crate) fn partition_state(
    here: &Node,
    image: &MetadataImage,
    topic: &Topic,
    index: i32,
) -> PartitionState {
    let leader = leader(here, image, topic, index);
    let own = here.id();
    let Some(assigned) = topic.image.partition(PartitionId(index)) else { return PartitionState::default() };
    let mut place = PartitionState {
        leader: leader.map(|(node, epoch)| (node.get(), epoch.get())),
        ..PartitionState::default()
    };
    for replica in &assigned.replicas {
        let node = replica.node();
        let is_there = if node == own { topic.here(index).is_ok() } else { image.is_live(node) };
        place.replicas.push(node.get());
        if !is_there {
            place.offline.push(node.get());
        } else if !assigned.adding.contains(replica) {
            place.in_sync.push(node.get());
        }
    }
    place
}

/// The node that leads the metadata log; -1 if that is not known.
pub(crate) fn controller(node: &Node) -> i32 {
    controller_of(node).map_or(-1, NodeId::get)
}
