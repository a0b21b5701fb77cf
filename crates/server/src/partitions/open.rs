//! Opening partitions: from a topic's settings to an online handle, or to the reason why there is none.

use std::path::PathBuf;
use std::sync::Arc;

use tailrace_broker::TopicImage;
use tailrace_broker::config::{BrokerConfig, Durability as TopicDurability, TopicConfig};
use tailrace_log::{LogConfig, LogStore, PartitionIdentity};
use tailrace_replication::{Durability, Policy, Solo};
use tailrace_types::{TimestampMs, TopicPartition};

use crate::disk::ServerDisk;
use crate::partitions::handle::{Offline, PartitionHandle};
use crate::partitions::table::PartitionSlot;

/// Opens the partitions of one data folder.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(crate) store: LogStore<ServerDisk>,
    pub(crate) data_dir: PathBuf,
}

impl Opener {
    /// Opens, and creates where missing, one partition. Blocks on the disk. A failure is logged and makes the
    /// partition offline; the others are not affected.
    pub(crate) fn open(
        &self,
        topic: &TopicImage,
        id: &TopicPartition,
        broker: &BrokerConfig,
        now: TimestampMs,
    ) -> PartitionSlot {
        let config = log_config(&topic.config, broker, id);
        match self.open_core(topic, id, config, policy(&topic.config, broker), now) {
            Ok(core) => PartitionSlot::Online(Arc::new(PartitionHandle::new(id.clone(), core))),
            Err(error) => {
                tracing::error!(partition = %id, %error, "the partition is offline");
                PartitionSlot::Offline(Offline { reason: error.to_string().into() })
            }
        }
    }

    fn open_core(
        &self,
        topic: &TopicImage,
        id: &TopicPartition,
        config: LogConfig,
        policy: Policy,
        now: TimestampMs,
    ) -> Result<Solo<ServerDisk>, tailrace_log::LogError> {
        let identity = PartitionIdentity { topic_id: topic.id, topic_partition: id.clone() };
        let dir = self.data_dir.join(id.to_string());
        let (core, recovery) = Solo::open(&self.store, &dir, &identity, config, policy, now)?;
        for note in &recovery.notes {
            tracing::warn!(partition = %id, "{note}");
        }
        if let Some(tail) = &recovery.truncated {
            tracing::warn!(
                partition = %id, file = %tail.file.display(), position = tail.position, bytes = tail.bytes,
                reason = %tail.reason, "a torn tail was cut off"
            );
        }
        if !recovery.clean && !recovery.created {
            tracing::info!(
                partition = %id, bytes_read = recovery.bytes_read, batches = recovery.batches_recovered, "recovered"
            );
        }
        Ok(core)
    }
}

/// What the log needs of a topic's settings. The jitter of rolling is a fixed share for each partition, so that a
/// restart does not change it.
pub(crate) fn log_config(topic: &TopicConfig, broker: &BrokerConfig, id: &TopicPartition) -> LogConfig {
    LogConfig {
        segment_bytes: topic.segment_bytes,
        // Only closed segments are compacted (KIP-354).
        segment_ms: if topic.cleanup_policy.compact {
            topic.segment_ms.min(topic.max_compaction_lag_ms)
        } else {
            topic.segment_ms
        },
        segment_jitter_ms: jitter(topic.segment_jitter_ms.min(topic.segment_ms), id),
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

/// What decides about appends.
pub(crate) fn policy(topic: &TopicConfig, broker: &BrokerConfig) -> Policy {
    let durability = match topic.durability() {
        TopicDurability::Strict => Durability::Strict,
        TopicDurability::Relaxed { flush_messages, flush_ms } => {
            let flush_ms = flush_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
            Durability::Relaxed { flush_messages, flush_ms }
        }
    };
    Policy { durability, producer_expiration_ms: broker.producer_id_expiration_ms }
}
