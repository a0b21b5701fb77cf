//! Events of connections, published in the system account. They are made only if somebody listens there.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tailrace_env::time::WallTime;
use tailrace_nats_wire::{ConnectOptions, Message};

use super::{name_tag, server};
use crate::client::Client;
use crate::client_info::describe;
use crate::close::CloseReason;
use crate::front::NatsFront;
use crate::go_time::rfc3339;
use crate::monitor;
use crate::speaker::Speaker;

const CONNECT: &str = "io.nats.server.advisory.v1.client_connect";
const DISCONNECT: &str = "io.nats.server.advisory.v1.client_disconnect";
const CONNECTIONS: &str = "io.nats.server.advisory.v1.account_connections";

/// Tells that a client has logged in.
pub(crate) async fn connected(front: &NatsFront, client: &Client) {
    publish(front, &format!("$SYS.ACCOUNT.{}.CONNECT", client.account()), || {
        let mut info = describe(client, client.said().as_deref());
        info["name_tag"] = json!(name_tag(front, client.account()));
        event(front, CONNECT, json!({ "client": info }))
    })
    .await;
    count_again(front, client.account()).await;
}

/// Tells that a client that has logged in is gone.
pub(crate) async fn disconnected(front: &NatsFront, client: &Client, reason: CloseReason) {
    publish(front, &format!("$SYS.ACCOUNT.{}.DISCONNECT", client.account()), || {
        ended(front, client, describe(client, client.said().as_deref()), reason)
    })
    .await;
    count_again(front, client.account()).await;
}

/// Tells that a client was not let in. `said` is what it has presented.
pub(crate) async fn refused(front: &NatsFront, client: &Client, said: &ConnectOptions, reason: CloseReason) {
    let subject = format!("$SYS.SERVER.{}.CLIENT.AUTH.ERR", front.server_info().server_id);
    publish(front, &subject, || {
        let mut info = describe(client, Some(said));
        // The name that it claims to have. A token is a secret, and is not shown.
        if let Some(user) = said.user.as_ref().or(said.nkey.as_ref()).filter(|user| !user.is_empty()) {
            info["user"] = json!(user);
        }
        ended(front, client, info, reason)
    })
    .await;
}

/// Tells how many connections an account has, on two subjects as nats-server does.
pub(super) async fn count_again(front: &NatsFront, account: &str) {
    for subject in
        [format!("$SYS.ACCOUNT.{account}.SERVER.CONNS"), format!("$SYS.SERVER.ACCOUNT.{account}.CONNS")]
    {
        publish(front, &subject, || connections(front, account).unwrap_or_default()).await;
    }
}

/// Describes how many connections an account has. `None` if there is no such account.
pub(super) fn connections(front: &NatsFront, account: &str) -> Option<Value> {
    let account = front.accounts().find(account)?;
    Some(event(front, CONNECTIONS, monitor::account_statistics(front, &account)))
}

pub(super) async fn publish(front: &NatsFront, subject: &str, body: impl FnOnce() -> Value) {
    let Some(account) = front.accounts().system() else { return };
    let subject = subject.as_bytes();
    if !account.router().reaches_anybody(subject) {
        return;
    }
    let payload = body().to_string().into_bytes();
    let message = Message { subject, reply: None, headers: None, payload: &payload };
    Speaker::new(front).say(account.router(), &message).await;
}

fn event(front: &NatsFront, kind: &str, fields: Value) -> Value {
    let id: String = tailrace_env::random::bytes16().iter().map(|byte| format!("{byte:02X}")).collect();
    let mut event = json!({
        "type": kind,
        "id": id,
        "timestamp": rfc3339(WallTime::now()),
        "server": server(front),
    });
    if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), fields) {
        event.extend(fields);
    }
    event
}

fn ended(front: &NatsFront, client: &Client, mut info: Value, reason: CloseReason) -> Value {
    info["stop"] = json!(rfc3339(WallTime::now()));
    info["name_tag"] = json!(name_tag(front, client.account()));
    let round_trip_us = client.counts.round_trip_us.load(Ordering::Relaxed);
    if round_trip_us > 0 {
        info["rtt"] = json!(round_trip_us.saturating_mul(1000));
    }
    let (messages_out, bytes_out) = client.sent();
    let (messages_in, bytes_in) = client.received();
    // As in nats-server: what the client has sent, and received.
    let fields = json!({
        "client": info,
        "sent": { "msgs": messages_in, "bytes": bytes_in },
        "received": { "msgs": messages_out, "bytes": bytes_out },
        "reason": reason.to_string(),
    });
    event(front, DISCONNECT, fields)
}
