//! State shared by all connections that publish to topics: the captured subjects, and the limit on pending
//! acknowledgements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tailrace_env::time::Instant;

use tailrace_config::BrokerConfig;
use tailrace_env::sync::Semaphore;

use super::bindings::Bindings;

/// Minimum number of seconds between two log lines about lost messages.
const LOG_INTERVAL_SECONDS: u64 = 1;

/// State shared by all connections.
#[derive(Debug)]
pub(crate) struct Captures {
    pub(crate) bindings: Bindings,
    /// Permits for further pending acknowledgements.
    pub(super) acks: Arc<Semaphore>,
    pub(super) acks_max: u32,
    started: Instant,
    /// Seconds after `started` at which a loss may be logged again.
    log_again_at: AtomicU64,
}

impl Captures {
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        let acks_max = config.tailrace_nats_capture_acks_max;
        Self {
            bindings: Bindings::new(config.tailrace_jetstream_enable),
            acks: Arc::new(Semaphore::new(acks_max as usize)),
            acks_max,
            started: Instant::now(),
            log_again_at: AtomicU64::new(0),
        }
    }

    /// Reports whether a loss may be logged now: once per interval.
    pub(super) fn may_log(&self) -> bool {
        let now = self.started.elapsed().as_secs();
        let again = |at: u64| (at <= now).then_some(now + LOG_INTERVAL_SECONDS);
        self.log_again_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, again).is_ok()
    }
}
