//! The pace of a round: it waits until its reads and writes are paid for, and ends when it is no longer
//! wanted.

use std::sync::Arc;
use tailrace_env::time::Instant;

use tailrace_log::{LogError, Pace};

use super::{POLL_INTERVAL, Shared};
use crate::node::Node;
use crate::partitions::PartitionHandle;

/// The pace of one round.
pub(super) struct Throttle<'a> {
    pub(super) shared: &'a Shared,
    pub(super) node: &'a Arc<Node>,
    pub(super) handle: &'a PartitionHandle,
}

impl Throttle<'_> {
    fn rate(&self) -> f64 {
        self.node.config().log_cleaner_io_max_bytes_per_second
    }

    fn still_wanted(&self) -> Result<(), LogError> {
        let stopped = |reason| Err(LogError::CompactionStopped { reason });
        if self.shared.stop.has_rung() {
            return stopped("the server is stopping");
        }
        let reader = &self.handle.reader;
        let topics = self.node.topics();
        let topic = topics.by_name(self.handle.id.topic.as_str());
        match topic.filter(|topic| topic.id == reader.log().identity().topic_id) {
            None => stopped("the topic was deleted"),
            Some(topic) if !topic.config.cleanup_policy.compact => {
                stopped("the topic is no longer compacted")
            }
            Some(_) => Ok(()),
        }
    }
}

impl Pace for Throttle<'_> {
    fn spend(&mut self, bytes: u64) -> Result<(), LogError> {
        let budget = &self.shared.budget;
        let bill = budget.spend(bytes, self.rate(), Instant::now());
        let mut waits = false;
        loop {
            self.still_wanted()?;
            // The rate may change meanwhile.
            let wait = budget.wait(bill, self.rate(), Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            if !waits {
                self.node.metrics.compaction.waits.inc();
                waits = true;
            }
            self.shared.stop.pause(wait.min(POLL_INTERVAL));
        }
    }
}
