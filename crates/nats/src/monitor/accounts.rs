//! Pages about the accounts.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tailrace_env::time::Duration;
use tailrace_identity::nats_accounts::{
    Account as Defined, Export, ExportAccess, Import, Response, ShareKind,
};

use super::others::head;
use super::query::{BadQuery, Query};
use super::subscriptions::statistics;
use crate::account::Account;
use crate::front::NatsFront;
use crate::go_time;

pub(super) fn accountz(front: &NatsFront, query: &Query) -> Result<Value, BadQuery> {
    let (server_id, now) = head(front);
    let mut page = json!({ "server_id": server_id, "now": now });
    if let Some(system) = front.accounts().system() {
        page["system_account"] = json!(&**system.name());
    }
    let name = query.text("acc");
    if name.is_empty() {
        let names: Vec<_> = front.accounts().all().iter().map(|account| account.name().to_string()).collect();
        page["accounts"] = json!(names);
    } else {
        page["account_detail"] =
            account_info(front, name).ok_or_else(|| BadQuery(format!("Account {name} does not exist")))?;
    }
    Ok(page)
}

/// Describes an account. `None` if there is none of this name.
pub(crate) fn account_info(front: &NatsFront, name: &str) -> Option<Value> {
    let account = front.accounts().find(name)?;
    let is_system = front.accounts().system().is_some_and(|system| Arc::ptr_eq(&system, &account));
    let has_jetstream = front.jetstream().is_some() && Arc::ptr_eq(&account, front.accounts().topics());
    let mut info = json!({
        "account_name": name,
        "update_time": go_time::rfc3339(front.started()),
        "expired": false,
        "complete": true,
        "jetstream_enabled": has_jetstream,
        "leafnode_connections": 0,
        "client_connections": account.connections(),
        "subscriptions": account.subscriptions(),
        "name_tag": name,
        "sublist_stats": statistics(front),
    });
    if is_system {
        info["is_system"] = json!(true);
    }
    if let Some(defined) = account.defined() {
        let definition = defined.definition();
        let exports: Vec<_> = definition.exports.iter().map(describe_export).collect();
        let imports: Vec<_> =
            definition.imports.iter().map(|import| describe_import(&defined, import)).collect();
        info["complete"] = json!(imports.iter().all(|import| import["invalid"] == false));
        for (key, list) in [("exports", exports), ("imports", imports)] {
            if !list.is_empty() {
                info[key] = json!(list);
            }
        }
    }
    let operator = front.auth().operator();
    if let Some(token) = operator.and_then(|operator| operator.token(name)) {
        add_claims(&mut info, &token);
    }
    Some(info)
}

fn describe_export(export: &Export) -> Value {
    let mut described = json!({ "subject": &*export.subject, "type": kind(export.kind) });
    match &export.access {
        ExportAccess::Public => {}
        ExportAccess::Accounts(accounts) => {
            described["approved_accounts"] = accounts.iter().map(ToString::to_string).collect();
        }
        ExportAccess::Token => described["token_req"] = json!(true),
        ExportAccess::TokenPosition(position) => described["account_token_position"] = json!(position),
    }
    if export.kind == ShareKind::Service {
        described["response_type"] = json!(match export.response {
            Response::Singleton => "Singleton",
            Response::Stream => "Streamed",
            Response::Chunked => "Chunked",
        });
    }
    described
}

fn describe_import(importer: &Defined, import: &Import) -> Value {
    let text = |pattern: &[u8]| String::from_utf8_lossy(pattern).into_owned();
    let local = text(import.local());
    let mut described = json!({
        "subject": text(import.exported()),
        "account": import.account.as_str(),
        "type": kind(import.kind),
        "local_subject": local,
        "invalid": !importer.has_in_force(import),
        "share": import.share,
        "tracking": false,
    });
    if import.kind == ShareKind::Service {
        described["to"] = json!(local);
    }
    described
}

fn kind(kind: ShareKind) -> &'static str {
    match kind {
        ShareKind::Stream => "stream",
        ShareKind::Service => "service",
    }
}

/// Adds what the account's token says. Its signature was checked when it came.
fn add_claims(info: &mut Value, token: &str) {
    info["jwt"] = json!(token);
    let body = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims = body.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    let Some(claims) = claims else { return };
    info["issuer_key"] = claims["iss"].clone();
    if let Some(name) = claims["name"].as_str().filter(|name| !name.is_empty()) {
        info["name_tag"] = json!(name);
    }
    if claims["nats"]["tags"].as_array().is_some_and(|tags| !tags.is_empty()) {
        info["tags"] = claims["nats"]["tags"].clone();
    }
    if let Some(revoked) = claims["nats"]["revocations"].as_object() {
        let time = |at: &Value| {
            json!(go_time::rfc3339_after_epoch(Duration::from_secs(at.as_u64().unwrap_or_default())))
        };
        info["revoked_user"] = revoked.iter().map(|(key, at)| (key.clone(), time(at))).collect();
    }
    info["decoded_jwt"] = claims;
}

/// Accounts without connections are left out, unless there is only one, or `unused` asks for them. `acc`
/// names accounts, with blanks between. The messages are counted for all accounts together, and shown only
/// if there is only one.
pub(super) fn accstatz(front: &NatsFront, query: &Query) -> Result<Value, BadQuery> {
    let unused = query.truth("unused")?;
    let (server_id, now) = head(front);
    let all = front.accounts().all();
    let wanted: Vec<_> = query.text("acc").split_whitespace().collect();
    let is_shown = |account: &Account| {
        let is_wanted = wanted.is_empty() || wanted.contains(&&**account.name());
        is_wanted && (all.len() == 1 || unused || account.connections() > 0)
    };
    let shown = all.iter().filter(|account| is_shown(account));
    let accounts: Vec<_> = shown.map(|account| account_statistics(front, account)).collect();
    Ok(json!({ "server_id": server_id, "now": now, "account_statz": accounts }))
}

/// The numbers of one account.
pub(crate) fn account_statistics(front: &NatsFront, account: &Account) -> Value {
    let metrics = front.metrics();
    let is_only_one = front.accounts().all().len() == 1;
    let flow = |messages: u64, bytes: u64| {
        let none = || json!({ "msgs": 0, "bytes": 0 });
        let (messages, bytes) = if is_only_one { (messages, bytes) } else { (0, 0) };
        json!({ "msgs": messages, "bytes": bytes, "gateways": none(), "routes": none(), "leafs": none() })
    };
    json!({
        "acc": &**account.name(),
        "name": &**account.name(),
        "conns": account.connections(),
        "leafnodes": 0,
        "total_conns": account.connections(),
        "num_subscriptions": account.subscriptions(),
        "sent": flow(metrics.messages_out.get(), metrics.bytes_out.get()),
        "received": flow(metrics.messages_in.get(), metrics.bytes_in.get()),
        "slow_consumers": if is_only_one { metrics.slow_consumers.get() } else { 0 },
    })
}
