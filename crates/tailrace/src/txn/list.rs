//! `tailrace txn list`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;
use tailrace_kafka_wire::messages::ListTransactionsRequest;

use super::arguments::ListArguments;
use crate::client::{ClientError, Cluster, check, retrying};

/// First versions with the two newer filters.
const VERSION_WITH_DURATION: i16 = 1;
const VERSION_WITH_PATTERN: i16 = 2;

struct Listed {
    transactional_id: String,
    producer_id: i64,
    state: String,
    coordinator: i32,
}

pub(super) async fn run(cluster: &mut Cluster, arguments: &ListArguments) -> Result<ExitCode, Failure> {
    let nodes = cluster.metadata(Some(&[]), false).await?.brokers;
    let mut all = Vec::new();
    for node in nodes.iter().map(|node| node.node_id) {
        all.extend(of_node(cluster, node, arguments).await?);
    }
    all.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
    match arguments.common.output {
        Output::Json => {
            let entry = |one: &Listed| {
                json!({
                    "transactional_id": one.transactional_id,
                    "producer_id": one.producer_id,
                    "state": one.state,
                    "coordinator": one.coordinator,
                })
            };
            print_json(&all.iter().map(entry).collect::<Vec<_>>())?;
        }
        Output::Text => {
            let mut table = Table::new(0, &["TRANSACTIONAL ID", "PRODUCER ID", "STATE", "COORDINATOR"]);
            for one in all {
                let (producer_id, coordinator) = (one.producer_id.to_string(), one.coordinator.to_string());
                table.row(vec![one.transactional_id, producer_id, one.state, coordinator]);
            }
            print(&table.render())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the transactional ids that one node coordinates.
async fn of_node(
    cluster: &mut Cluster,
    node: i32,
    arguments: &ListArguments,
) -> Result<Vec<Listed>, Failure> {
    let longer_ms = arguments.longer_than.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let answer = retrying(cluster, async |cluster| {
        let connection = cluster.node(node).await?;
        let version = connection.version::<ListTransactionsRequest>()?;
        let unsupported = |what: &str| {
            let what = format!("cannot filter by {what}: the server is too old for that");
            Err(ClientError::refused(what, 35, None))
        };
        if longer_ms.is_some() && version < VERSION_WITH_DURATION {
            return unsupported("age");
        }
        if arguments.pattern.is_some() && version < VERSION_WITH_PATTERN {
            return unsupported("pattern");
        }
        let request = ListTransactionsRequest {
            state_filters: arguments.state.clone(),
            producer_id_filters: arguments.producer_id.clone(),
            duration_filter: longer_ms.unwrap_or(-1),
            transactional_id_pattern: arguments.pattern.clone(),
            ..Default::default()
        };
        let answer = connection.begin(&request, version).await?.answer().await?;
        check(answer.error_code, None, || "cannot list transactions".to_owned())?;
        Ok(answer)
    })
    .await?;
    if let Some(state) = answer.unknown_state_filters.first() {
        return Err(format!("the server does not know the state '{state}'").into());
    }
    let listed = answer.transaction_states.into_iter().map(|one| Listed {
        transactional_id: one.transactional_id,
        producer_id: one.producer_id,
        state: one.transaction_state,
        coordinator: node,
    });
    Ok(listed.collect())
}
