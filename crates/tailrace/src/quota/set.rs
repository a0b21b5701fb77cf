//! `tailrace quota set`.

use std::process::ExitCode;

use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, usage};
use tailrace_cli::output::{Output, print, print_json};

use super::arguments::SetArguments;
use super::change::alter;
use super::limits::shown_value;
use crate::client::{Cluster, block_on};
use crate::shown::shown;

pub(super) fn run(arguments: &SetArguments) -> Result<ExitCode, Failure> {
    let entity = arguments.entity.entity();
    let limits = arguments.limits.limits(entity.is_address()).map_err(usage)?;
    let changes: Vec<_> = limits.iter().map(|limit| (limit.key.clone(), Some(limit.value))).collect();
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.common.connect).await?;
        alter(&mut cluster, &entity, &changes, arguments.validate_only).await?;
        let done = if arguments.validate_only { "would be set" } else { "set" };
        match arguments.common.output {
            Output::Text => {
                let line = |key: &str, value| format!("{}={}", shown(key), shown_value(key, value));
                let list: Vec<_> = limits.iter().map(|limit| line(&limit.key, limit.value)).collect();
                print(&format!("{entity}: {done}: {}\n", list.join(", ")))?;
            }
            Output::Json => {
                let quotas = limits.iter().map(|limit| (limit.key.clone(), json!(limit.value)));
                print_json(&json!({
                    "entity": entity.to_json(),
                    "set": !arguments.validate_only,
                    "quotas": Value::Object(quotas.collect()),
                }))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
