//! Which topic a produce request means.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::produce_request::TopicProduceData;

use crate::context::Context;
use tailrace_node::partitions::Topic;

/// First version in which topics are named by id.
const IDS_FROM: i16 = 13;

/// The topic, by id or by name as the version has it.
pub(super) fn find_topic(context: &Context, data: &TopicProduceData) -> Result<Arc<Topic>, ErrorCode> {
    let topics = context.node().topics();
    if context.version() >= IDS_FROM {
        topics.by_id(data.topic_id).ok_or(ErrorCode::UnknownTopicId)
    } else {
        topics.by_name(&data.name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}
