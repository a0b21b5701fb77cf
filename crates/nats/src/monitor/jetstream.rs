//! What pages tell of JetStream. What is in streams is not added up: their leaders, which may be other nodes,
//! would have to be asked.

use serde_json::{Value, json};

use super::others::head;
use super::query::{BadQuery, Query};
use crate::server::NatsServer;

/// Makes `/jsz`: without JetStream as nats-server without it.
pub(super) fn jsz(server: &NatsServer, query: &Query) -> Result<Value, BadQuery> {
    for option in ["accounts", "streams", "consumers", "config", "leader-only"] {
        query.truth(option)?;
    }
    query.count("offset")?;
    query.count("limit")?;
    let (server_id, now) = head(&server.front);
    let Some(jetstream) = server.front.jetstream() else {
        return Ok(json!({
            "memory": 0,
            "storage": 0,
            "reserved_memory": 0,
            "reserved_storage": 0,
            "accounts": 0,
            "ha_assets": 0,
            "api": { "level": 0, "total": 0, "errors": 0 },
            "server_id": server_id,
            "now": now,
            "disabled": true,
            "config": { "max_memory": 0, "max_storage": 0 },
            "streams": 0,
            "consumers": 0,
            "messages": 0,
            "bytes": 0,
            "total": 0,
        }));
    };
    let mut page = stats(server).unwrap_or_default();
    page["server_id"] = server_id.into();
    page["now"] = now.into();
    page["config"] = json!({ "max_memory": -1, "max_storage": -1 });
    page["streams"] = jetstream.count_streams(&server.node.image()).into();
    page["consumers"] = 0.into();
    page["total"] = 1.into();
    Ok(page)
}

/// The part of `/varz`. Empty without JetStream.
pub(super) fn varz(server: &NatsServer) -> Value {
    let Some(stats) = stats(server) else { return json!({}) };
    json!({ "config": { "max_memory": -1, "max_storage": -1 }, "stats": stats })
}

fn stats(server: &NatsServer) -> Option<Value> {
    let api = server.front.jetstream()?.api_stats(0);
    Some(json!({
        "memory": 0,
        "reserved_memory": 0,
        "reserved_storage": 0,
        "accounts": 1,
        "ha_assets": 0,
        "api": api,
    }))
}
