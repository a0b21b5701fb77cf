//! Where a partition ends that another node may lead: the coordinator of a share group is asked about partitions of all nodes.

use std::time::Duration;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use tailrace_types::Offset;

use crate::broker::Broker;
use crate::cluster;
use crate::cluster::leaders::leader_of;
use crate::kafka::lookup::online;
use crate::partitions::Topic;

/// How long the leader may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Version of the request: its answers have one offset for each partition, as all since version 1.
const VERSION: i16 = 6;

/// What `timestamp` says for the high watermark.
const LATEST: i64 = -1;

/// The high watermark, from whoever leads the partition.
///
/// # Errors
/// There is no such partition, or nobody leads it or answers just now.
pub(super) async fn high_watermark(broker: &Broker, topic: &Topic, index: i32) -> Result<Offset, ErrorCode> {
    match online(topic, index) {
        Ok(handle) => Ok(handle.reader.high_watermark().offset()),
        Err(ErrorCode::NotLeaderOrFollower) => at_leader(broker, topic, index).await,
        Err(code) => Err(code),
    }
}

async fn at_leader(broker: &Broker, topic: &Topic, index: i32) -> Result<Offset, ErrorCode> {
    let (node, _) = leader_of(broker, topic, index).ok_or(ErrorCode::LeaderNotAvailable)?;
    let partition = ListOffsetsPartition {
        partition_index: index,
        current_leader_epoch: -1,
        timestamp: LATEST,
        ..Default::default()
    };
    let wanted =
        ListOffsetsTopic { name: topic.name.to_string(), partitions: vec![partition], ..Default::default() };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![wanted], ..Default::default() };
    let answer = cluster::ask(broker, node, (&request, VERSION), PATIENCE).await.map_err(|error| {
        tracing::debug!(%node, %error, "the end of a partition could not be asked for");
        ErrorCode::LeaderNotAvailable
    })?;
    let found = answer.topics.iter().flat_map(|topic| &topic.partitions).next();
    found
        .filter(|found| found.error_code == 0)
        .map_or(Err(ErrorCode::LeaderNotAvailable), |found| Ok(Offset(found.offset)))
}
