//! Answers with the high watermark of a partition.

use std::sync::Arc;

use tailrace_types::Offset;

use super::Answers;
use crate::ask::HighWatermarkOf;
use crate::caller::Caller;
use crate::node::Node;

impl Answers for HighWatermarkOf {
    async fn answer(self, node: &Arc<Node>, _: &Caller) -> Option<i64> {
        let topic = node.topics().by_id(self.topic)?;
        let handle = topic.here(self.partition).ok()?;
        handle.leads()?;
        let high_watermark: Offset = handle.bounds().high_watermark;
        Some(high_watermark.get())
    }
}
