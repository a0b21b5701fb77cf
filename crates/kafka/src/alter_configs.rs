//! AlterConfigs (33): replaces all settings of a resource with the given ones. Only old clients send it.
//! `incremental_alter_configs` changes single keys.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource};
use tailrace_kafka_wire::messages::alter_configs_response::{
    AlterConfigsResourceResponse, AlterConfigsResponse,
};
use tailrace_metadata::{Command, ConfigChange};

use crate::commands::{Mode, Refusal};
use crate::config_resources::{Duplicates, Resource, resource};
use crate::context::Context;

pub(crate) async fn handle(context: Arc<Context>, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let mode = Mode::validate_only(request.validate_only);
    let named = request.resources.iter().map(|r| (r.resource_type, r.resource_name.as_str()));
    let duplicates = Duplicates::among(named);
    let mut responses = Vec::with_capacity(request.resources.len());
    for wanted in request.resources {
        let (resource_type, resource_name) = (wanted.resource_type, wanted.resource_name.clone());
        let outcome = match duplicates.check(resource_type, &resource_name) {
            Ok(()) => alter(&context, wanted, mode).await,
            Err(refusal) => Err(refusal),
        };
        let refusal = outcome.err();
        responses.push(AlterConfigsResourceResponse {
            error_code: refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code).code(),
            error_message: refusal.map(|refusal| refusal.message),
            resource_type,
            resource_name,
            ..Default::default()
        });
    }
    AlterConfigsResponse { responses, ..Default::default() }
}

async fn alter(context: &Context, wanted: AlterConfigsResource, mode: Mode) -> Result<(), Refusal> {
    let resource = resource(wanted.resource_type, &wanted.resource_name, context.node().id())?;
    let change = ConfigChange::Replace(wanted.configs.into_iter().map(|c| (c.name, c.value)).collect());
    context.command(context.caller(), alteration(resource, change), mode).await.map(drop)
}

/// Returns the command that changes the settings of `resource`.
pub(crate) fn alteration(resource: Resource, change: ConfigChange) -> Command {
    match resource {
        Resource::Topic(topic) => Command::AlterTopicConfigs { topic, change },
        Resource::Group(group) => Command::AlterGroupConfigs { group, change },
        Resource::Broker(scope) => Command::AlterBrokerConfigs { scope, change },
    }
}
