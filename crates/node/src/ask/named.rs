//! Partitions as questions name them.

use serde::{Deserialize, Serialize};
use tailrace_types::{PartitionId, TopicName, TopicPartition};

/// A topic name and a partition number, as questions name a partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct NamedPartition(pub(super) String, pub(super) i32);

impl From<&TopicPartition> for NamedPartition {
    fn from(partition: &TopicPartition) -> Self {
        Self(partition.topic.to_string(), partition.partition.0)
    }
}

impl NamedPartition {
    /// Returns the partition. `None` if the topic name is not legal.
    pub(super) fn partition(&self) -> Option<TopicPartition> {
        Some(TopicPartition::new(TopicName::new(&self.0).ok()?, PartitionId(self.1)))
    }
}
