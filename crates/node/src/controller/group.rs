//! Which partition the metadata log is.

use tailrace_metadata::METADATA_TOPIC;
use tailrace_types::{PartitionId, RaftGroup, TopicId, TopicName, TopicPartition};

/// The topic id of the metadata log: the one that Kafka gives its own.
const METADATA_TOPIC_ID: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// The group of the metadata log: the controller's.
pub(crate) const GROUP: RaftGroup = RaftGroup { topic: METADATA_TOPIC_ID, partition: PartitionId(0) };

/// The partition of the metadata log.
pub(crate) fn topic_partition() -> TopicPartition {
    let topic = TopicName::new(METADATA_TOPIC).expect("the name is legal");
    TopicPartition::new(topic, PartitionId(0))
}
