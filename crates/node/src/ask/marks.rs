//! The end of a partition that another node leads. The coordinator of a share group needs it for partitions
//! of all nodes.

use serde::{Deserialize, Serialize};
use tailrace_types::TopicId;

/// Asks for the high watermark of a partition that the node leads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HighWatermarkOf {
    pub(super) topic: [u8; 16],
    pub(super) partition: i32,
}

impl HighWatermarkOf {
    /// Asks for a partition of a topic.
    pub fn new(topic: TopicId, partition: i32) -> Self {
        Self { topic: topic.0, partition }
    }
}
