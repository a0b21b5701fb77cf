//! `tailrace token list`.

use std::process::ExitCode;

use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;
use tailrace_cli::text::time::format_instant;
use tailrace_kafka_wire::messages::describe_delegation_token_response::DescribedDelegationToken;

use super::arguments::ListArguments;
use super::tokens::{to_json, tokens};
use crate::client::Cluster;
use crate::shown::shown;

/// Shows everything but the secrets.
pub(super) async fn run(cluster: &mut Cluster, arguments: &ListArguments) -> Result<ExitCode, Failure> {
    let mut found = tokens(cluster, &arguments.owner, arguments.common.without_tls).await?;
    found.sort_by(|a, b| (a.issue_timestamp, &a.token_id).cmp(&(b.issue_timestamp, &b.token_id)));
    match arguments.common.ask.output {
        Output::Text => print(&table(&found))?,
        Output::Json => print_json(&found.iter().map(to_json).collect::<Vec<_>>())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(tokens: &[DescribedDelegationToken]) -> String {
    let mut table = Table::new(0, &["ID", "OWNER", "REQUESTER", "RENEWERS", "EXPIRES", "LATEST"]);
    for token in tokens {
        let renewers: Vec<_> = token.renewers.iter().map(|renewer| shown(&renewer.principal_name)).collect();
        table.row(vec![
            token.token_id.clone(),
            shown(&token.principal_name).into_owned(),
            shown(&token.token_requester_principal_name).into_owned(),
            if renewers.is_empty() { "-".to_owned() } else { renewers.join(",") },
            format_instant(token.expiry_timestamp),
            format_instant(token.max_timestamp),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_in_no_table_and_in_no_json() {
        let token = DescribedDelegationToken {
            token_id: "id".to_owned(),
            principal_name: "alice".to_owned(),
            token_requester_principal_name: "admin".to_owned(),
            hmac: "secret".into(),
            expiry_timestamp: 1_000,
            max_timestamp: 2_000,
            ..Default::default()
        };
        assert_eq!(
            table(std::slice::from_ref(&token)),
            "ID  OWNER  REQUESTER  RENEWERS  EXPIRES                   LATEST\n\
             id  alice  admin      -         1970-01-01T00:00:01.000Z  1970-01-01T00:00:02.000Z\n"
        );
        let json = to_json(&token).to_string();
        assert!(!json.contains("secret") && !json.contains("hmac"), "{json}");
    }
}
