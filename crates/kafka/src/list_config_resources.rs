//! ListConfigResources (74): lists the resources with settings. Version 0 asks for client metrics alone, of
//! which there are none.

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::list_config_resources_request::ListConfigResourcesRequest;
use tailrace_kafka_wire::messages::list_config_resources_response::{
    ConfigResource, ListConfigResourcesResponse,
};

use crate::config_resources::{BROKER, CLIENT_METRICS, GROUP, TOPIC, is_known};
use crate::context::Context;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    if let Err(code) = context.rights().cluster(Operation::DescribeConfigs) {
        return ListConfigResourcesResponse { error_code: code.code(), ..Default::default() };
    }
    let types = match context.version() {
        0 => vec![CLIENT_METRICS],
        _ => request.resource_types,
    };
    if types.iter().any(|&resource_type| !is_known(resource_type)) {
        let error_code = ErrorCode::UnsupportedVersion.code();
        return ListConfigResourcesResponse { error_code, ..Default::default() };
    }
    let wanted = |resource_type| types.is_empty() || types.contains(&resource_type);
    let resource =
        |resource_name, resource_type| ConfigResource { resource_name, resource_type, ..Default::default() };
    let mut config_resources = Vec::new();
    if wanted(BROKER) {
        config_resources.push(resource(context.node().id().to_string(), BROKER));
    }
    let image = context.node().image();
    if wanted(GROUP) {
        config_resources
            .extend(image.configured_groups().map(|(group, _)| resource(group.to_owned(), GROUP)));
    }
    if wanted(TOPIC) {
        config_resources.extend(image.topics().map(|topic| resource(topic.name.to_string(), TOPIC)));
    }
    ListConfigResourcesResponse { config_resources, ..Default::default() }
}
