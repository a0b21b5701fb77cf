//! The dependencies of NATS sessions.

use std::net::IpAddr;
use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use crate::dues::Charging;
use crate::front::NatsFront;
use crate::places::ConnectionPlace;
use tailrace_node::Node;
use tailrace_tls::Tls;

/// The NATS front of one server, with its dependencies.
pub struct NatsServer {
    /// The state shared by all connections.
    pub front: Arc<NatsFront>,
    /// The node that the front serves.
    pub node: Arc<Node>,
    /// TLS, if a listener uses it.
    pub tls: Option<Arc<Tls>>,
    /// Number of open Kafka connections, which `/varz` shows.
    pub kafka_connections: Gauge,
    /// Whether deliveries are charged to quotas.
    pub charging: Charging,
}

/// The label of connections that were refused because too many others have not logged in yet.
const LOGINS: &str = "tailrace.nats.logins.max";

impl NatsServer {
    /// Takes a place for a connection. `None`, and counted, if a limit is reached.
    pub(crate) fn take_place(&self, address: IpAddr) -> Option<ConnectionPlace> {
        let place = self.front.take_place(address, self.node.config().max_connections_per_ip)?;
        if !self.front.auth().checks() {
            return Some(place);
        }
        let pending = self.node.pending_nats_login(address).inspect_err(|error| {
            self.front.count_refused(LOGINS);
            tracing::debug!(%address, %error, "NATS connection refused");
        });
        Some(place.until_login(pending.ok()?))
    }
}
