//! `tailrace group list`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::names::is_same_name;
use tailrace_cli::text::table::Table;

use super::arguments::ListArguments;
use crate::client::{Cluster, ListedGroup, list_groups};

pub(super) async fn run(cluster: &mut Cluster, arguments: &ListArguments) -> Result<ExitCode, Failure> {
    let mut groups = list_groups(cluster).await?;
    groups.retain(|group| is_wanted(group, arguments));
    match arguments.common.output {
        Output::Json => {
            let groups = groups.iter().map(|group| {
                json!({
                    "group": group.id,
                    "type": group.kind.to_string(),
                    "state": group.state,
                    "protocol_type": group.protocol_type,
                })
            });
            print_json(&groups.collect::<Vec<_>>())?;
        }
        Output::Text => {
            let mut table = Table::new(0, &["GROUP", "TYPE", "STATE"]);
            for group in &groups {
                table.row(vec![group.id.clone(), group.kind.to_string(), group.state.clone()]);
            }
            print(&table.render())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Applies the filters here, not on the server, so that they work with every version.
fn is_wanted(group: &ListedGroup, arguments: &ListArguments) -> bool {
    let is_one = |wanted: &[String], found: &str| {
        wanted.is_empty() || wanted.iter().any(|wanted| is_same_name(wanted, found))
    };
    is_one(&arguments.state, &group.state) && is_one(&arguments.kind, &group.kind.to_string())
}
