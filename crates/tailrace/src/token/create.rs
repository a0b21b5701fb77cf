//! `tailrace token create`.

use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::time::format_instant;
use tailrace_kafka_wire::messages::create_delegation_token_request::CreatableRenewers;
use tailrace_kafka_wire::messages::{CreateDelegationTokenRequest, CreateDelegationTokenResponse};
use zeroize::Zeroizing;

use super::arguments::CreateArguments;
use super::tokens::{USER, check_private, millis};
use crate::client::{Cluster, check, retrying};
use crate::shown::shown;

pub(super) async fn run(cluster: &mut Cluster, arguments: &CreateArguments) -> Result<ExitCode, Failure> {
    let renewer = |name: &String| CreatableRenewers {
        principal_type: USER.to_owned(),
        principal_name: name.clone(),
        ..Default::default()
    };
    let request = CreateDelegationTokenRequest {
        // Empty for oneself, which older servers take as well: they have no such fields.
        owner_principal_type: Some(arguments.owner.as_ref().map(|_| USER.to_owned()).unwrap_or_default()),
        owner_principal_name: Some(arguments.owner.clone().unwrap_or_default()),
        renewers: arguments.renewer.iter().map(renewer).collect(),
        max_lifetime_ms: millis(arguments.max_lifetime, -1),
        ..Default::default()
    };
    let without_tls = arguments.common.without_tls;
    let answer = retrying(cluster, async |cluster| {
        let connection = cluster.controller().await?;
        check_private(&connection, without_tls)?;
        let answer = connection.call(&request).await?;
        check(answer.error_code, None, || "cannot make a delegation token".to_owned())?;
        Ok(answer)
    })
    .await?;
    show(&answer, arguments)?;
    Ok(ExitCode::SUCCESS)
}

fn show(answer: &CreateDelegationTokenResponse, arguments: &CreateArguments) -> Result<(), Failure> {
    let hmac = Zeroizing::new(STANDARD.encode(&answer.hmac));
    // An older server does not say who asked.
    let requester = match answer.token_requester_principal_name.as_str() {
        "" => &answer.principal_name,
        name => name,
    };
    match arguments.common.ask.output {
        Output::Text => print(&format!(
            "id:      {}\nowner:   {}\nexpires: {}\nlatest:  {}\nhmac:    {}\n",
            answer.token_id,
            shown(&answer.principal_name),
            format_instant(answer.expiry_timestamp_ms),
            format_instant(answer.max_timestamp_ms),
            &*hmac,
        )),
        Output::Json => print_json(&json!({
            "id": answer.token_id,
            "owner": answer.principal_name,
            "requester": requester,
            "renewers": arguments.renewer,
            "issued_ms": answer.issue_timestamp_ms,
            "expires_ms": answer.expiry_timestamp_ms,
            "max_ms": answer.max_timestamp_ms,
            "hmac": &*hmac,
        })),
    }
}
