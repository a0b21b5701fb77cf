//! `tailrace topic create`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::units::plural;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::CreateTopicsRequest;
use tailrace_kafka_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use tailrace_kafka_wire::messages::create_topics_response::CreatableTopicResult;

use super::arguments::CreateArguments;
use super::change::{CHANGE_TIMEOUT_MS, captured};
use crate::client::{ClientError, Cluster, check, retrying};

/// First version in which the server chooses partitions and replicas (KIP-464).
const VERSION_WITH_DEFAULTS: i16 = 4;

pub(super) async fn run(cluster: &mut Cluster, arguments: &CreateArguments) -> Result<ExitCode, Failure> {
    let exists = match create(cluster, arguments).await {
        Ok(result) => {
            show(arguments, Some(&result))?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => error,
    };
    if exists.code() == Some(ErrorCode::TopicAlreadyExists) && arguments.if_not_exists {
        show(arguments, None)?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(exists.into())
}

async fn create(
    cluster: &mut Cluster,
    arguments: &CreateArguments,
) -> Result<CreatableTopicResult, ClientError> {
    let mut topic = CreatableTopic {
        name: arguments.name.clone(),
        num_partitions: arguments.partitions.unwrap_or(-1),
        replication_factor: arguments.replication_factor.unwrap_or(-1),
        configs: arguments
            .config
            .iter()
            .cloned()
            .chain(captured(&arguments.subjects))
            .map(|(name, value)| config(name, value))
            .collect(),
        ..Default::default()
    };
    retrying(cluster, async |cluster| {
        let controller = cluster.controller().await?;
        let version = controller.version::<CreateTopicsRequest>()?;
        if version < VERSION_WITH_DEFAULTS {
            topic.num_partitions = topic.num_partitions.max(1);
            topic.replication_factor = topic.replication_factor.max(1);
        }
        let request = CreateTopicsRequest {
            topics: vec![topic.clone()],
            timeout_ms: CHANGE_TIMEOUT_MS,
            validate_only: arguments.validate_only,
            ..Default::default()
        };
        let answer = controller.begin(&request, version).await?.answer().await?;
        let result = answer.topics.into_iter().next().unwrap_or_default();
        let what = || format!("cannot create topic '{}'", arguments.name);
        check(result.error_code, result.error_message.as_ref(), what)?;
        Ok(result)
    })
    .await
}

fn config(name: String, value: String) -> CreatableTopicConfig {
    CreatableTopicConfig { name, value: Some(value), ..Default::default() }
}

/// Prints the result. `result` is `None` if the topic existed already.
fn show(arguments: &CreateArguments, result: Option<&CreatableTopicResult>) -> Result<(), Failure> {
    let name = &arguments.name;
    let done = if arguments.validate_only { "would be created" } else { "created" };
    // Servers before version 5 do not report it.
    let known = result.filter(|result| result.num_partitions > 0);
    match arguments.common.output {
        Output::Json => print_json(&json!({
            "name": name,
            "created": result.is_some() && !arguments.validate_only,
            "partitions": known.map(|result| result.num_partitions),
            "replication_factor": known.map(|result| result.replication_factor),
        })),
        Output::Text => print(&match (result, known) {
            (None, _) => format!("{name}: exists already\n"),
            (Some(_), None) => format!("{name}: {done}\n"),
            (Some(_), Some(result)) => {
                let partitions = plural(u64::from(result.num_partitions.unsigned_abs()), "partition");
                format!(
                    "{name}: {done} with {partitions}, replication factor {}\n",
                    result.replication_factor
                )
            }
        }),
    }
}
