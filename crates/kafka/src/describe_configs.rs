//! DescribeConfigs (32): settings of topics, of groups, of this broker, and the changes for all brokers.

use std::collections::HashSet;
use std::sync::Arc;
use tailrace_env::task;

use tailrace_config::{ConfigSynonym, DescribedConfig};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_configs_request::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use tailrace_kafka_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use tailrace_metadata::{BrokerScope, MetadataImage};

use crate::commands::{ITEMS_MAX, Refusal};
use crate::config_resources::{Resource, check_rights, resource};
use crate::context::Context;
use crate::lookup::legal_name;

/// Resources after which other tasks get a turn. One takes some ten microseconds.
const TURN: usize = 64;

/// Approximate size of one setting in an answer, without its documentation and synonyms.
const SETTING_BYTES: usize = 512;

/// What an answer contains besides name and value.
#[derive(Clone, Copy)]
struct Detail {
    synonyms: bool,
    documentation: bool,
}

pub(crate) async fn handle(
    context: Arc<Context>,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let image = context.node().image();
    let detail = Detail { synonyms: request.include_synonyms, documentation: request.include_documentation };
    let mut results = Vec::with_capacity(request.resources.len().min(ITEMS_MAX));
    let mut charges = context.charges();
    for (number, wanted) in request.resources.into_iter().enumerate() {
        if number % TURN == TURN - 1 {
            task::yield_now().await;
        }
        let described = if charges.is_full() {
            Err(Refusal::too_long())
        } else if number < ITEMS_MAX {
            describe(&context, &image, &wanted)
        } else {
            Err(Refusal::too_many("resources"))
        };
        let result = result(wanted, described, detail);
        charges.add(bytes_of(&result)).await;
        results.push(result);
    }
    DescribeConfigsResponse { results, ..Default::default() }
}

fn describe(
    context: &Context,
    image: &MetadataImage,
    wanted: &DescribeConfigsResource,
) -> Result<Vec<DescribedConfig>, Refusal> {
    let (kind, name) = (wanted.resource_type, &wanted.resource_name);
    check_rights(&context.rights(), Operation::DescribeConfigs, kind, name)?;
    let node = context.node().id();
    match resource(wanted.resource_type, &wanted.resource_name, node)? {
        Resource::Broker(BrokerScope::Cluster) => Ok(image.describe_cluster()),
        Resource::Broker(BrokerScope::Node(_)) => Ok(image.describe_broker()),
        Resource::Group(name) if name.is_empty() => {
            Err(Refusal::invalid_request("Group name must not be empty."))
        }
        Resource::Group(name) => Ok(image.describe_group(&name)),
        Resource::Topic(name) => {
            legal_name(&name)?;
            let unknown = || {
                let message = format!("The topic '{name}' does not exist.");
                Refusal::new(ErrorCode::UnknownTopicOrPartition, message)
            };
            image.describe_topic(&name).ok_or_else(unknown)
        }
    }
}

fn result(
    wanted: DescribeConfigsResource,
    described: Result<Vec<DescribedConfig>, Refusal>,
    detail: Detail,
) -> DescribeConfigsResult {
    let (code, message, configs) = match described {
        // Kafka's text for success is empty, not null.
        Ok(configs) => (ErrorCode::None, String::new(), configs),
        Err(refusal) => (refusal.code, refusal.message, Vec::new()),
    };
    // Null and empty both ask for all keys. Unknown keys are left out.
    let keys: Option<HashSet<String>> =
        wanted.configuration_keys.filter(|keys| !keys.is_empty()).map(|keys| keys.into_iter().collect());
    let shown = configs.into_iter().filter(|c| keys.as_ref().is_none_or(|keys| keys.contains(c.name)));
    DescribeConfigsResult {
        error_code: code.code(),
        error_message: Some(message),
        resource_type: wanted.resource_type,
        resource_name: wanted.resource_name,
        configs: shown.map(|config| entry(config, detail)).collect(),
        ..Default::default()
    }
}

fn bytes_of(result: &DescribeConfigsResult) -> usize {
    let setting = |one: &DescribeConfigsResourceResult| {
        let documentation = one.documentation.as_ref().map_or(0, String::len);
        SETTING_BYTES * (1 + one.synonyms.len()) + documentation
    };
    SETTING_BYTES + result.configs.iter().map(setting).sum::<usize>()
}

fn entry(config: DescribedConfig, detail: Detail) -> DescribeConfigsResourceResult {
    let synonyms = if detail.synonyms { config.synonyms } else { Vec::new() };
    DescribeConfigsResourceResult {
        name: config.name.to_owned(),
        value: config.value,
        read_only: config.read_only,
        config_source: config.source as i8,
        is_sensitive: config.sensitive,
        synonyms: synonyms.into_iter().map(synonym).collect(),
        config_type: config.kind.code(),
        documentation: detail.documentation.then_some(config.documentation),
        ..Default::default()
    }
}

fn synonym(synonym: ConfigSynonym) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym {
        name: synonym.name.to_owned(),
        value: synonym.value,
        source: synonym.source as i8,
        ..Default::default()
    }
}
