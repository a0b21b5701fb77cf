//! A client as events of the system account, and services of other accounts, are told of it.

use serde_json::{Value, json};
use tailrace_nats_wire::ConnectOptions;

use crate::client::{Client, TransportKind};
use crate::go_time::rfc3339;

/// Describes a client by what the server knows of it, without any secret: no claims (JWT) either, since those
/// of a bearer are as good as a password. `said` is its CONNECT.
pub(crate) fn describe(client: &Client, said: Option<&ConnectOptions>) -> Value {
    let mut info = json!({
        "start": rfc3339(client.started),
        "host": client.peer.ip().to_canonical().to_string(),
        "id": client.id,
        "acc": client.account(),
        "kind": "Client",
        "client_type": match client.transport {
            TransportKind::Plain | TransportKind::Tls => "nats",
            TransportKind::WebSocket => "websocket",
        },
    });
    if let Some(permissions) = client.permissions() {
        if let Some(user) = permissions.shown_user() {
            info["user"] = json!(user);
        }
        if let Some(claimed) = permissions.claimed() {
            info["issuer_key"] = json!(claimed.issuer());
            if !claimed.tags().is_empty() {
                info["tags"] = json!(claimed.tags());
            }
        }
    }
    if let Some(said) = said {
        for (key, value) in [("name", &said.name), ("lang", &said.lang), ("ver", &said.version)] {
            if !value.is_empty() {
                info[key] = json!(value);
            }
        }
    }
    info
}
