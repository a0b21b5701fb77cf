//! What a server says of itself in INFO.

use serde::{Deserialize, Serialize};

/// The fields of INFO, in nats-server's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerInfo {
    /// Unique for each start.
    pub server_id: String,
    /// Its name.
    pub server_name: String,
    /// Semantic version; clients decide by it what they may use.
    pub version: String,
    /// 1.
    pub proto: i64,
    /// Commit it was built from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub git_commit: String,
    /// Version of Go; of Rust here.
    pub go: String,
    /// Where it listens.
    pub host: String,
    /// Where it listens.
    pub port: u16,
    /// It carries headers.
    pub headers: bool,
    /// Credentials are needed.
    #[serde(skip_serializing_if = "is_false")]
    pub auth_required: bool,
    /// The connection must go on in TLS.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_required: bool,
    /// The client needs a certificate.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_verify: bool,
    /// The connection may go on in TLS.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_available: bool,
    /// Bytes of headers and payload of one message, at most.
    pub max_payload: usize,
    /// JetStream's API is served.
    #[serde(skip_serializing_if = "is_false")]
    pub jetstream: bool,
    /// Number of this connection.
    #[serde(skip_serializing_if = "is_zero")]
    pub client_id: u64,
    /// Address of the client.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_ip: String,
    /// To be signed by clients with an nkey.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nonce: String,
    /// Name of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Other addresses of the same cluster.
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
