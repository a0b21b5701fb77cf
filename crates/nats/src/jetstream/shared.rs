//! What the requests of all connections share.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use tailrace_config::BrokerConfig;
use tailrace_types::usize_of;

use super::queue::Queue;
use super::streams::StreamTable;
use crate::metrics::NatsMetrics;

/// What the requests of all connections share.
pub(crate) struct JetStream {
    pub(super) queue: Arc<Queue>,
    pub(super) streams: StreamTable,
    /// Requests that were answered, and those of them that failed.
    pub(super) answered: Counter,
    pub(super) failed: Counter,
}

impl JetStream {
    /// `None` if the settings do not ask for JetStream.
    pub(crate) fn of(config: &BrokerConfig, metrics: &NatsMetrics) -> Option<Self> {
        if !config.tailrace_jetstream_enable {
            return None;
        }
        let requests_max = usize_of(config.tailrace_jetstream_api_requests_max.into());
        let bytes_max = config.tailrace_jetstream_api_bytes_max;
        Some(Self {
            queue: Arc::new(Queue::new(requests_max, bytes_max, metrics.jetstream_waiting.clone())),
            streams: StreamTable::default(),
            answered: metrics.jetstream_requests.clone(),
            failed: metrics.jetstream_errors.clone(),
        })
    }

    /// Counts an answer.
    pub(super) fn count(&self, is_error: bool) {
        self.answered.inc();
        if is_error {
            self.failed.inc();
        }
    }
}
