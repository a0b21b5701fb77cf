//! Options of a proxy.

use std::net::SocketAddr;
use std::time::Duration;

use super::trouble::Trouble;

/// Options of a proxy.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// The address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The address to forward to, `HOST:PORT`.
    pub upstream: String,
    /// Trouble on the way from client to server.
    pub to_server: Trouble,
    /// Trouble on the way back.
    pub to_client: Trouble,
    /// Times at which all connections are reset, since the start, ascending.
    pub resets: Vec<Duration>,
    /// The seed of all randomness.
    pub seed: u64,
}
