//! Chooses the next partition to clean: of those worth it, the one with the largest dirty share, as in Kafka.

use std::sync::Arc;
use tailrace_env::time::Instant;

use tailrace_config::{BrokerConfig, TopicConfig};
use tailrace_log::Cleanable;
use tailrace_replication::CompactionPolicy;
use tailrace_types::usize_of;

use super::{Cleaner, CleanerState, Shared, Which};
use crate::node::Node;
use crate::partitions::PartitionHandle;

/// Minimum buffer of a thread, in bytes.
const IO_BYTES_MIN: u64 = 64 * 1024;
/// Maximum buffer of a thread, in bytes.
const IO_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A partition to clean.
pub(super) struct Candidate {
    pub(super) which: Which,
    pub(super) handle: Arc<PartitionHandle>,
    pub(super) policy: CompactionPolicy,
}

/// Derives the policy of a round from the settings.
fn policy(topic: &TopicConfig, broker: &BrokerConfig) -> CompactionPolicy {
    let each = broker.log_cleaner_io_buffer_size / u64::from(broker.log_cleaner_threads.max(1));
    CompactionPolicy {
        min_lag_ms: topic.min_compaction_lag_ms,
        max_lag_ms: topic.max_compaction_lag_ms,
        delete_retention_ms: topic.delete_retention_ms,
        // Half for reading, half for writing.
        io_bytes: usize_of((each / 2).clamp(IO_BYTES_MIN, IO_BYTES_MAX)),
    }
}

fn is_worth_it(cleanable: &Cleanable, ratio_min: f64) -> bool {
    let is_dirty =
        cleanable.dirty_bytes > 0 && (cleanable.dirty_ratio() > ratio_min || cleanable.overdue_ms > 0);
    is_dirty || cleanable.expired
}

impl Shared {
    /// Takes the dirtiest partition that no other thread has.
    pub(super) fn take_candidate(&self, node: &Node) -> Option<Candidate> {
        let (topics, config, now) = (node.topics(), node.config(), node.now());
        let mut state = self.state.lock();
        state.forget_others(|which| {
            let topic = topics.by_name(which.0.topic.as_str()).filter(|topic| topic.id == which.1);
            topic.is_some_and(|topic| topic.config.cleanup_policy.compact)
        });
        let mut best: Option<(f64, Candidate)> = None;
        for topic in topics.iter().filter(|topic| topic.config.cleanup_policy.compact) {
            let policy = policy(&topic.config, &config);
            for handle in topic.online() {
                let which = (handle.id.clone(), topic.id);
                if state.is_barred(&which) || handle.is_halted() {
                    continue;
                }
                if handle.reader.log().has_wrong() {
                    // It is under repair, or waits for an operator's decision, and is reported as damaged.
                    continue;
                }
                let cleanable = handle.reader.cleanable(&policy, now);
                if !is_worth_it(&cleanable, topic.config.min_cleanable_dirty_ratio) {
                    continue;
                }
                let ratio = cleanable.dirty_ratio();
                if best.as_ref().is_none_or(|(largest, _)| ratio > *largest) {
                    best = Some((ratio, Candidate { which, handle: Arc::clone(handle), policy }));
                }
            }
        }
        let (_, candidate) = best?;
        state.taken.push(candidate.which.clone());
        Some(candidate)
    }
}

impl Cleaner {
    /// Returns the largest dirty share of any compacted partition, in percent.
    pub(crate) fn dirty_percent_max(&self, node: &Node) -> i64 {
        let (topics, config, now) = (node.topics(), node.config(), node.now());
        let mut largest: f64 = 0.0;
        for topic in topics.iter().filter(|topic| topic.config.cleanup_policy.compact) {
            let policy = policy(&topic.config, &config);
            for handle in topic.online() {
                largest = largest.max(handle.reader.cleanable(&policy, now).dirty_ratio());
            }
        }
        (largest * 100.0) as i64
    }
}

impl CleanerState {
    fn is_barred(&self, which: &Which) -> bool {
        self.taken.contains(which)
            || self.uncleanable.contains_key(which)
            || self.retry_at.get(which).is_some_and(|at| Instant::now() < *at)
    }

    fn forget_others(&mut self, is_compacted: impl Fn(&Which) -> bool) {
        self.uncleanable.retain(|which, _| is_compacted(which));
        self.retry_at.retain(|which, at| Instant::now() < *at && is_compacted(which));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_round_is_told_what_the_topic_is_set_to() {
        let broker = BrokerConfig::resolve(&BTreeMap::new(), &Default::default()).unwrap();
        let set =
            [("min.compaction.lag.ms", "11"), ("max.compaction.lag.ms", "22"), ("delete.retention.ms", "33")];
        let set: BTreeMap<_, _> = set.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let topic = TopicConfig::resolve(&set, &broker).unwrap();
        let CompactionPolicy { min_lag_ms, max_lag_ms, delete_retention_ms, io_bytes } =
            policy(&topic, &broker);
        assert_eq!((min_lag_ms, max_lag_ms, delete_retention_ms), (11, 22, 33));
        assert!((usize_of(IO_BYTES_MIN)..=usize_of(IO_BYTES_MAX)).contains(&io_bytes));
    }
}
