//! Events of connections, published in the system account. They are made only if somebody listens there.

use serde_json::{Value, json};
use tailrace_env::time::WallTime;
use tailrace_nats_wire::Message;

use super::server;
use crate::burst::Burst;
use crate::client::Client;
use crate::close::CloseReason;
use crate::front::NatsFront;
use crate::monitor::rfc3339;

const CONNECT: &str = "io.nats.server.advisory.v1.client_connect";
const DISCONNECT: &str = "io.nats.server.advisory.v1.client_disconnect";

/// Tells that a client has logged in.
pub(crate) fn connected(front: &NatsFront, client: &Client) {
    publish(front, &format!("$SYS.ACCOUNT.{}.CONNECT", client.account()), || {
        event(front, CONNECT, json!({ "client": describe(client, false) }))
    });
}

/// Tells that a client that has logged in is gone.
pub(crate) fn disconnected(front: &NatsFront, client: &Client, reason: CloseReason) {
    publish(front, &format!("$SYS.ACCOUNT.{}.DISCONNECT", client.account()), || ended(front, client, reason));
}

/// Tells that a client was not let in.
pub(crate) fn refused(front: &NatsFront, client: &Client, reason: CloseReason) {
    let subject = format!("$SYS.SERVER.{}.CLIENT.AUTH.ERR", front.server_info().server_id);
    publish(front, &subject, || ended(front, client, reason));
}

fn publish(front: &NatsFront, subject: &str, body: impl FnOnce() -> Value) {
    let Some(account) = front.accounts().system() else { return };
    let subject = subject.as_bytes();
    if !account.router().reaches_anybody(subject) {
        return;
    }
    let payload = body().to_string().into_bytes();
    let message = Message { subject, reply: None, headers: None, payload: &payload };
    let mut burst = Burst::default();
    account.router().publish(&mut burst, &message, |_| {});
    front.crossed(&mut burst, &message);
    burst.finish(front.metrics());
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

fn ended(front: &NatsFront, client: &Client, reason: CloseReason) -> Value {
    let (messages_out, bytes_out) = client.sent();
    let (messages_in, bytes_in) = client.received();
    let fields = json!({
        "client": describe(client, true),
        "sent": { "msgs": messages_out, "bytes": bytes_out },
        "received": { "msgs": messages_in, "bytes": bytes_in },
        "reason": reason.to_string(),
    });
    event(front, DISCONNECT, fields)
}

/// Describes a client, without any secret.
fn describe(client: &Client, is_over: bool) -> Value {
    let mut info = json!({
        "start": rfc3339(client.started),
        "host": client.peer.ip().to_canonical().to_string(),
        "id": client.id,
        "acc": client.account(),
        "kind": "Client",
    });
    if is_over {
        info["stop"] = json!(rfc3339(WallTime::now()));
    }
    if let Some(user) = client.permissions().and_then(|permissions| permissions.user().name()) {
        info["user"] = json!(&**user);
    }
    if let Some(said) = client.said() {
        for (key, value) in [("name", &said.name), ("lang", &said.lang), ("ver", &said.version)] {
            if !value.is_empty() {
                info[key] = json!(value);
            }
        }
    }
    info
}
