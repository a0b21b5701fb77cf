//! The result of a decision, and lookups that decisions share.

use tailrace_types::PartitionId;

use super::error::ControlError;
use crate::image::{MetadataImage, PartitionImage, TopicImage};
use crate::record::MetadataRecord;

/// The records that a command results in, or why it is refused.
pub(super) type Records = Result<Vec<MetadataRecord>, ControlError>;

/// Returns the topic of this name.
pub(super) fn existing<'a>(image: &'a MetadataImage, name: &str) -> Result<&'a TopicImage, ControlError> {
    match image.topic(name) {
        Some(topic) => Ok(topic),
        None => Err(ControlError::UnknownTopic { name: name.to_owned() }),
    }
}

/// Returns a partition of a topic.
pub(super) fn partition(topic: &TopicImage, number: PartitionId) -> Result<&PartitionImage, ControlError> {
    let unknown = || ControlError::UnknownPartition { topic: topic.name.to_string(), partition: number };
    topic.partition(number).ok_or_else(unknown)
}
