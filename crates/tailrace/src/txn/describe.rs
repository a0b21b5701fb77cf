//! `tailrace txn describe`.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, complain};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::time::format_instant;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::DescribeTransactionsRequest;
use tailrace_kafka_wire::messages::describe_transactions_response::TransactionState;

use super::arguments::DescribeArguments;
use super::coordinator::coordinator;
use crate::client::{ClientError, Cluster, check, retrying};

/// Describes one id after the other, so that one wrong id does not stop the rest.
pub(super) async fn run(cluster: &mut Cluster, arguments: &DescribeArguments) -> Result<ExitCode, Failure> {
    let mut all = Vec::with_capacity(arguments.ids.len());
    let mut failed = false;
    for id in &arguments.ids {
        match describe(cluster, id).await {
            Ok(state) => all.push(state),
            Err(error @ ClientError::NoTransactionalId(_)) => {
                failed = true;
                complain(&error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
    match arguments.common.output {
        Output::Json => print_json(&all.iter().map(json_of).collect::<Vec<_>>())?,
        Output::Text => {
            print(&all.iter().map(|state| text_of(state, now_ms)).collect::<Vec<_>>().join("\n"))?
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn describe(cluster: &mut Cluster, id: &str) -> Result<TransactionState, ClientError> {
    retrying(cluster, async |cluster| {
        let connection = coordinator(cluster, id).await?;
        let version = connection.version::<DescribeTransactionsRequest>()?;
        let request =
            DescribeTransactionsRequest { transactional_ids: vec![id.to_owned()], ..Default::default() };
        let answer = connection.begin(&request, version).await?.answer().await?;
        let what = || format!("cannot describe '{id}'");
        let state = answer.transaction_states.into_iter().next();
        let state = state.ok_or_else(|| ClientError::refused(what(), -1, None))?;
        if ErrorCode::from_code(state.error_code) == Some(ErrorCode::TransactionalIdNotFound) {
            return Err(ClientError::NoTransactionalId(id.to_owned()));
        }
        check(state.error_code, None, what)?;
        Ok(state)
    })
    .await
}

fn json_of(state: &TransactionState) -> Value {
    let partitions = state.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| json!({ "topic": topic.topic, "partition": partition }))
    });
    json!({
        "transactional_id": state.transactional_id,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "state": state.transaction_state,
        "timeout_ms": state.transaction_timeout_ms,
        "start_time_ms": (state.transaction_start_time_ms >= 0).then_some(state.transaction_start_time_ms),
        "partitions": partitions.collect::<Vec<_>>(),
    })
}

fn text_of(state: &TransactionState, now_ms: i64) -> String {
    let mut text = format!(
        "{}  ({}, producer {} with epoch {})\n  timeout   {} ms\n",
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms
    );
    let began = state.transaction_start_time_ms;
    if began >= 0 {
        let age_s = (now_ms - began).max(0) / 1000;
        text.push_str(&format!("  began     {}, {age_s} s ago\n", format_instant(began)));
    }
    for topic in &state.topics {
        let partitions: Vec<_> = topic.partitions.iter().map(i32::to_string).collect();
        text.push_str(&format!("  in        {} {}\n", topic.topic, partitions.join(",")));
    }
    text
}
