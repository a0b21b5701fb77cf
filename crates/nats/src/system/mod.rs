//! What the server itself says and answers on NATS, under `$SYS.`: events of connections for the system
//! account, and requests.
//!
//! Only the node answers to which the client is connected.

mod events;
mod requests;

use serde_json::{Value, json};
use tailrace_env::time::WallTime;

pub(crate) use self::events::{connected, disconnected, refused};
pub(crate) use self::requests::{Question, Questions, answer};
use crate::front::NatsFront;
use crate::monitor::rfc3339;

/// Describes the server, as every event and answer does.
fn server(front: &NatsFront) -> Value {
    let info = front.server_info();
    json!({
        "name": info.server_name,
        "host": info.host,
        "id": info.server_id,
        "ver": info.version,
        "jetstream": false,
        "time": rfc3339(WallTime::now()),
    })
}
