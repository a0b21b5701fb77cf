//! `log.cleaner.io.max.bytes.per.second`, for all threads together; and the end of a round when it is no longer wanted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tailrace_log::{LogError, Pace};

use super::Shared;
use crate::broker::Broker;
use crate::partitions::PartitionHandle;

/// What may be read and written ahead of time: a tenth of a second's worth.
const AHEAD: Duration = Duration::from_millis(100);
/// Longest time that a single piece waits. Bounds what an absurdly low rate can do to a thread.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// When the bytes spent so far will have been earned.
#[derive(Debug, Default)]
pub(super) struct Budget(Mutex<Option<Instant>>);

impl Budget {
    /// Spends `bytes` at `rate` bytes per second; how long to wait before going on.
    fn spend(&self, bytes: u64, rate: f64, now: Instant) -> Duration {
        // The default is as good as no bound. Zero and less would stand still.
        let seconds = bytes as f64 / rate.max(1.0);
        let cost = Duration::try_from_secs_f64(seconds).unwrap_or(WAIT_MAX).min(WAIT_MAX);
        let mut earned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = earned.filter(|earned| *earned > now).unwrap_or(now);
        let until = from + cost;
        *earned = Some(until);
        until.saturating_duration_since(now).saturating_sub(AHEAD).min(WAIT_MAX)
    }
}

/// The pace of one round.
pub(super) struct Throttle<'a> {
    pub(super) shared: &'a Shared,
    pub(super) broker: &'a Arc<Broker>,
    pub(super) handle: &'a PartitionHandle,
}

impl Pace for Throttle<'_> {
    fn spend(&mut self, bytes: u64) -> Result<(), LogError> {
        let stopped = |reason| Err(LogError::CompactionStopped { reason });
        let rate = self.broker.config().log_cleaner_io_max_bytes_per_second;
        let wait = self.shared.budget.spend(bytes, rate, Instant::now());
        if !self.shared.wait(wait) {
            return stopped("the server is stopping");
        }
        let reader = &self.handle.reader;
        let topics = self.broker.topics();
        let topic = topics.by_name(self.handle.id.topic.as_str());
        match topic.filter(|topic| topic.id == reader.log().identity().topic_id) {
            None => stopped("the topic was deleted"),
            Some(topic) if !topic.config.cleanup_policy.compact => {
                stopped("the topic is not compacted any more")
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spent_at_the_rate() {
        let (budget, now) = (Budget::default(), Instant::now());
        assert_eq!(budget.spend(50, 1000.0, now), Duration::ZERO);
        assert_eq!(budget.spend(1050, 1000.0, now), Duration::from_secs(1));
        // Other threads count too, and time that has passed is forgotten.
        assert_eq!(budget.spend(1000, 1000.0, now), Duration::from_secs(2));
        let later = now + Duration::from_secs(60);
        assert_eq!(budget.spend(100, 1000.0, later), Duration::ZERO);
    }

    #[test]
    fn no_rate_means_no_wait_and_an_absurd_one_is_bounded() {
        let now = Instant::now();
        assert_eq!(Budget::default().spend(u64::MAX, f64::MAX, now), Duration::ZERO);
        for rate in [0.0, -5.0, f64::MIN_POSITIVE] {
            assert!(Budget::default().spend(u64::MAX, rate, now) <= WAIT_MAX);
        }
    }
}
