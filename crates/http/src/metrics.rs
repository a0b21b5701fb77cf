//! The listener's own metrics.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tailrace_env::metrics::ReasonLabel;

/// The metrics.
#[derive(Debug, Default)]
pub struct HttpMetrics {
    connections_cut: Family<ReasonLabel, Counter>,
}

impl HttpMetrics {
    /// Registers all of them.
    pub fn register_into(&self, registry: &mut Registry) {
        let help = "HTTP connections ended by the server, by reason";
        registry.register("http_connections_cut", help, self.connections_cut.clone());
    }

    /// Counts a connection that the server has ended.
    pub(crate) fn cut(&self, reason: &'static str) {
        self.connections_cut.get_or_create(&ReasonLabel { reason }).inc();
    }
}
