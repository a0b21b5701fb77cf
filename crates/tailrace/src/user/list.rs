//! `tailrace user list`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::{Failure, complain};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;
use tailrace_cli::text::time::format_instant;

use super::arguments::ListArguments;
use super::credentials::{Credential, User, users};
use crate::client::{ClientError, Cluster};
use crate::shown::shown;

pub(super) async fn run(cluster: &mut Cluster, arguments: &ListArguments) -> Result<ExitCode, Failure> {
    // The server refuses a name that appears twice.
    let names: BTreeSet<String> = arguments.names.iter().cloned().collect();
    let names: Vec<String> = names.into_iter().collect();
    let results = users(cluster, (!names.is_empty()).then_some(&names)).await?;
    let (mut found, mut failed) = (Vec::new(), false);
    for result in results {
        match result {
            Ok(user) => found.push(user),
            Err(error @ (ClientError::Refused { .. } | ClientError::NoUser(_))) => {
                failed = true;
                complain(&error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    if !failed || !found.is_empty() {
        show(&found, arguments.common.output)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(users: &[User], output: Output) -> Result<(), Failure> {
    match output {
        Output::Json => {
            let users = users.iter().map(|user| {
                let credentials = user.credentials.iter().map(|credential| {
                    json!({
                        "mechanism": credential.mechanism_name(),
                        "iterations": credential.iterations,
                        "old_password_until_ms": old_until(credential),
                    })
                });
                json!({
                    "user": user.name,
                    "disabled": user.is_disabled,
                    "credentials": credentials.collect::<Vec<_>>(),
                })
            });
            print_json(&users.collect::<Vec<_>>())
        }
        Output::Text => print(&table(users)),
    }
}

fn table(users: &[User]) -> String {
    let mut table = Table::new(0, &["USER", "MECHANISM", "ITERATIONS", "STATE"]);
    for user in users {
        let name = || shown(&user.name).into_owned();
        for credential in &user.credentials {
            let iterations = credential.iterations.to_string();
            table.row(vec![name(), credential.mechanism_name(), iterations, state(user, credential)]);
        }
        if user.credentials.is_empty() {
            let state = if user.is_disabled == Some(true) { "disabled" } else { "" };
            table.row(vec![name(), "-".to_owned(), "-".to_owned(), state.to_owned()]);
        }
    }
    table.render()
}

fn old_until(credential: &Credential) -> Option<i64> {
    credential.state.as_ref()?.previous_until_ms
}

fn state(user: &User, credential: &Credential) -> String {
    let disabled = (user.is_disabled == Some(true)).then(|| "disabled".to_owned());
    let old = old_until(credential).map(|until| format!("old password until {}", format_instant(until)));
    disabled.into_iter().chain(old).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailrace_kafka_wire::own_fields::CredentialState;

    #[test]
    fn a_user_has_a_row_for_each_mechanism() {
        let credential = |mechanism, iterations| Credential { mechanism, iterations, state: None };
        let kept = CredentialState { previous_until_ms: Some(1_000), salt: "salt".into() };
        let is_disabled = None;
        let users = [
            User {
                name: "alice".to_owned(),
                credentials: vec![credential(1, 4096), credential(2, 8192)],
                is_disabled,
            },
            User { name: "b\nb".to_owned(), credentials: vec![credential(9, 4096)], is_disabled },
            User {
                name: "carol".to_owned(),
                credentials: vec![Credential { state: Some(kept), ..credential(1, 4096) }],
                is_disabled: Some(true),
            },
            User { name: "dora".to_owned(), credentials: vec![], is_disabled: Some(true) },
        ];
        assert_eq!(
            table(&users),
            "USER   MECHANISM      ITERATIONS  STATE\n\
             alice  SCRAM-SHA-256  4096\n\
             alice  SCRAM-SHA-512  8192\n\
             b\\nb   mechanism 9    4096\n\
             carol  SCRAM-SHA-256  4096        disabled, old password until 1970-01-01T00:00:01.000Z\n\
             dora   -              -           disabled\n"
        );
    }
}
