//! `tailrace user remove`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::{Failure, complain};
use tailrace_cli::output::{Output, print, print_json};

use super::arguments::RemoveArguments;
use super::credentials::{Change, find_user};
use crate::client::{ClientError, Cluster};
use crate::shown::shown;

/// Removes one user after the other, so that one wrong name does not stop the rest.
pub(super) async fn run(cluster: &mut Cluster, arguments: &RemoveArguments) -> Result<ExitCode, Failure> {
    let mut removed = Vec::new();
    let mut failed = false;
    for name in &arguments.names {
        match remove(cluster, name).await {
            Ok(()) => removed.push(name.clone()),
            Err(ClientError::NoUser(_)) if arguments.if_exists => {}
            Err(error @ (ClientError::Refused { .. } | ClientError::NoUser(_))) => {
                failed = true;
                complain(&error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    let lines = || removed.iter().map(|name| format!("{}: removed\n", shown(name))).collect::<String>();
    match arguments.common.output {
        Output::Text => print(&lines())?,
        Output::Json => print_json(&json!({ "removed": removed }))?,
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn remove(cluster: &mut Cluster, name: &str) -> Result<(), ClientError> {
    let user = find_user(cluster, name).await?;
    for credential in &user.credentials {
        Change::remove(name, credential).apply(cluster).await?;
    }
    if user.is_disabled == Some(true) {
        // A disabled user without passwords remains until it is enabled.
        Change::switch(name, false).apply(cluster).await?;
    }
    Ok(())
}
