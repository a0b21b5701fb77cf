//! Reads, sets and deletes offsets of groups, and deletes groups.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_kafka_wire::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use tailrace_kafka_wire::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use tailrace_kafka_wire::messages::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
use tailrace_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use tailrace_kafka_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use tailrace_kafka_wire::messages::{
    AlterShareGroupOffsetsRequest, DeleteGroupsRequest, DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
};

use crate::client::{ClientError, Cluster, check, retrying};

/// First version of OffsetFetch that takes several groups.
const FETCH_GROUPS_FROM: i16 = 8;
/// Newest versions that name topics by name.
const FETCH_NAMES_UP_TO: i16 = 9;
const COMMIT_NAMES_UP_TO: i16 = 9;

/// A partition of a topic.
pub(crate) type Position = (String, i32);

/// A share group's position in a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareOffset {
    /// The first record that is not yet finished.
    pub(crate) start: i64,
    /// Records still to be delivered, if the server counts them.
    pub(crate) lag: Option<i64>,
}

/// Fetches the offsets that a group has committed.
pub(crate) async fn committed_offsets(
    cluster: &mut Cluster,
    group: &str,
) -> Result<BTreeMap<Position, i64>, ClientError> {
    retrying(cluster, async |cluster| {
        let (_, connection) = cluster.coordinator(group).await?;
        let version = connection.version_up_to::<OffsetFetchRequest>(FETCH_NAMES_UP_TO)?;
        let mut request = OffsetFetchRequest::default();
        if version >= FETCH_GROUPS_FROM {
            let all =
                OffsetFetchRequestGroup { group_id: group.to_owned(), topics: None, ..Default::default() };
            request.groups = vec![all];
        } else {
            request.group_id = group.to_owned();
            request.topics = None;
        }
        let answer = connection.begin(&request, version).await?.answer().await?;
        let what = || format!("cannot read the offsets of group '{group}'");
        check(answer.error_code, None, what)?;
        let mut offsets = BTreeMap::new();
        let mut take = |topic: &str, partition: i32, offset: i64, code: i16| {
            check(code, None, || format!("{} in {topic}-{partition}", what()))?;
            if offset >= 0 {
                offsets.insert((topic.to_owned(), partition), offset);
            }
            Ok::<(), ClientError>(())
        };
        for topic in &answer.topics {
            for p in &topic.partitions {
                take(&topic.name, p.partition_index, p.committed_offset, p.error_code)?;
            }
        }
        for found in &answer.groups {
            check(found.error_code, None, what)?;
            for topic in &found.topics {
                for p in &topic.partitions {
                    take(&topic.name, p.partition_index, p.committed_offset, p.error_code)?;
                }
            }
        }
        Ok(offsets)
    })
    .await
}

/// Fetches the positions of a share group.
pub(crate) async fn share_offsets(
    cluster: &mut Cluster,
    group: &str,
) -> Result<BTreeMap<Position, ShareOffset>, ClientError> {
    retrying(cluster, async |cluster| {
        let (_, connection) = cluster.coordinator(group).await?;
        let all = DescribeShareGroupOffsetsRequestGroup {
            group_id: group.to_owned(),
            topics: None,
            ..Default::default()
        };
        let request = DescribeShareGroupOffsetsRequest { groups: vec![all], ..Default::default() };
        let mut offsets = BTreeMap::new();
        for found in connection.call(&request).await?.groups {
            let what = || format!("cannot read the offsets of share group '{group}'");
            check(found.error_code, found.error_message.as_ref(), what)?;
            for topic in found.topics {
                for p in topic.partitions {
                    let place = || format!("{} in {}-{}", what(), topic.topic_name, p.partition_index);
                    check(p.error_code, p.error_message.as_ref(), place)?;
                    if p.start_offset >= 0 {
                        let offset =
                            ShareOffset { start: p.start_offset, lag: Some(p.lag).filter(|&lag| lag >= 0) };
                        offsets.insert((topic.topic_name.clone(), p.partition_index), offset);
                    }
                }
            }
        }
        Ok(offsets)
    })
    .await
}

fn by_topic<T: Clone>(offsets: &BTreeMap<Position, T>) -> BTreeMap<&str, Vec<(i32, T)>> {
    let mut topics: BTreeMap<&str, Vec<(i32, T)>> = BTreeMap::new();
    for ((topic, partition), value) in offsets {
        topics.entry(topic).or_default().push((*partition, value.clone()));
    }
    topics
}

