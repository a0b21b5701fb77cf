//! OffsetForLeaderEpoch (23): returns where an epoch ended, so that a client notices if records it has read
//! were replaced (KIP-320).

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition,
};
use tailrace_kafka_wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};
use tailrace_types::{LeaderEpoch, Offset};

use crate::context::Context;
use crate::errors::{claimed_epoch, epoch_code};
use crate::lookup::online_by_name;
use tailrace_node::partitions::TopicTable;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let table = Arc::clone(&context.node().topics());
    let rights = context.rights();
    let is_broker = rights.sees_cluster(Operation::ClusterAction);
    let topics = request.topics.into_iter().map(|topic| {
        let right = if is_broker { Ok(()) } else { rights.topic(Operation::Describe, &topic.topic) };
        let partition = |wanted: &OffsetForLeaderPartition| {
            answer(wanted.partition, right.and_then(|()| look(&table, &topic.topic, wanted)))
        };
        OffsetForLeaderTopicResult {
            partitions: topic.partitions.iter().map(partition).collect(),
            topic: topic.topic,
            ..Default::default()
        }
    });
    OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() }
}

fn answer(partition: i32, found: Result<Option<(LeaderEpoch, Offset)>, ErrorCode>) -> EpochEndOffset {
    let (code, end) = match found {
        Ok(end) => (ErrorCode::None, end),
        Err(code) => (code, None),
    };
    let (epoch, offset) = end.unwrap_or((LeaderEpoch::UNKNOWN, Offset(-1)));
    EpochEndOffset {
        error_code: code.code(),
        partition,
        leader_epoch: epoch.get(),
        end_offset: offset.get(),
        ..Default::default()
    }
}

fn look(
    table: &TopicTable,
    topic: &str,
    wanted: &OffsetForLeaderPartition,
) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    let handle = online_by_name(table, topic, wanted.partition)?;
    handle.check_epoch(claimed_epoch(wanted.current_leader_epoch)).map_err(epoch_code)?;
    Ok(handle.epoch_end(LeaderEpoch(wanted.leader_epoch)))
}
