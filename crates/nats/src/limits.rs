//! Limits of NATS connections.

use tailrace_env::time::Duration;

use tailrace_config::BrokerConfig;
use tailrace_types::usize_of;

use crate::outbuf::OutLimits;

/// Bytes of waiting output at which publishers are slowed. A consumer is busy with them while its publishers
/// wait, and they take little memory.
const SLOW_AT_BYTES: usize = 1024 * 1024;

/// Limits of every connection, fixed at start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NatsLimits {
    pub(crate) control_line_max: usize,
    pub(crate) payload_max: usize,
    pub(crate) connections_max: usize,
    pub(crate) subscriptions_max: usize,
    /// Most shapes of patterns of one connection.
    pub(crate) shapes_max: usize,
    pub(crate) ping_interval: Duration,
    pub(crate) pings_max: u32,
    pub(crate) auth_timeout: Duration,
    pub(crate) lame_duck_duration: Duration,
    pub(crate) lame_duck_grace: Duration,
    pub(crate) out: OutLimits,
}

impl NatsLimits {
    pub(crate) fn of(config: &BrokerConfig) -> Self {
        let size = |bytes: u64| usize_of(bytes);
        let payload_max = size(config.tailrace_nats_max_payload_bytes.into());
        let pending_max = size(config.tailrace_nats_max_pending_bytes);
        Self {
            control_line_max: size(config.tailrace_nats_max_control_line_bytes.into()),
            payload_max,
            connections_max: size(config.tailrace_nats_max_connections.into()),
            subscriptions_max: size(config.tailrace_nats_max_subscriptions.into()),
            shapes_max: size(config.tailrace_nats_max_subscription_shapes.into()),
            ping_interval: Duration::from_millis(config.tailrace_nats_ping_interval_ms),
            pings_max: config.tailrace_nats_ping_max,
            auth_timeout: Duration::from_millis(config.tailrace_nats_auth_timeout_ms),
            lame_duck_duration: Duration::from_millis(config.tailrace_nats_lame_duck_duration_ms),
            lame_duck_grace: Duration::from_millis(config.tailrace_nats_lame_duck_grace_ms),
            out: OutLimits {
                pending_max,
                slow_at: SLOW_AT_BYTES.min(pending_max / 4 * 3),
                write_deadline: Duration::from_millis(config.tailrace_nats_write_deadline_ms),
            },
        }
    }
}
