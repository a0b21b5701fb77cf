//! The identity of the metadata log.

use tailrace_metadata::METADATA_TOPIC;
use tailrace_types::{PartitionId, RaftGroup, TopicId, TopicName, TopicPartition};

/// The topic id of the metadata log, the same that Kafka gives its own.
const METADATA_TOPIC_ID: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// The group of the metadata log.
pub(crate) const GROUP: RaftGroup = RaftGroup { topic: METADATA_TOPIC_ID, partition: PartitionId(0) };

/// Returns the name and number of the metadata log's partition.
pub(crate) fn topic_partition() -> TopicPartition {
    let topic = TopicName::new(METADATA_TOPIC).expect("the name is legal");
    TopicPartition::new(topic, PartitionId(0))
}
