//! `tailrace topic delete`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::{Failure, complain};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::DeleteTopicsRequest;
use tailrace_kafka_wire::messages::delete_topics_request::DeleteTopicState;

use super::arguments::DeleteArguments;
use super::change::CHANGE_TIMEOUT_MS;
use crate::client::{ClientError, Cluster, check, retrying};

/// First version that can name a topic by id, which changes the layout.
const VERSION_WITH_IDS: i16 = 6;

/// Deletes one topic after the other, so that one wrong name does not stop the rest.
pub(super) async fn run(cluster: &mut Cluster, arguments: &DeleteArguments) -> Result<ExitCode, Failure> {
    let mut deleted = Vec::new();
    let mut failed = false;
    for name in &arguments.names {
        match delete(cluster, name).await {
            Ok(()) => deleted.push(name.clone()),
            Err(ClientError::NoTopic(_)) if arguments.if_exists => {}
            Err(error @ (ClientError::Refused { .. } | ClientError::NoTopic(_))) => {
                failed = true;
                complain(&error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    match arguments.common.output {
        Output::Text => print(&deleted.iter().map(|name| format!("{name}: deleted\n")).collect::<String>())?,
        Output::Json => print_json(&json!({ "deleted": deleted }))?,
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn delete(cluster: &mut Cluster, name: &str) -> Result<(), ClientError> {
    retrying(cluster, async |cluster| {
        let controller = cluster.controller().await?;
        let version = controller.version::<DeleteTopicsRequest>()?;
        let mut request = DeleteTopicsRequest { timeout_ms: CHANGE_TIMEOUT_MS, ..Default::default() };
        if version >= VERSION_WITH_IDS {
            request.topics = vec![DeleteTopicState { name: Some(name.to_owned()), ..Default::default() }];
        } else {
            request.topic_names = vec![name.to_owned()];
        }
        let answer = controller.begin(&request, version).await?.answer().await?;
        answer.responses.iter().try_for_each(|result| {
            if ErrorCode::from_code(result.error_code) == Some(ErrorCode::UnknownTopicOrPartition) {
                return Err(ClientError::NoTopic(name.to_owned()));
            }
            let what = || format!("cannot delete topic '{name}'");
            check(result.error_code, result.error_message.as_ref(), what)
        })
    })
    .await
}
