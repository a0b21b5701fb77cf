//! Pages about the other nodes, and features that tailrace lacks (gateways, leaf nodes). They are
//! well-formed, so that tools that read all pages work.

use std::sync::atomic::{AtomicU64, Ordering};
use tailrace_env::time::WallTime;

use serde_json::{Value, json};

use super::query::{BadQuery, Query};
use crate::front::NatsFront;
use crate::go_time;
use crate::routes::RemoteNode;

/// The first fields of every page.
pub(super) fn head(front: &NatsFront) -> (String, String) {
    (front.server_info().server_id.clone(), go_time::rfc3339(WallTime::now()))
}

pub(super) fn routez(front: &NatsFront, query: &Query) -> Result<Value, BadQuery> {
    if !query.text("subs").eq_ignore_ascii_case("detail") {
        query.truth("subs")?;
    }
    let (server_id, now) = head(front);
    let server_name = &front.server_info().server_name;
    let routes: Vec<_> =
        front.accounts().routes().known_nodes().iter().map(|node| route(front, node)).collect();
    Ok(json!({
        "server_id": server_id,
        "server_name": server_name,
        "now": now,
        "num_routes": routes.len(),
        "routes": routes,
    }))
}

/// Describes the link from another node, and what is sent to that node over the link to it.
fn route(front: &NatsFront, node: &RemoteNode) -> Value {
    let routes = front.accounts().routes();
    let up = WallTime::now().duration_since(node.since);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    json!({
        "rid": node.id.get(),
        "remote_id": node.id.to_string(),
        "remote_name": format!("tailrace-{}", node.id),
        "did_solicit": false,
        "is_configured": false,
        "ip": "",
        "port": 0,
        "start": go_time::rfc3339(node.since),
        "uptime": go_time::uptime(up),
        "pending_size": routes.peers().map_or(0, |peers| peers.nats_pending(node.id)),
        "in_msgs": count(&node.messages_in),
        "out_msgs": count(&node.messages_out),
        "in_bytes": count(&node.bytes_in),
        "out_bytes": count(&node.bytes_out),
        "subscriptions": node.interest.get(),
    })
}

pub(super) fn gatewayz(front: &NatsFront, query: &Query) -> Result<Value, BadQuery> {
    query.truth("accs")?;
    let (server_id, now) = head(front);
    Ok(json!({ "server_id": server_id, "now": now, "outbound_gateways": {}, "inbound_gateways": {} }))
}

pub(super) fn leafz(front: &NatsFront, query: &Query) -> Result<Value, BadQuery> {
    query.truth("subs")?;
    let (server_id, now) = head(front);
    Ok(json!({ "server_id": server_id, "now": now, "leafnodes": 0, "leafs": [] }))
}

/// nats-server's internal queues, of which tailrace has none. The metrics show what waits where.
pub(super) fn ipqueuesz(query: &Query) -> Result<Value, BadQuery> {
    query.truth("all")?;
    Ok(json!({}))
}
