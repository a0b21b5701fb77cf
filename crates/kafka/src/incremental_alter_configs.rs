//! IncrementalAlterConfigs (44): sets, removes and extends single settings. All changes of a resource apply,
//! or none.

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use tailrace_kafka_wire::messages::incremental_alter_configs_response::{
    AlterConfigsResourceResponse, IncrementalAlterConfigsResponse,
};
use tailrace_metadata::{ConfigAction, ConfigChange, ConfigOp};

use crate::alter_configs::carry_out;
use crate::commands::{Mode, Refusal};
use crate::config_resources::{Duplicates, check_rights, resource};
use crate::context::Context;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
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
    IncrementalAlterConfigsResponse { responses, ..Default::default() }
}

async fn alter(context: &Context, wanted: AlterConfigsResource, mode: Mode) -> Result<(), Refusal> {
    let (kind, name) = (wanted.resource_type, &wanted.resource_name);
    check_rights(&context.rights(), Operation::AlterConfigs, kind, name)?;
    let resource = resource(wanted.resource_type, &wanted.resource_name, context.node().id())?;
    let ops = wanted.configs.into_iter().map(operation).collect::<Result<_, _>>()?;
    carry_out(context, resource, ConfigChange::Incremental(ops), mode).await
}

fn operation(config: AlterableConfig) -> Result<ConfigOp, Refusal> {
    let action = ConfigAction::from_code(config.config_operation).ok_or_else(|| {
        let (found, key) = (config.config_operation, &config.name);
        Refusal::invalid_request(format!("Unknown operation {found} for {key}; the known ones are 0 to 3."))
    })?;
    Ok(ConfigOp { key: config.name, action, value: config.value })
}
