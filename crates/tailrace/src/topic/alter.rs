//! `tailrace topic alter`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::units::plural;
use tailrace_kafka_wire::messages::create_partitions_request::CreatePartitionsTopic;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use tailrace_kafka_wire::messages::{CreatePartitionsRequest, IncrementalAlterConfigsRequest};

use super::arguments::AlterArguments;
use super::change::{CHANGE_TIMEOUT_MS, captured};
use crate::client::{ClientError, Cluster, RESOURCE_TOPIC, check, find_topic, retrying, topic_configs};

/// Operations on a key, as the protocol numbers them.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// Changes the configuration first: that can be undone, and adding partitions cannot.
pub(super) async fn run(cluster: &mut Cluster, arguments: &AlterArguments) -> Result<ExitCode, Failure> {
    let changes = changes(arguments);
    find_topic(cluster, &arguments.name).await?;
    check_deleted(cluster, arguments).await?;
    let mut done = Vec::new();
    if !changes.is_empty() {
        alter_configs(cluster, arguments, &changes).await?;
        done.extend(changes.iter().map(described));
    }
    if let Some(count) = arguments.partitions {
        add_partitions(cluster, arguments, count).await?;
        done.push(plural(u64::from(count.unsigned_abs()), "partition"));
    }
    let prefix = if arguments.validate_only { "would be changed" } else { "changed" };
    match arguments.common.output {
        Output::Text => print(&format!("{}: {prefix}: {}\n", arguments.name, done.join(", ")))?,
        Output::Json => print_json(&json!({
            "name": arguments.name, "changed": !arguments.validate_only, "changes": done,
        }))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks the keys to delete. The server reports success for a key that it does not know.
async fn check_deleted(cluster: &mut Cluster, arguments: &AlterArguments) -> Result<(), Failure> {
    if arguments.delete_config.is_empty() {
        return Ok(());
    }
    let topic = std::slice::from_ref(&arguments.name);
    let known = topic_configs(cluster, topic, None).await?.remove(&arguments.name).unwrap_or_default();
    let is_unknown = |key: &&String| !known.iter().any(|config| config.name == **key);
    match arguments.delete_config.iter().find(is_unknown) {
        Some(key) => Err(format!(
            "topics have no setting '{key}'; `tailrace topic describe {} --all-configs` shows all settings",
            arguments.name
        )
        .into()),
        None => Ok(()),
    }
}

fn changes(arguments: &AlterArguments) -> Vec<AlterableConfig> {
    let set = arguments.config.iter().cloned().chain(captured(&arguments.subjects));
    let set = set.map(|(name, value)| AlterableConfig {
        name,
        config_operation: SET,
        value: Some(value),
        ..Default::default()
    });
    let delete = arguments.delete_config.iter().map(|name| AlterableConfig {
        name: name.clone(),
        config_operation: DELETE,
        value: None,
        ..Default::default()
    });
    set.chain(delete).collect()
}

fn described(change: &AlterableConfig) -> String {
    match &change.value {
        Some(value) => format!("{}={value}", change.name),
        None => format!("{} back to its default", change.name),
    }
}

async fn alter_configs(
    cluster: &mut Cluster,
    arguments: &AlterArguments,
    changes: &[AlterableConfig],
) -> Result<(), ClientError> {
    let resource = AlterConfigsResource {
        resource_type: RESOURCE_TOPIC,
        resource_name: arguments.name.clone(),
        configs: changes.to_vec(),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest {
        resources: vec![resource],
        validate_only: arguments.validate_only,
        ..Default::default()
    };
    retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        answer.responses.iter().try_for_each(|result| {
            let what = || format!("cannot change topic '{}'", arguments.name);
            check(result.error_code, result.error_message.as_ref(), what)
        })
    })
    .await
}

async fn add_partitions(
    cluster: &mut Cluster,
    arguments: &AlterArguments,
    count: i32,
) -> Result<(), ClientError> {
    let topic = CreatePartitionsTopic { name: arguments.name.clone(), count, ..Default::default() };
    let request = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic { assignments: None, ..topic }],
        timeout_ms: CHANGE_TIMEOUT_MS,
        validate_only: arguments.validate_only,
        ..Default::default()
    };
    retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        answer.results.iter().try_for_each(|result| {
            let what = || format!("cannot add partitions to topic '{}'", arguments.name);
            check(result.error_code, result.error_message.as_ref(), what)
        })
    })
    .await
}
