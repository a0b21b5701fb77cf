//! Where a partition ends that another node leads: the coordinator of a share group is asked about partitions of all nodes.

use serde::{Deserialize, Serialize};
use tailrace_types::TopicId;

/// The high watermark of a partition that the node leads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HighWatermarkOf {
    pub(super) topic: [u8; 16],
    pub(super) partition: i32,
}

impl HighWatermarkOf {
    /// Of a partition of a topic.
    pub fn new(topic: TopicId, partition: i32) -> Self {
        Self { topic: topic.0, partition }
    }
}
