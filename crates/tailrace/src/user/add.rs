//! `tailrace user add`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};

use super::arguments::AddArguments;
use super::credentials::{Change, Hashing, find_user};
use crate::client::{ClientError, Cluster, ScramMechanism};
use crate::shown::shown;

/// Refuses to replace a password: the server would do that without a word.
pub(super) async fn run(cluster: &mut Cluster, arguments: &AddArguments) -> Result<ExitCode, Failure> {
    let AddArguments { name, iterations, password, .. } = arguments;
    let mechanisms = arguments.mechanisms();
    let existing = match find_user(cluster, name).await {
        Ok(user) => user.credentials,
        Err(ClientError::NoUser(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let has = |mechanism: &&ScramMechanism| existing.iter().any(|one| one.mechanism == mechanism.code());
    if let Some(mechanism) = mechanisms.iter().find(has) {
        return Err(format!(
            "user '{name}' has a password for {} already; `tailrace user rotate {name}` changes it",
            mechanism.name()
        )
        .into());
    }
    let secret = password.read(name)?;
    for &mechanism in &mechanisms {
        let hashing = Hashing::new(mechanism, *iterations)?;
        let change = Change::set(name, &hashing, &secret, password.without_tls)?;
        change.apply(cluster).await?;
    }
    let names: Vec<_> = mechanisms.iter().map(|mechanism| mechanism.name()).collect();
    match arguments.common.output {
        Output::Text => {
            print(&format!("{}: added with {}, {iterations} iterations\n", shown(name), names.join(" and ")))?
        }
        Output::Json => {
            print_json(&json!({ "user": name, "mechanisms": names, "iterations": iterations }))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
