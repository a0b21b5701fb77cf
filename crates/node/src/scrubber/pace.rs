//! Applies `tailrace.scrub.bytes.per.second`, or the rate of a request.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};

use tailrace_log::{LogError, Pace};

use super::{POLL_INTERVAL, Shared};
use crate::node::Node;

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
    /// When the next piece may be read.
    next: Instant,
}

impl<'a> Limited<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        node: &'a Arc<Node>,
        own_rate: Option<u64>,
        asked: &'a str,
    ) -> Self {
        Self { shared, node, own_rate, asked, next: Instant::now() }
    }

    /// Returns the current rate in bytes per second. 0 is no limit.
    pub(super) fn rate(&self) -> u64 {
        self.own_rate.unwrap_or_else(|| self.node.config().tailrace_scrub_bytes_per_second)
    }
}

/// Returns the time that reading `bytes` costs.
fn cost(bytes: u64, rate: u64) -> Duration {
    if rate == 0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(bytes as f64 / rate as f64).unwrap_or(COST_MAX).min(COST_MAX)
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
        self.next = self.next.max(Instant::now()) + cost(bytes, rate);
        loop {
            if self.shared.stop.has_rung() {
                return Err(LogError::CompactionStopped { reason: "the server is stopping" });
            }
            if self.node.config().tailrace_scrub_request != self.asked {
                return Err(LogError::CompactionStopped { reason: "another round was asked for" });
            }
            let wait = self.next.duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            self.shared.stop.pause(wait.min(POLL_INTERVAL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_costs_its_share_of_a_second_and_never_too_much() {
        assert_eq!(cost(500, 1000), Duration::from_millis(500));
        assert_eq!(cost(u64::MAX, 0), Duration::ZERO);
        assert_eq!(cost(u64::MAX, 1), COST_MAX);
    }
}
