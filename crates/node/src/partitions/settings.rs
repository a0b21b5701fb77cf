//! What settings mean for a partition: for its log, for what it accepts, and for the timing of its replica.

use tailrace_config::{BrokerConfig, Durability as TopicDurability, MessageTimestampType, TopicConfig};
use tailrace_env::random;
use tailrace_log::LogConfig;
use tailrace_records::TimestampType;
use tailrace_replication::raft::{Members, ReplicaOptions};
use tailrace_replication::{Durability, Policy};
use tailrace_types::{ReplicaId, TopicPartition};

/// Derives the log's configuration from a topic's settings. The roll jitter is a fixed share for each
/// partition, so that a restart does not change it.
pub(crate) fn log_config(topic: &TopicConfig, broker: &BrokerConfig, id: &TopicPartition) -> LogConfig {
    // Only closed segments are compacted (KIP-354).
    let segment_ms = if topic.cleanup_policy.compact {
        topic.segment_ms.min(topic.max_compaction_lag_ms)
    } else {
        topic.segment_ms
    };
    LogConfig {
        segment_bytes: topic.segment_bytes,
        segment_ms,
        segment_jitter_ms: jitter(topic.segment_jitter_ms.min(segment_ms), id),
        preallocate_bytes: broker.tailrace_segment_preallocate_bytes,
        delete: topic.cleanup_policy.delete,
        retention_ms: topic.retention_ms,
        retention_bytes: topic.retention_bytes,
        retention_records: topic.tailrace_retention_records,
    }
}

fn jitter(max_ms: i64, id: &TopicPartition) -> i64 {
    if max_ms <= 0 {
        return 0;
    }
    let checksum = crc32c::crc32c(id.to_string().as_bytes());
    i64::from(checksum) % (max_ms + 1)
}

/// Derives the policy for appends.
pub(crate) fn policy(topic: &TopicConfig, broker: &BrokerConfig) -> Policy {
    let durability = match topic.durability() {
        TopicDurability::Strict => Durability::Strict,
        TopicDurability::Relaxed { flush_messages, flush_ms } => {
            let flush_ms = flush_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
            Durability::Relaxed { flush_messages, flush_ms }
        }
    };
    let timestamp_type = match topic.message_timestamp_type {
        MessageTimestampType::LogAppendTime => TimestampType::LogAppendTime,
        MessageTimestampType::CreateTime => TimestampType::CreateTime,
    };
    Policy { durability, producer_expiration_ms: broker.producer_id_expiration_ms, timestamp_type }
}

/// Derives the timing of this node's replicas.
pub(crate) fn replica_options(
    config: &BrokerConfig,
    id: ReplicaId,
    founders: Vec<ReplicaId>,
) -> ReplicaOptions {
    ReplicaOptions {
        id,
        members: Members { voters: founders, learners: Vec::new() },
        election_ticks: config.tailrace_raft_election_ticks as usize,
        heartbeat_ticks: config.tailrace_raft_heartbeat_ticks as usize,
        seed: random::u64(),
    }
}
