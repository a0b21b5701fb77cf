//! The properties that a server announces in INFO.

use serde::{Deserialize, Serialize};

/// The fields of INFO, in nats-server's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerInfo {
    /// A new id for each start of the server.
    pub server_id: String,
    /// The server's name.
    pub server_name: String,
    /// Semantic version of the server. Clients use it to decide which features they may use.
    pub version: String,
    /// Version of the protocol: 1.
    pub proto: i64,
    /// The commit from which the server was built.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub git_commit: String,
    /// Version of Go. tailrace sends the version of Rust.
    pub go: String,
    /// The host on which the server listens.
    pub host: String,
    /// The port on which the server listens.
    pub port: u16,
    /// Whether the server supports headers.
    pub headers: bool,
    /// Whether clients need credentials.
    #[serde(skip_serializing_if = "is_false")]
    pub auth_required: bool,
    /// Whether the client must upgrade the connection to TLS.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_required: bool,
    /// Whether the client needs a certificate.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_verify: bool,
    /// Whether the client may upgrade the connection to TLS.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_available: bool,
    /// Most bytes of headers and payload of one message.
    pub max_payload: usize,
    /// Whether JetStream's API is served.
    #[serde(skip_serializing_if = "is_false")]
    pub jetstream: bool,
    /// Number of this connection.
    #[serde(skip_serializing_if = "is_zero")]
    pub client_id: u64,
    /// The client's address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_ip: String,
    /// The nonce that clients with an nkey sign.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nonce: String,
    /// Name of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Other client addresses of the same cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_urls: Vec<String>,
    /// Lame duck mode: the server is about to stop.
    #[serde(skip_serializing_if = "is_false")]
    pub ldm: bool,
    /// True in the INFO that answers CONNECT.
    #[serde(skip_serializing_if = "is_false")]
    pub connect_info: bool,
    /// Level of JetStream's API.
    #[serde(skip_serializing_if = "is_zero")]
    pub api_lvl: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(truth: &bool) -> bool {
    !truth
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
