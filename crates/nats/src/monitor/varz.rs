//! `/varz`: the server as a whole.

use tailrace_env::time::WallTime;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tailrace_nats_wire::ServerInfo;

use super::remembered::Monitor;
use super::{jetstream, process};
use crate::close::CloseReason;
use crate::go_time;
use crate::server::NatsServer;
use tailrace_env::metrics::ReasonLabel;

/// Fields in nats-server's order.
pub(super) struct Varz(Vec<(&'static str, Value)>);

impl Serialize for Varz {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Makes the page. Features that tailrace lacks are empty objects, as in nats-server if they are not
/// configured.
pub(super) fn page(server: &NatsServer, monitor: &Monitor) -> Varz {
    let mut fields = identity(server.front.server_info());
    fields.extend(settings(server));
    let urls = server.front.addresses().connect_urls(false);
    fields.extend((!urls.is_empty()).then(|| ("connect_urls", urls.into())));
    fields.extend(state(server, monitor));
    Varz(fields)
}

fn identity(info: &ServerInfo) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("server_id", info.server_id.as_str().into()),
        ("server_name", info.server_name.as_str().into()),
        ("version", info.version.as_str().into()),
        ("proto", info.proto.into()),
        ("go", info.go.as_str().into()),
        ("host", info.host.as_str().into()),
        ("port", info.port.into()),
    ];
    let flags = [
        ("auth_required", info.auth_required),
        ("tls_required", info.tls_required),
        ("tls_verify", info.tls_verify),
    ];
    fields.extend(flags.into_iter().filter(|(_, on)| *on).map(|(name, on)| (name, on.into())));
    fields
}

fn settings(server: &NatsServer) -> Vec<(&'static str, Value)> {
    let config = server.node.config();
    let limits = server.front.limits();
    let (http_host, http_port) = config.http.rsplit_once(':').unwrap_or((&config.http, ""));
    let nanoseconds = |ms: u64| ms.saturating_mul(1_000_000);
    let none = || json!({});
    vec![
        ("max_connections", limits.connections_max.into()),
        ("max_subscriptions", limits.subscriptions_max.into()),
        ("ping_interval", nanoseconds(config.tailrace_nats_ping_interval_ms).into()),
        ("ping_max", limits.pings_max.into()),
        ("http_host", http_host.into()),
        ("http_port", http_port.parse::<u16>().unwrap_or(0).into()),
        ("http_base_path", "".into()),
        ("https_port", 0.into()),
        ("auth_timeout", (config.tailrace_nats_auth_timeout_ms as f64 / 1e3).into()),
        ("max_control_line", limits.control_line_max.into()),
        ("max_payload", limits.payload_max.into()),
        ("max_pending", config.tailrace_nats_max_pending_bytes.into()),
        ("cluster", cluster(server)),
        ("gateway", none()),
        ("leaf", none()),
        ("mqtt", none()),
        ("websocket", none()),
        ("jetstream", jetstream::varz(server)),
        ("tls_timeout", 2.into()),
        ("write_deadline", nanoseconds(config.tailrace_nats_write_deadline_ms).into()),
    ]
}

/// nats-server's flags, all of which concern JetStream.
fn feature_flags() -> Value {
    json!({
        "js_ack_fc_v2": false,
        "js_api_reply_v2": false,
        "js_raft_delete_range": false,
        "js_snapshot_sources": false,
    })
}

/// Describes the cluster. Empty in a standalone server.
fn cluster(server: &NatsServer) -> Value {
    match &*server.front.addresses().cluster {
        "" => json!({}),
        name => json!({ "name": name, "addr": server.node.config().cluster_listen }),
    }
}

fn state(server: &NatsServer, monitor: &Monitor) -> Vec<(&'static str, Value)> {
    let front = &server.front;
    let metrics = front.metrics();
    let now = WallTime::now();
    let up = now.duration_since(front.started());
    let started = go_time::rfc3339(front.started());
    let (in_messages, in_bytes) = (metrics.messages_in.get(), metrics.bytes_in.get());
    let (out_messages, out_bytes) = (metrics.messages_out.get(), metrics.bytes_out.get());
    let slow = metrics.slow_consumers.get();
    let reason = CloseReason::Stale.label();
    let stale = metrics.connections_cut.get_or_create(&ReasonLabel { reason }).get();
    let by_kind = |clients: u64| json!({ "clients": clients, "routes": 0, "gateways": 0, "leafs": 0 });
    let routes = front.accounts().routes();
    let nodes = routes.known_nodes();
    let of_nodes: usize = nodes.iter().map(|node| node.interest.size()).sum();
    let ours = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "kafka_connections": server.kafka_connections.get(),
        "interest_told": routes.told(),
        "interest_of_nodes": of_nodes,
    });
    vec![
        ("start", started.as_str().into()),
        ("now", go_time::rfc3339(now).into()),
        ("uptime", go_time::uptime(up).into()),
        ("mem", process::resident_bytes().into()),
        ("cores", process::cores().into()),
        ("gomaxprocs", process::cores().into()),
        ("cpu", monitor.cpu.percent().into()),
        ("connections", metrics.connections.get().into()),
        ("total_connections", metrics.connections_accepted.get().into()),
        ("routes", nodes.len().into()),
        ("remotes", nodes.len().into()),
        ("leafnodes", 0.into()),
        ("in_msgs", in_messages.into()),
        ("in_bytes", in_bytes.into()),
        ("in_client_msgs", in_messages.into()),
        ("in_client_bytes", in_bytes.into()),
        ("out_msgs", out_messages.into()),
        ("out_bytes", out_bytes.into()),
        ("out_client_msgs", out_messages.into()),
        ("out_client_bytes", out_bytes.into()),
        ("slow_consumers", slow.into()),
        ("stale_connections", stale.into()),
        ("stalled_clients", metrics.stalls.get().into()),
        ("subscriptions", metrics.subscriptions.get().into()),
        ("http_req_stats", json!(monitor.request_counts())),
        ("config_load_time", started.into()),
        ("config_digest", "".into()),
        ("feature_flags", feature_flags()),
        ("slow_consumer_stats", by_kind(slow)),
        ("stale_connection_stats", by_kind(stale)),
        ("tailrace", ours),
    ]
}
