//! What the server itself says and answers on NATS, under `$SYS.`: events of connections for the system
//! account, and requests.
//!
//! Only the node answers to which the client is connected.

mod clients;
mod events;
mod regular;
mod requests;
mod wanted;

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tailrace_env::time::WallTime;

pub(crate) use self::events::{connected, disconnected, refused};
pub use self::regular::{announce_retirement, announce_stop, report_regularly};
pub(crate) use self::requests::{Question, Questions, answer};
use crate::front::NatsFront;
use crate::go_time::rfc3339;

/// Describes the server, as every event and answer does.
fn server(front: &NatsFront) -> Value {
    let info = front.server_info();
    let mut server = json!({
        "name": info.server_name,
        "host": info.host,
        "id": info.server_id,
        "ver": info.version,
        "jetstream": info.jetstream,
        "flags": 0,
        "seq": front.monitor().said.fetch_add(1, Ordering::Relaxed) + 1,
        "time": rfc3339(WallTime::now()),
    });
    let addresses = front.addresses();
    if !addresses.cluster.is_empty() {
        server["cluster"] = json!(addresses.cluster);
    }
    server
}

/// The name of an account that people know: the one in its claims, with an operator.
fn name_tag(front: &NatsFront, account: &str) -> String {
    let claimed = front.auth().operator().and_then(|operator| operator.name_of(account));
    claimed.unwrap_or_else(|| account.to_owned())
}
