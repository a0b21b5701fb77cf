//! State shared by all Kafka connections of a server.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tailrace_env::time::Duration;

use tailrace_config::BrokerConfig;

use super::fetch_session::FetchSessions;
use crate::half_read::HalfRead;
use crate::metrics::KafkaMetrics;
use tailrace_env::aside::Aside;
use tailrace_env::budget::RequestBudget;
use tailrace_node::Node;
use tailrace_tls::Tls;
use tailrace_types::usize_of;

/// Memory for the large frames of all clients that have not logged in yet, if `queued.max.request.bytes` is
/// not less. Messages of logins are far smaller than a frame that needs memory from here, except for tokens
/// with very many claims: 32 of these at once, of the largest default size. It is small because anybody can
/// hold all of it until the time for a login has passed.
pub const LOGIN_MEMORY_BYTES: usize = 16 * 1024 * 1024;

/// Limits of every connection, fixed at start.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub(crate) request_bytes_max: i32,
    /// The same for requests without records.
    pub(crate) other_bytes_max: i32,
    /// Most bytes of a request before and during a login.
    pub(crate) login_bytes_max: i32,
    pub(crate) in_flight_max: usize,
    pub(crate) request_read_timeout: Duration,
    pub(crate) response_write_timeout: Duration,
    pub(crate) idle_max: Duration,
    pub(crate) decompressed_bytes_max: usize,
}

impl Limits {
    /// Takes the limits from the configuration.
    pub fn of(config: &BrokerConfig) -> Self {
        Self {
            request_bytes_max: i32::try_from(config.socket_request_max_bytes).unwrap_or(i32::MAX),
            other_bytes_max: i32::try_from(config.tailrace_request_other_max_bytes).unwrap_or(i32::MAX),
            login_bytes_max: i32::try_from(config.sasl_server_max_receive_size).unwrap_or(i32::MAX),
            in_flight_max: config.tailrace_connection_in_flight_max as usize,
            request_read_timeout: Duration::from_millis(config.tailrace_request_read_timeout_ms),
            response_write_timeout: Duration::from_millis(config.tailrace_response_write_timeout_ms),
            idle_max: Duration::from_millis(config.connections_max_idle_ms),
            decompressed_bytes_max: usize_of(config.tailrace_decompressed_bytes_max),
        }
    }
}

/// The Kafka front of one server.
pub struct KafkaServer {
    /// The node that it serves.
    pub node: Arc<Node>,
    /// Limits of every connection.
    pub limits: Limits,
    /// Its metrics.
    pub metrics: Arc<KafkaMetrics>,
    /// Memory of requests that are being read.
    pub budget: Arc<RequestBudget>,
    /// The same for clients that have not logged in yet, so that they take nothing from those who have. See
    /// [`LOGIN_MEMORY_BYTES`].
    pub login_budget: Arc<RequestBudget>,
    /// Requests that have arrived in part.
    pub half_read: Arc<HalfRead>,
    /// The threads for requests that may take long.
    pub aside: Arc<Aside>,
    /// Incremental fetch sessions.
    pub fetch_sessions: FetchSessions,
    /// TLS, if a listener uses it.
    pub tls: Option<Arc<Tls>>,
    /// Number of open connections.
    pub connections: AtomicUsize,
}
