//! How clients come by WebSocket, as the settings say.

use tailrace_config::BrokerConfig;

use super::WebSocketLimits;
use super::handshake::Policy;

/// How clients come by WebSocket.
#[derive(Debug)]
pub struct WebSocketFront {
    pub(super) policy: Policy,
    pub(super) limits: WebSocketLimits,
}

impl WebSocketFront {
    /// `None` if the settings say so.
    pub(crate) fn of(config: &BrokerConfig) -> Option<Self> {
        let policy = Policy {
            compression: config.tailrace_nats_websocket_compression,
            origins: config.tailrace_nats_websocket_origins.clone(),
            own_host: config.http.rsplit_once(':').map_or("", |(host, _)| host).to_ascii_lowercase(),
            secure: config.tailrace_http_tls,
        };
        let payload_max = config.tailrace_nats_max_payload_bytes as usize;
        let limits = WebSocketLimits::of(payload_max);
        config.tailrace_nats_websocket.then_some(Self { policy, limits })
    }

    /// True if TLS lies below.
    pub(crate) fn is_secure(&self) -> bool {
        self.policy.secure
    }
}
