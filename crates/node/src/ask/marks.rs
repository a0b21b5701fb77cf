//! Where a partition ends that another node leads: the coordinator of a share group is asked about partitions of all nodes.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tailrace_types::{Offset, TopicId};

use super::{AnyQuestion, LOOK_TIMEOUT, Question};
use crate::node::Node;

/// The high watermark of a partition that the node leads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HighWatermarkOf {
    topic: [u8; 16],
    partition: i32,
}

impl HighWatermarkOf {
    /// Of a partition of a topic.
    pub fn new(topic: TopicId, partition: i32) -> Self {
        Self { topic: topic.0, partition }
    }
}

impl Question for HighWatermarkOf {
    /// `None` if the node does not lead it.
    type Answer = Option<i64>;

    const TIMEOUT: Duration = LOOK_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::HighWatermarkOf(self)
    }

    async fn answer(self, node: &Arc<Node>) -> Option<i64> {
        let topic = node.topics().by_id(self.topic)?;
        let handle = topic.partition(self.partition)?.handle()?;
        handle.leads()?;
        let high_watermark: Offset = handle.bounds().high_watermark;
        Some(high_watermark.get())
    }
}
