//! DescribeQuorum (55): the replicas of the metadata log and their progress.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_quorum_request::{self, DescribeQuorumRequest};
use tailrace_kafka_wire::messages::describe_quorum_response::{
    DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState, TopicData,
};
use tailrace_metadata::METADATA_TOPIC;
use tailrace_types::NodeId;

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;
use crate::topology::{NodeAddress, controller, nodes};
use tailrace_node::ask::{DescribeQuorum, Quorum, QuorumReplica};

/// First version with error texts and the voters' addresses.
const NODES_FROM: i16 = 2;

/// Name of the listener that answers controller requests.
const LISTENER: &str = "CONTROLLER";

pub(crate) async fn handle(context: Arc<Context>, request: DescribeQuorumRequest) -> DescribeQuorumResponse {
    if let Err(code) = context.rights().cluster(Operation::Describe) {
        let Refusal { code, message } = Refusal::unauthorized(code);
        let (error_code, error_message) = (code.code(), Some(message));
        return DescribeQuorumResponse { error_code, error_message, ..Default::default() };
    }
    if request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > ITEMS_MAX {
        let error_code = ErrorCode::PolicyViolation.code();
        return DescribeQuorumResponse { error_code, ..Default::default() };
    }
    let quorum = quorum(&context).await;
    let mut response = described(request, quorum.as_ref());
    response.nodes =
        if context.version() >= NODES_FROM { addresses(&context, &response.topics) } else { Vec::new() };
    response
}

/// Returns the quorum's state. The leader of the metadata log knows it, and other nodes ask that leader.
async fn quorum(context: &Context) -> Option<Quorum> {
    let here = context.node();
    if let Some(own) = Quorum::of(here).await {
        return Some(own);
    }
    let node = NodeId(controller(here));
    let asked = here.ask(context.caller(), node, DescribeQuorum {}).await;
    asked.inspect_err(|error| tracing::debug!(%node, %error, "could not ask the controller")).ok()?
}

fn described(request: DescribeQuorumRequest, quorum: Option<&Quorum>) -> DescribeQuorumResponse {
    let describe = |name: &str, describe_quorum_request::PartitionData { partition_index, .. }| {
        let described = if name == METADATA_TOPIC && partition_index == 0 {
            quorum.map(partition_data).ok_or(ErrorCode::NotLeaderOrFollower)
        } else {
            Err(ErrorCode::UnknownTopicOrPartition)
        };
        described.unwrap_or_else(|code| PartitionData {
            partition_index,
            error_code: code.code(),
            error_message: Some(code.message().to_owned()),
            ..Default::default()
        })
    };
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter();
        let partitions = partitions.map(|partition| describe(&topic.topic_name, partition)).collect();
        TopicData { topic_name: topic.topic_name, partitions, ..Default::default() }
    });
    DescribeQuorumResponse {
        error_message: Some(String::new()),
        topics: topics.collect(),
        ..Default::default()
    }
}

fn partition_data(quorum: &Quorum) -> PartitionData {
    let state = |replica: &QuorumReplica| state(quorum, replica);
    PartitionData {
        error_message: Some(String::new()),
        leader_id: quorum.leader,
        leader_epoch: quorum.epoch,
        high_watermark: quorum.high_watermark,
        current_voters: quorum.voters.iter().map(state).collect(),
        observers: quorum.learners.iter().map(state).collect(),
        ..Default::default()
    }
}

fn state(quorum: &Quorum, replica: &QuorumReplica) -> ReplicaState {
    let heard_at = replica.heard_at_ms.unwrap_or(-1);
    let has_all = replica.stored.is_some_and(|stored| stored >= quorum.high_watermark);
    ReplicaState {
        replica_id: replica.node,
        log_end_offset: replica.stored.unwrap_or(-1),
        last_fetch_timestamp: heard_at,
        last_caught_up_timestamp: if has_all { heard_at } else { -1 },
        ..Default::default()
    }
}

/// Returns the addresses of the voters.
fn addresses(context: &Context, topics: &[TopicData]) -> Vec<Node> {
    let partitions = || topics.iter().flat_map(|topic| &topic.partitions);
    let voters: BTreeSet<i32> =
        partitions().flat_map(|data| &data.current_voters).map(|voter| voter.replica_id).collect();
    let known = nodes(context).into_iter().filter(|node| voters.contains(&node.id));
    let listener = |host, port| Listener { name: LISTENER.to_owned(), host, port, ..Default::default() };
    let node = |node: NodeAddress| Node {
        node_id: node.id,
        listeners: vec![listener(node.host, u16::try_from(node.port).unwrap_or_default())],
        ..Default::default()
    };
    known.map(node).collect()
}
