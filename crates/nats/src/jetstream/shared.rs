//! What the requests of all connections share.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use tailrace_config::BrokerConfig;
use tailrace_env::sync::Semaphore;
use tailrace_jetstream::api::ApiStats;
use tailrace_metadata::MetadataImage;
use tailrace_types::usize_of;

use super::queue::Queue;
use super::streams::StreamTable;
use super::waiting::Waiting;
use crate::metrics::NatsMetrics;

/// Configurations that are judged at the same time. The worst takes a fifth of a second of a processor.
const JUDGED_AT_ONCE: usize = 2;

/// What the requests of all connections share.
pub(crate) struct JetStream {
    pub(super) queue: Arc<Queue>,
    pub(super) streams: StreamTable,
    /// Places for configurations that are judged at the same time.
    pub(super) judging: Semaphore,
    pub(super) pulls: Waiting,
    /// Requests that were answered, and those of them that failed.
    answered: Counter,
    failed: Counter,
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
            judging: Semaphore::new(JUDGED_AT_ONCE),
            pulls: Waiting::new(usize_of(config.tailrace_jetstream_pulls_max.into())),
            answered: metrics.jetstream_requests.clone(),
            failed: metrics.jetstream_errors.clone(),
        })
    }

    /// The numbers of the API, with so many requests that wait.
    pub(crate) fn api_stats(&self, waiting: usize) -> ApiStats {
        ApiStats::new(self.answered.get(), self.failed.get(), waiting as u64)
    }

    /// How many streams there are.
    pub(crate) fn count_streams(&self, image: &Arc<MetadataImage>) -> usize {
        self.streams.of(image).iter().count()
    }

    /// Counts an answer.
    pub(super) fn count(&self, is_error: bool) {
        self.answered.inc();
        if is_error {
            self.failed.inc();
        }
    }
}
