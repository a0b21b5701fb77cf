//! `tailrace user list`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::{Failure, complain};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;

use super::arguments::ListArguments;
use super::credentials::{User, users};
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
                    json!({ "mechanism": credential.mechanism_name(), "iterations": credential.iterations })
                });
                json!({ "user": user.name, "credentials": credentials.collect::<Vec<_>>() })
            });
            print_json(&users.collect::<Vec<_>>())
        }
        Output::Text => print(&table(users)),
    }
}

fn table(users: &[User]) -> String {
    let mut table = Table::new(0, &["USER", "MECHANISM", "ITERATIONS"]);
    for user in users {
        for credential in &user.credentials {
            let iterations = credential.iterations.to_string();
            table.row(vec![shown(&user.name).into_owned(), credential.mechanism_name(), iterations]);
        }
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::credentials::Credential;

    #[test]
    fn a_user_has_a_row_for_each_mechanism() {
        let credential = |mechanism, iterations| Credential { mechanism, iterations };
        let users = [
            User { name: "alice".to_owned(), credentials: vec![credential(1, 4096), credential(2, 8192)] },
            User { name: "b\nb".to_owned(), credentials: vec![credential(9, 4096)] },
        ];
        assert_eq!(
            table(&users),
            "USER   MECHANISM      ITERATIONS\n\
             alice  SCRAM-SHA-256  4096\n\
             alice  SCRAM-SHA-512  8192\n\
             b\\nb   mechanism 9    4096\n"
        );
    }
}
