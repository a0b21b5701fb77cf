//! DescribeCluster (60): the nodes and the cluster id.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_cluster_request::DescribeClusterRequest;
use tailrace_kafka_wire::messages::describe_cluster_response::{
    DescribeClusterBroker, DescribeClusterResponse,
};

use crate::context::Context;
use crate::topology;

/// Endpoint types (KIP-919).
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    match request.endpoint_type {
        BROKERS => {}
        CONTROLLERS => {
            return refused(
                ErrorCode::MismatchedEndpointType,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                    .to_owned(),
            );
        }
        other => {
            return refused(ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}"));
        }
    }
    let here = context.node();
    // From version 2 on, clients may ask for fenced nodes, too (KIP-1073).
    let nodes =
        topology::nodes(&context).into_iter().filter(|node| !node.fenced || request.include_fenced_brokers);
    let brokers = nodes.map(|node| DescribeClusterBroker {
        broker_id: node.id,
        host: node.host,
        port: node.port,
        rack: node.rack,
        is_fenced: node.fenced,
        ..Default::default()
    });
    DescribeClusterResponse {
        cluster_id: here.cluster_id().to_owned(),
        controller_id: topology::controller_for(&context),
        brokers: brokers.collect(),
        cluster_authorized_operations: context
            .rights()
            .cluster_operations(request.include_cluster_authorized_operations),
        ..Default::default()
    }
}

fn refused(code: ErrorCode, message: String) -> DescribeClusterResponse {
    DescribeClusterResponse { error_code: code.code(), error_message: Some(message), ..Default::default() }
}
