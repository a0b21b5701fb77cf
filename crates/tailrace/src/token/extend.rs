//! `tailrace token renew` and `tailrace token expire`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::time::format_instant;
use tailrace_kafka_wire::messages::{ExpireDelegationTokenRequest, RenewDelegationTokenRequest};

use super::arguments::{CommonArguments, ExpireArguments, RenewArguments};
use super::tokens::{check_private, hmac_of, millis};
use crate::client::{Cluster, check, retrying};

pub(super) async fn renew(cluster: &mut Cluster, arguments: &RenewArguments) -> Result<ExitCode, Failure> {
    let RenewArguments { id, period, common } = arguments;
    let hmac = hmac_of(cluster, id, common.without_tls).await?;
    let request =
        RenewDelegationTokenRequest { hmac, renew_period_ms: millis(*period, -1), ..Default::default() };
    let expires_ms = retrying(cluster, async |cluster| {
        let connection = cluster.controller().await?;
        check_private(&connection, common.without_tls)?;
        let answer = connection.call(&request).await?;
        check(answer.error_code, None, || format!("cannot renew delegation token '{id}'"))?;
        Ok(answer.expiry_timestamp_ms)
    })
    .await?;
    show(common, id, "renewed, valid until", expires_ms)
}

pub(super) async fn expire(cluster: &mut Cluster, arguments: &ExpireArguments) -> Result<ExitCode, Failure> {
    let ExpireArguments { id, period, common } = arguments;
    let hmac = hmac_of(cluster, id, common.without_tls).await?;
    let expiry_time_period_ms = millis(*period, -1);
    let request = ExpireDelegationTokenRequest { hmac, expiry_time_period_ms, ..Default::default() };
    let expires_ms = retrying(cluster, async |cluster| {
        let connection = cluster.controller().await?;
        check_private(&connection, common.without_tls)?;
        let answer = connection.call(&request).await?;
        check(answer.error_code, None, || format!("cannot end delegation token '{id}'"))?;
        Ok(answer.expiry_timestamp_ms)
    })
    .await?;
    show(common, id, "ends at", expires_ms)
}

fn show(common: &CommonArguments, id: &str, done: &str, expires_ms: i64) -> Result<ExitCode, Failure> {
    match common.ask.output {
        Output::Text => print(&format!("{id}: {done} {}\n", format_instant(expires_ms)))?,
        Output::Json => print_json(&json!({ "id": id, "expires_ms": expires_ms }))?,
    }
    Ok(ExitCode::SUCCESS)
}
