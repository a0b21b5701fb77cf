//! `tailrace user disable` and `tailrace user enable`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_kafka_wire::ErrorCode;

use super::arguments::SwitchArguments;
use super::credentials::{Change, find_user};
use crate::client::Cluster;
use crate::shown::shown;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    Disable,
    Enable,
}

impl Switch {
    fn verb(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Enable => "enable",
        }
    }
}

/// Kafka's protocol has no request for this, so it is a field of our own, which other servers refuse.
pub(super) async fn run(
    cluster: &mut Cluster,
    arguments: &SwitchArguments,
    switch: Switch,
) -> Result<ExitCode, Failure> {
    let (name, verb) = (&arguments.name, switch.verb());
    find_user(cluster, name).await?;
    let switched = Change::switch(name, switch == Switch::Disable).apply(cluster).await;
    switched.map_err(|error| match error.code() {
        Some(ErrorCode::UnsupportedSaslMechanism) => {
            format!("the server has no `user {verb}`, and '{name}' was not changed; is it a tailrace?").into()
        }
        _ => Failure::from(error),
    })?;
    match arguments.common.output {
        Output::Text => print(&format!("{}: {verb}d\n", shown(name)))?,
        Output::Json => print_json(&json!({ "user": name, "disabled": switch == Switch::Disable }))?,
    }
    Ok(ExitCode::SUCCESS)
}
