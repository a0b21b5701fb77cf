//! AlterConfigs (33): replaces all settings of a resource with the given ones. Only old clients send it.
//! `incremental_alter_configs` changes single keys.

use std::sync::Arc;

use tailrace_config::{ConfigSource, DescribedConfig};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource};
use tailrace_kafka_wire::messages::alter_configs_response::{
    AlterConfigsResourceResponse, AlterConfigsResponse,
};
use tailrace_metadata::{Command, ConfigChange};

use crate::bindings;
use crate::commands::{Mode, Refusal};
use crate::config_resources::{Duplicates, Resource, check_rights, resource};
use crate::context::Context;

/// The setting that takes the rules out of force.
const REPORT_ONLY: &str = "tailrace.authorizer.report.only";

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
    let (kind, name) = (wanted.resource_type, &wanted.resource_name);
    check_rights(&context.rights(), Operation::AlterConfigs, kind, name)?;
    let resource = resource(wanted.resource_type, &wanted.resource_name, context.node().id())?;
    let change = ConfigChange::Replace(wanted.configs.into_iter().map(|c| (c.name, c.value)).collect());
    carry_out(context, resource, change, mode).await
}

/// Changes the settings of a resource, which the client may do.
pub(crate) async fn carry_out(
    context: &Context,
    resource: Resource,
    change: ConfigChange,
    mode: Mode,
) -> Result<(), Refusal> {
    if matches!(resource, Resource::Broker(_)) {
        check_rules_stay(context, &change)?;
    }
    let binds = match &change {
        ConfigChange::Replace(_) | ConfigChange::Stream(_) => bindings::concerns(std::iter::empty(), true),
        ConfigChange::Incremental(ops) => bindings::concerns(ops.iter().map(|op| op.key.as_str()), false),
    };
    let topic = match &resource {
        Resource::Topic(topic) if binds => Some(topic.clone()),
        _ => None,
    };
    let command = alteration(resource, change);
    if let Some(topic) = topic {
        bindings::check(context, context.caller(), &topic, &command).await?;
    }
    let outcome = context.command(context.caller(), command, mode).await.map(drop);
    outcome.map_err(|refusal| bindings::without_hidden_topic(&context.rights(), refusal))
}

/// Refuses to change whether rules are in force, unless the client may change the rules themselves. Otherwise
/// the right to change settings would be the right to do everything.
fn check_rules_stay(context: &Context, change: &ConfigChange) -> Result<(), Refusal> {
    let rights = context.rights();
    if rights.is_unlimited() || !switches_rules(change, || context.node().image().describe_broker()) {
        return Ok(());
    }
    rights.cluster(Operation::Alter).map_err(Refusal::unauthorized)
}

/// Reports whether a change names [`REPORT_ONLY`], or resets it together with all others.
fn switches_rules(change: &ConfigChange, settings: impl FnOnce() -> Vec<DescribedConfig>) -> bool {
    let is_dynamic = |setting: &DescribedConfig| {
        matches!(setting.source, ConfigSource::DynamicBroker | ConfigSource::DynamicDefaultBroker)
    };
    match change {
        ConfigChange::Incremental(ops) => ops.iter().any(|op| op.key == REPORT_ONLY),
        // No broker is a stream.
        ConfigChange::Stream(_) => false,
        ConfigChange::Replace(all) => {
            all.iter().any(|(key, _)| key == REPORT_ONLY)
                || settings().iter().any(|setting| setting.name == REPORT_ONLY && is_dynamic(setting))
        }
    }
}

/// Returns the command that changes the settings of `resource`.
fn alteration(resource: Resource, change: ConfigChange) -> Command {
    match resource {
        Resource::Topic(topic) => Command::AlterTopicConfigs { topic, change },
        Resource::Group(group) => Command::AlterGroupConfigs { group, change },
        Resource::Broker(scope) => Command::AlterBrokerConfigs { scope, change },
    }
}
