//! `tailrace topic list`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;

use super::arguments::ListArguments;
use super::id::id_text;
use crate::client::{Cluster, all_topics};

pub(super) async fn run(cluster: &mut Cluster, arguments: &ListArguments) -> Result<ExitCode, Failure> {
    let mut topics = all_topics(cluster).await?;
    topics.retain(|topic| arguments.internal || !topic.internal);
    let replicas = |topic: &crate::client::Topic| topic.partitions.first().map_or(0, |p| p.replicas.len());
    match arguments.common.output {
        Output::Json => {
            let topics = topics.iter().map(|topic| {
                json!({
                    "name": topic.name,
                    "id": id_text(&topic.id),
                    "partitions": topic.partitions.len(),
                    "replication_factor": replicas(topic),
                    "internal": topic.internal,
                })
            });
            print_json(&topics.collect::<Vec<_>>())?;
        }
        Output::Text => {
            let mut table = Table::new(0, &["NAME", "PARTITIONS", "REPLICAS"]);
            for topic in &topics {
                let counts = [topic.partitions.len().to_string(), replicas(topic).to_string()];
                table.row([vec![topic.name.clone()], counts.to_vec()].concat());
            }
            print(&table.render())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