/// Commits offsets for a group without members. The first partition that is refused is the error; offsets of
/// others may have been committed.
pub(crate) async fn commit_offsets(
    cluster: &mut Cluster,
    group: &str,
    offsets: &BTreeMap<Position, i64>,
) -> Result<(), ClientError> {
    let partition = |(partition_index, committed_offset): (i32, i64)| OffsetCommitRequestPartition {
        partition_index,
        committed_offset,
        committed_leader_epoch: -1,
        committed_metadata: Some(String::new()),
        ..Default::default()
    };
    let topic = |(name, partitions): (&str, Vec<(i32, i64)>)| OffsetCommitRequestTopic {
        name: name.to_owned(),
        partitions: partitions.into_iter().map(partition).collect(),
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: group.to_owned(),
        // We are not a member.
        generation_id_or_member_epoch: -1,
        member_id: String::new(),
        group_instance_id: None,
        retention_time_ms: -1,
        topics: by_topic(offsets).into_iter().map(topic).collect(),
        ..Default::default()
    };
    retrying(cluster, async |cluster| {
        let (_, connection) = cluster.coordinator(group).await?;
        let version = connection.version_up_to::<OffsetCommitRequest>(COMMIT_NAMES_UP_TO)?;
        let answer = connection.begin(&request, version).await?.answer().await?;
        for topic in answer.topics {
            for p in topic.partitions {
                let place = || format!("cannot set the offset of {}-{}", topic.name, p.partition_index);
                check(p.error_code, None, place)?;
            }
        }
        Ok(())
    })
    .await
}

/// Sets offsets of a share group without members.
pub(crate) async fn set_share_offsets(
    cluster: &mut Cluster,
    group: &str,
    offsets: &BTreeMap<Position, i64>,
) -> Result<(), ClientError> {
    let partition = |(partition_index, start_offset): (i32, i64)| AlterShareGroupOffsetsRequestPartition {
        partition_index,
        start_offset,
        ..Default::default()
    };
    let topic = |(name, partitions): (&str, Vec<(i32, i64)>)| AlterShareGroupOffsetsRequestTopic {
        topic_name: name.to_owned(),
        partitions: partitions.into_iter().map(partition).collect(),
        ..Default::default()
    };
    let request = AlterShareGroupOffsetsRequest {
        group_id: group.to_owned(),
        topics: by_topic(offsets).into_iter().map(topic).collect(),
        ..Default::default()
    };
    retrying(cluster, async |cluster| {
        let (_, connection) = cluster.coordinator(group).await?;
        let answer = connection.call(&request).await?;
        let what = || format!("cannot set the offsets of share group '{group}'");
        check(answer.error_code, answer.error_message.as_ref(), what)?;
        for topic in answer.responses {
            for p in topic.partitions {
                let place = || format!("cannot set the offset of {}-{}", topic.topic_name, p.partition_index);
                check(p.error_code, p.error_message.as_ref(), place)?;
            }
        }
        Ok(())
    })
    .await
}

/// Deletes a group's offsets of topics that it does not subscribe to now.
pub(crate) async fn delete_offsets(
    cluster: &mut Cluster,
    group: &str,
    positions: &BTreeSet<Position>,
) -> Result<(), ClientError> {
    let mut topics: BTreeMap<&str, Vec<OffsetDeleteRequestPartition>> = BTreeMap::new();
    for (topic, partition_index) in positions {
        let partition = OffsetDeleteRequestPartition { partition_index: *partition_index };
        topics.entry(topic).or_default().push(partition);
    }
    let topic = |(name, partitions): (&str, Vec<OffsetDeleteRequestPartition>)| OffsetDeleteRequestTopic {
        name: name.to_owned(),
        partitions,
    };
    let request =
        OffsetDeleteRequest { group_id: group.to_owned(), topics: topics.into_iter().map(topic).collect() };
    retrying(cluster, async |cluster| {
        let (_, connection) = cluster.coordinator(group).await?;
        let answer = connection.call(&request).await?;
        check(answer.error_code, None, || format!("cannot delete offsets of group '{group}'"))?;
        for topic in answer.topics {
            for p in topic.partitions {
                let place = || format!("cannot delete the offset of {}-{}", topic.name, p.partition_index);
                check(p.error_code, None, place)?;
            }
        }
        Ok(())
    })
    .await
}

/// Deletes a share group's positions in topics that it does not subscribe to now.
pub(crate) async fn delete_share_offsets(
    cluster: &mut Cluster,
    group: &str,
    topics: &[String],
) -> Result<(), ClientError> {
    let topic = |name: &String| DeleteShareGroupOffsetsRequestTopic {
        topic_name: name.clone(),
        ..Default::default()
    };
    let request = DeleteShareGroupOffsetsRequest {
        group_id: group.to_owned(),
        topics: topics.iter().map(topic).collect(),
        ..Default::default()
    };
    retrying(cluster, async |cluster| {
        let (_, connection) = cluster.coordinator(group).await?;
        let answer = connection.call(&request).await?;
        let what = || format!("cannot delete offsets of share group '{group}'");
        check(answer.error_code, answer.error_message.as_ref(), what)?;
        for topic in answer.responses {
            let place = || format!("cannot delete the offsets of topic {}", topic.topic_name);
            check(topic.error_code, topic.error_message.as_ref(), place)?;
        }
        Ok(())
    })
    .await
}

/// Deletes a group without members, and its offsets.
pub(crate) async fn delete_group(cluster: &mut Cluster, group: &str) -> Result<(), ClientError> {
    let request = DeleteGroupsRequest { groups_names: vec![group.to_owned()], ..Default::default() };
    retrying(cluster, async |cluster| {
        let (_, connection) = cluster.coordinator(group).await?;
        for result in connection.call(&request).await?.results {
            check(result.error_code, None, || format!("cannot delete group '{}'", result.group_id))?;
        }
        Ok(())
    })
    .await
}
