//! `tailrace user rotate`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};

use super::arguments::{ITERATIONS_MAX, ITERATIONS_MIN, RotateArguments};
use super::credentials::{Change, find_user};
use crate::client::{Cluster, ScramMechanism};
use crate::shown::shown;

/// Changes one mechanism after the other. If one fails, the error says which have the new password already.
pub(super) async fn run(cluster: &mut Cluster, arguments: &RotateArguments) -> Result<ExitCode, Failure> {
    let RotateArguments { name, iterations, password, .. } = arguments;
    let user = find_user(cluster, name).await?;
    let known: Vec<(ScramMechanism, u32)> = user
        .credentials
        .iter()
        .filter_map(|credential| {
            let before = u32::try_from(credential.iterations).unwrap_or_default();
            let before = before.clamp(ITERATIONS_MIN, ITERATIONS_MAX);
            Some((ScramMechanism::from_code(credential.mechanism)?, iterations.unwrap_or(before)))
        })
        .collect();
    if known.is_empty() {
        return Err(format!("user '{name}' has no password for a mechanism that this tailrace knows").into());
    }
    let secret = password.read(name)?;
    let mut changed = Vec::new();
    for (mechanism, iterations) in known {
        let change = Change::set(name, mechanism, iterations, &secret, password.without_tls)?;
        match change.apply(cluster).await {
            Ok(()) => changed.push(mechanism.name()),
            Err(error) if changed.is_empty() => return Err(error.into()),
            Err(error) => {
                return Err(format!("{error}; {} has the new password already", changed.join(", ")).into());
            }
        }
    }
    match arguments.common.output {
        Output::Text => print(&format!("{}: new password for {}\n", shown(name), changed.join(" and ")))?,
        Output::Json => print_json(&json!({ "user": name, "mechanisms": changed }))?,
    }
    Ok(ExitCode::SUCCESS)
}
