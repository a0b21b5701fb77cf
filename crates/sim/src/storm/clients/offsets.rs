//! Commits and reads offsets, which members of all groups do.

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use tailrace_kafka_wire::messages::{OffsetCommitRequest, OffsetFetchRequest};
use tailrace_types::{Offset, TopicPartition};

use super::client::{Client, Coordinated, code};

const OFFSET_COMMIT: i16 = 8;
const OFFSET_FETCH: i16 = 8;

/// Commits an offset. `None` if there was no answer.
pub(super) async fn commit(
    client: &mut Client,
    group: &str,
    id: &TopicPartition,
    offset: Offset,
) -> Option<ErrorCode> {
    let node = client.coordinator(Coordinated::Group, group).await?;
    let partition = OffsetCommitRequestPartition {
        partition_index: id.partition.0,
        committed_offset: offset.get(),
        ..Default::default()
    };
    let name = id.topic.as_str().to_owned();
    let request = OffsetCommitRequest {
        group_id: group.to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic { name, partitions: vec![partition], ..Default::default() }],
        ..Default::default()
    };
    let answer = client.ask(node, OFFSET_COMMIT, &request).await?;
    Some(code(answer.topics.first()?.partitions.first()?.error_code))
}

/// Returns the committed offset, once no transaction is about to change it, or -1 if there is none. `None` if
/// it is unknown.
pub(super) async fn committed(client: &mut Client, group: &str, id: &TopicPartition) -> Option<Offset> {
    let node = client.coordinator(Coordinated::Group, group).await?;
    let (name, partition_indexes) = (id.topic.as_str().to_owned(), vec![id.partition.0]);
    let topic = OffsetFetchRequestTopics { name, partition_indexes, ..Default::default() };
    let asked = OffsetFetchRequestGroup {
        group_id: group.to_owned(),
        member_epoch: -1,
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![asked], require_stable: true, ..Default::default() };
    let answer = client.ask(node, OFFSET_FETCH, &request).await?;
    let group = answer.groups.first()?;
    let partition = group.topics.first()?.partitions.first()?;
    let codes = [code(group.error_code), code(partition.error_code)];
    (codes == [ErrorCode::None; 2]).then_some(Offset(partition.committed_offset))
}
