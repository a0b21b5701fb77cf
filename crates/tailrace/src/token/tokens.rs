//! Tokens, as the server tells them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tailrace_cli::failure::Failure;
use tailrace_kafka_wire::messages::DescribeDelegationTokenRequest;
use tailrace_kafka_wire::messages::describe_delegation_token_request::DescribeDelegationTokenOwner;
use tailrace_kafka_wire::messages::describe_delegation_token_response::DescribedDelegationToken;

use crate::client::{ClientError, Cluster, Connection, check, retrying};

/// The type of principals that have tokens.
pub(super) const USER: &str = "User";

/// Refuses secrets on a connection that others can read.
pub(super) fn check_private(connection: &Arc<Connection>, without_tls: bool) -> Result<(), ClientError> {
    if without_tls { Ok(()) } else { connection.check_private() }
}

/// Returns the tokens that the server lets one see, of all owners or of these.
pub(super) async fn tokens(
    cluster: &mut Cluster,
    owners: &[String],
    without_tls: bool,
) -> Result<Vec<DescribedDelegationToken>, ClientError> {
    let owner = |name: &String| DescribeDelegationTokenOwner {
        principal_type: USER.to_owned(),
        principal_name: name.clone(),
        ..Default::default()
    };
    let owners = (!owners.is_empty()).then(|| owners.iter().map(owner).collect());
    let request = DescribeDelegationTokenRequest { owners, ..Default::default() };
    retrying(cluster, async |cluster| {
        let connection = cluster.any().await?;
        check_private(&connection, without_tls)?;
        let answer = connection.call(&request).await?;
        check(answer.error_code, None, || "cannot read delegation tokens".to_owned())?;
        Ok(answer.tokens)
    })
    .await
}

/// Returns the secret of a token.
pub(super) async fn hmac_of(cluster: &mut Cluster, id: &str, without_tls: bool) -> Result<Bytes, Failure> {
    let found = tokens(cluster, &[], without_tls).await?.into_iter().find(|token| token.token_id == id);
    match found {
        Some(token) => Ok(token.hmac),
        None => Err(format!(
            "there is no delegation token '{id}' that you may see; `tailrace token list` lists those you may"
        )
        .into()),
    }
}

/// Everything but the secret.
pub(super) fn to_json(token: &DescribedDelegationToken) -> Value {
    let renewers: Vec<_> = token.renewers.iter().map(|renewer| renewer.principal_name.as_str()).collect();
    json!({
        "id": token.token_id,
        "owner": token.principal_name,
        "requester": token.token_requester_principal_name,
        "renewers": renewers,
        "issued_ms": token.issue_timestamp,
        "expires_ms": token.expiry_timestamp,
        "max_ms": token.max_timestamp,
    })
}

/// A period on the wire. `none` stands for no period.
pub(super) fn millis(period: Option<Duration>, none: i64) -> i64 {
    period.map_or(none, |period| i64::try_from(period.as_millis()).unwrap_or(i64::MAX))
}
