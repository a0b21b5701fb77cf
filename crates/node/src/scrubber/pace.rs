//! Applies `tailrace.scrub.bytes.per.second`, or the rate of a request.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};

use tailrace_identity::Idle;
use tailrace_log::{LogError, Pace};

use super::{POLL_INTERVAL, Shared};
use crate::node::Node;
use crate::rate::RateLimiter;

/// Maximum time that a single piece costs. Bounds the effect of an absurdly low rate.
const COST_MAX: Duration = Duration::from_secs(60);

/// Reads at the configured rate.
pub(super) struct Limited<'a> {
    shared: &'a Shared,
    node: &'a Arc<Node>,
    /// Replaces the configured rate.
    own_rate: Option<u64>,
    /// The last request when the round started. The round ends if there is a new request, which must not wait
    /// for days.
    asked: &'a str,
    limiter: RateLimiter,
}

impl<'a> Limited<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        node: &'a Arc<Node>,
        own_rate: Option<u64>,
        asked: &'a str,
    ) -> Self {
        Self { shared, node, own_rate, asked, limiter: RateLimiter::new(Idle::PaysNothing) }
    }

    /// Returns the current rate in bytes per second. 0 is no limit.
    pub(super) fn rate(&self) -> u64 {
        self.own_rate.unwrap_or_else(|| self.node.config().tailrace_scrub_bytes_per_second)
    }
}

/// Returns a rate for the limiter. 0 is no limit.
fn usable(rate: u64) -> f64 {
    if rate == 0 { f64::MAX } else { rate as f64 }
}

impl Pace for Limited<'_> {
    fn spend(&mut self, bytes: u64) -> Result<(), LogError> {
        self.node.metrics.repair.scrubbed_bytes.inc_by(bytes);
        let rate = self.rate();
        {
            let mut state = self.shared.state.lock();
            state.progress.bytes_done += bytes;
            state.progress.bytes_per_second = rate;
        }
        let bill = self.limiter.spend(bytes, usable(rate), COST_MAX, Instant::now());
        loop {
            if self.shared.stop.has_rung() {
                return Err(LogError::CompactionStopped { reason: "the server is stopping" });
            }
            if self.node.config().tailrace_scrub_request != self.asked {
                return Err(LogError::CompactionStopped { reason: "another round was asked for" });
            }
            // The rate may change in the meantime.
            let wait = self.limiter.wait(bill, usable(self.rate()), Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            self.shared.stop.pause(wait.min(POLL_INTERVAL));
        }
    }
}
