//! A connection as `/connz` shows it.

use std::sync::atomic::Ordering;
use tailrace_env::time::WallTime;

use serde::Serialize;

use super::subscription_info::SubscriptionInfo;
use crate::client::{Client, TransportKind};
use crate::go_time;

/// One connection, with nats-server's field names in its order.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ConnInfo {
    pub(super) cid: u64,
    pub(super) kind: &'static str,
    #[serde(rename = "type")]
    pub(super) protocol: &'static str,
    pub(super) ip: String,
    pub(super) port: u16,
    pub(super) start: String,
    pub(super) last_activity: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rtt: Option<String>,
    pub(super) uptime: String,
    pub(super) idle: String,
    pub(super) pending_bytes: usize,
    pub(super) in_msgs: u64,
    pub(super) out_msgs: u64,
    pub(super) in_bytes: u64,
    pub(super) out_bytes: u64,
    pub(super) subscriptions: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) lang: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) authorized_user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subscriptions_list: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subscriptions_list_detail: Option<Vec<SubscriptionInfo>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name_tag: Option<String>,
}

/// The user's name, if the client had to authenticate.
pub(super) fn user_of(client: &Client) -> Option<String> {
    client.permissions().and_then(|permissions| permissions.shown_user().map(str::to_owned))
}

pub(super) fn subscriptions_of(client: &Client) -> usize {
    client.counts.subscriptions.load(Ordering::Relaxed)
}

/// Describes an open connection.
pub(super) fn describe(client: &Client, now: WallTime) -> ConnInfo {
    let said = client.said();
    let said = |field: fn(&tailrace_nats_wire::ConnectOptions) -> &String| {
        said.as_deref().map_or_else(String::new, |options| field(options).clone())
    };
    let (out_msgs, out_bytes) = client.sent();
    let round_trip = client.counts.round_trip_us.load(Ordering::Relaxed);
    let last = client.last_activity();
    ConnInfo {
        cid: client.id,
        kind: "Client",
        protocol: match client.transport {
            TransportKind::Plain | TransportKind::Tls => "nats",
            TransportKind::WebSocket => "websocket",
        },
        ip: client.peer.ip().to_canonical().to_string(),
        port: client.peer.port(),
        start: go_time::rfc3339(client.started),
        last_activity: go_time::rfc3339(last),
        stop: None,
        reason: None,
        rtt: (round_trip > 0).then(|| go_time::duration(round_trip)),
        uptime: go_time::uptime(now.duration_since(client.started)),
        idle: go_time::uptime(now.duration_since(last)),
        pending_bytes: client.pending_bytes(),
        in_msgs: client.counts.messages_in.load(Ordering::Relaxed),
        out_msgs,
        in_bytes: client.counts.bytes_in.load(Ordering::Relaxed),
        out_bytes,
        subscriptions: subscriptions_of(client),
        name: said(|options| &options.name),
        lang: said(|options| &options.lang),
        version: said(|options| &options.version),
        authorized_user: None,
        account: None,
        subscriptions_list: None,
        subscriptions_list_detail: None,
        name_tag: None,
    }
}
