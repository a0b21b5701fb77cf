//! Lookup of the topics and partitions in requests.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_types::{TopicName, TopicNameError};

use crate::commands::Refusal;
use crate::errors::absent_code;
use tailrace_node::partitions::{PartitionHandle, Topic, TopicTable};

/// The value for "not requested" in a field of operations.
pub(crate) const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

/// Returns the partition if this node leads it.
pub(crate) fn online(topic: &Topic, index: i32) -> Result<Arc<PartitionHandle>, ErrorCode> {
    topic.led(index).map(Arc::clone).map_err(absent_code)
}

/// Returns the partition if this node has a replica of it, leading or not.
pub(crate) fn replica(topic: &Topic, index: i32) -> Result<Arc<PartitionHandle>, ErrorCode> {
    topic.here(index).map(Arc::clone).map_err(absent_code)
}

/// Like [`replica`], by the topic's name.
pub(crate) fn replica_by_name(
    topics: &TopicTable,
    name: &str,
    index: i32,
) -> Result<Arc<PartitionHandle>, ErrorCode> {
    let topic = topics.by_name(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    replica(&topic, index)
}

/// Like [`online`], by the topic's name.
pub(crate) fn online_by_name(
    topics: &TopicTable,
    name: &str,
    index: i32,
) -> Result<Arc<PartitionHandle>, ErrorCode> {
    let topic = topics.by_name(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    online(&topic, index)
}

/// Refuses illegal topic names.
pub(crate) fn legal_name(name: &str) -> Result<(), Refusal> {
    match TopicName::new(name) {
        Ok(_) => Ok(()),
        Err(error) => Err(illegal_name(&error)),
    }
}

fn illegal_name(error: &TopicNameError) -> Refusal {
    Refusal::new(ErrorCode::InvalidTopicException, format!("Topic name is invalid: {error}"))
}
