//! The WebSocket settings of the NATS front.

use tailrace_config::BrokerConfig;

use super::WebSocketLimits;
use super::cookies::CookieNames;
use super::handshake::Policy;

/// The WebSocket settings of the NATS front.
#[derive(Debug)]
pub struct WebSocketFront {
    pub(super) policy: Policy,
    pub(super) limits: WebSocketLimits,
    pub(super) cookies: CookieNames,
}

impl WebSocketFront {
    /// Takes the settings. `None` if WebSocket is switched off.
    pub(crate) fn of(config: &BrokerConfig) -> Option<Self> {
        let policy = Policy {
            compression: config.tailrace_nats_websocket_compression,
            origins: config.tailrace_nats_websocket_origins.clone(),
            own_host: config.http.rsplit_once(':').map_or("", |(host, _)| host).to_ascii_lowercase(),
            secure: config.tailrace_http_tls,
        };
        let payload_max = config.tailrace_nats_max_payload_bytes as usize;
        let limits = WebSocketLimits::of(payload_max);
        config.tailrace_nats_websocket.then_some(Self { policy, limits, cookies: CookieNames::of(config) })
    }

    /// Reports whether the listener uses TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.policy.secure
    }
}
