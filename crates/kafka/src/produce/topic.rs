//! Finds the topic of a produce request.

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::produce_request::TopicProduceData;

use crate::context::Context;
use crate::rights::ApiRights;
use tailrace_node::partitions::Topic;

/// First version that names topics by id.
const IDS_FROM: i16 = 13;

/// Returns the topic by id or by name, depending on the version, if the client may write to it. An unknown id
/// is told, because ids are no secrets.
pub(super) fn find_topic(
    context: &Context,
    rights: &ApiRights<'_>,
    data: &TopicProduceData,
) -> Result<Arc<Topic>, ErrorCode> {
    let topics = context.node().topics();
    if context.version() >= IDS_FROM {
        let topic = topics.by_id(data.topic_id).ok_or(ErrorCode::UnknownTopicId)?;
        rights.topic(Operation::Write, topic.name.as_str())?;
        Ok(topic)
    } else {
        rights.topic(Operation::Write, &data.name)?;
        topics.by_name(&data.name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}
