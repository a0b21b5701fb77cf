//! DescribeQuorum (55): who keeps the metadata, and how far their log is. This node does, alone.

use std::sync::Arc;

use tailrace_broker::METADATA_TOPIC;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_quorum_request::{self, DescribeQuorumRequest};
use tailrace_kafka_wire::messages::describe_quorum_response::{
    DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState, TopicData,
};

use crate::kafka::Context;
use crate::kafka::commands::ITEMS_MAX;

/// First version with texts of errors, and with the addresses of the voters.
const NODES_FROM: i16 = 2;

/// What the listener that answers controller requests is called.
const LISTENER: &str = "CONTROLLER";

pub(crate) async fn handle(context: Arc<Context>, request: DescribeQuorumRequest) -> DescribeQuorumResponse {
    if request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > ITEMS_MAX {
        let error_code = ErrorCode::PolicyViolation.code();
        return DescribeQuorumResponse { error_code, ..Default::default() };
    }
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut any = false;
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for describe_quorum_request::PartitionData { partition_index, .. } in topic.partitions {
            let described = if topic.topic_name == METADATA_TOPIC && partition_index == 0 {
                any = true;
                describe(&context).await
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
    let nodes = if any && context.version() >= NODES_FROM { vec![this_node(&context)] } else { Vec::new() };
    DescribeQuorumResponse { error_message: Some(String::new()), topics, nodes, ..Default::default() }
}

async fn describe(context: &Context) -> Result<PartitionData, ErrorCode> {
    let log = &context.broker.controller.handle().reader;
    let (node, now) = (context.broker.node().get(), context.broker.now().0);
    let this = ReplicaState {
        replica_id: node,
        log_end_offset: log.log_end().get(),
        last_fetch_timestamp: now,
        last_caught_up_timestamp: now,
        ..Default::default()
    };
    Ok(PartitionData {
        error_message: Some(String::new()),
        leader_id: node,
        leader_epoch: log.epoch().get(),
        high_watermark: log.high_watermark().get(),
        current_voters: vec![this],
        ..Default::default()
    })
}

fn this_node(context: &Context) -> Node {
    let address = context.broker.advertised(context.session.local);
    let listener =
        Listener { name: LISTENER.to_owned(), host: address.host, port: address.port, ..Default::default() };
    Node { node_id: context.broker.node().get(), listeners: vec![listener], ..Default::default() }
}
