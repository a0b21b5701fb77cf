//! DescribeQuorum (55): who keeps the metadata, and how far their logs are.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_quorum_request::{self, DescribeQuorumRequest};
use tailrace_kafka_wire::messages::describe_quorum_response::{
    DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState, TopicData,
};
use tailrace_metadata::METADATA_TOPIC;
use tailrace_types::{NodeId, Offset, ReplicaId};

use crate::cluster;
use crate::kafka::Context;
use crate::kafka::commands::ITEMS_MAX;
use crate::kafka::place::{NodeAddress, controller, nodes};

/// What the node that leads the metadata log is asked with, and how long it may take.
const ELSEWHERE_VERSION: i16 = 2;
const ELSEWHERE_PATIENCE: Duration = Duration::from_secs(5);

/// First version with texts of errors, and with the addresses of the voters.
const NODES_FROM: i16 = 2;

/// What the listener that answers controller requests is called.
const LISTENER: &str = "CONTROLLER";

pub(crate) async fn handle(context: Arc<Context>, request: DescribeQuorumRequest) -> DescribeQuorumResponse {
    if request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > ITEMS_MAX {
        let error_code = ErrorCode::PolicyViolation.code();
        return DescribeQuorumResponse { error_code, ..Default::default() };
    }
    let known = elsewhere(&context, &request).await;
    let mut response = match known {
        Some(response) => response,
        None => here(&context, request).await,
    };
    response.nodes =
        if context.version() >= NODES_FROM { addresses(&context, &response.topics) } else { Vec::new() };
    response
}

async fn here(context: &Context, request: DescribeQuorumRequest) -> DescribeQuorumResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for describe_quorum_request::PartitionData { partition_index, .. } in topic.partitions {
            let described = if topic.topic_name == METADATA_TOPIC && partition_index == 0 {
                describe(context).await
            } else {
                Err(ErrorCode::UnknownTopicOrPartition)
            };
            partitions.push(described.unwrap_or_else(|code| PartitionData {
                partition_index,
                error_code: code.code(),
                error_message: Some(code.message().to_owned()),
                ..Default::default()
            }));
        }
        topics.push(TopicData { topic_name: topic.topic_name, partitions, ..Default::default() });
    }
    DescribeQuorumResponse { error_message: Some(String::new()), topics, ..Default::default() }
}

/// The node that leads the metadata log knows; any other one asks it.
async fn elsewhere(context: &Context, request: &DescribeQuorumRequest) -> Option<DescribeQuorumResponse> {
    let broker = &context.broker;
    if broker.controller.handle().leads().is_some() {
        return None;
    }
    let node = NodeId(controller(broker));
    let asked = cluster::ask(broker, node, (request, ELSEWHERE_VERSION), ELSEWHERE_PATIENCE).await;
    asked.inspect_err(|error| tracing::debug!(%node, %error, "the controller could not be asked")).ok()
}

async fn describe(context: &Context) -> Result<PartitionData, ErrorCode> {
    let broker = &context.broker;
    let handle = broker.controller.handle();
    let (log, epoch) = (&handle.reader, handle.leads().ok_or(ErrorCode::NotLeaderOrFollower)?);
    let mut data = PartitionData {
        error_message: Some(String::new()),
        leader_id: broker.node().get(),
        leader_epoch: epoch.get(),
        high_watermark: log.high_watermark().get(),
        ..Default::default()
    };
    let Some(members) = handle.members().await else {
        data.current_voters = vec![state(context, broker.node(), Some(log.log_end().offset()))];
        return Ok(data);
    };
    let ids: Vec<ReplicaId> = members.voters.iter().chain(&members.learners).copied().collect();
    let stored: HashMap<ReplicaId, Offset> = handle.stored_by(&ids).await.into_iter().collect();
    let describe = |id: &ReplicaId| state(context, id.node(), stored.get(id).copied());
    data.current_voters = members.voters.iter().map(describe).collect();
    data.observers = members.learners.iter().map(describe).collect();
    Ok(data)
}

/// `stored`: one past the last record that the node has durably.
fn state(context: &Context, node: NodeId, stored: Option<Offset>) -> ReplicaState {
    let broker = &context.broker;
    let high_watermark = broker.controller.handle().reader.high_watermark().offset();
    let heard = if node == broker.node() { Some(Duration::ZERO) } else { broker.silence(node) };
    let heard_at =
        heard.map_or(-1, |silence| broker.now().0 - i64::try_from(silence.as_millis()).unwrap_or(i64::MAX));
    let has_all = stored.is_some_and(|stored| stored >= high_watermark);
    ReplicaState {
        replica_id: node.get(),
        log_end_offset: stored.map_or(-1, Offset::get),
        last_fetch_timestamp: heard_at,
        last_caught_up_timestamp: if has_all { heard_at } else { -1 },
        ..Default::default()
    }
}

/// Where the nodes are that keep the metadata.
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
