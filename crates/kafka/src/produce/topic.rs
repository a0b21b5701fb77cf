//! Finds the topic of a produce request.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::produce_request::TopicProduceData;

use crate::context::Context;
use tailrace_node::partitions::Topic;

/// First version that names topics by id.
const IDS_FROM: i16 = 13;

/// Returns the topic by id or by name, depending on the version.
pub(super) fn find_topic(context: &Context, data: &TopicProduceData) -> Result<Arc<Topic>, ErrorCode> {
    let topics = context.node().topics();
    if context.version() >= IDS_FROM {
        topics.by_id(data.topic_id).ok_or(ErrorCode::UnknownTopicId)
    } else {
        topics.by_name(&data.name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}
