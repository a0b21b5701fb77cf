//! What a proxy is told.

use std::net::SocketAddr;
use std::time::Duration;

use super::trouble::Trouble;

/// What a proxy does.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Where it listens; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where it forwards to, `HOST:PORT`.
    pub upstream: String,
    /// Trouble on the way from client to server.
    pub to_server: Trouble,
    /// Trouble on the way back.
    pub to_client: Trouble,
    /// When all connections are reset, since the beginning, in rising order.
    pub resets: Vec<Duration>,
    /// What all chance is made of.
    pub seed: u64,
}
