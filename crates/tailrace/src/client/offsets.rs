//! Finds offsets: the ends of partitions, and by time.

use std::collections::BTreeMap;

use tailrace_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use tailrace_kafka_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::{ClientError, Cluster, Topic, check, find_topic, retrying};

/// Which offset of a partition to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetQuery {
    /// The first record that is still retained.
    Earliest,
    /// One past the last record that a consumer may read.
    Latest,
    /// The first record whose timestamp is at least this, in milliseconds.
    AtTime(i64),
}

impl OffsetQuery {
    fn timestamp(self) -> i64 {
        match self {
            Self::Earliest => -2,
            Self::Latest => -1,
            // Negative numbers have special meanings.
            Self::AtTime(ms) => ms.max(0),
        }
    }
}

/// Returns the offsets that match `query`, by partition; -1 if no record is late enough. With
/// `read_committed`, the latest offset is the last stable one.
pub(crate) async fn list_offsets(
    cluster: &mut Cluster,
    topic: &Topic,
    partitions: &[i32],
    query: OffsetQuery,
    read_committed: bool,
) -> Result<BTreeMap<i32, i64>, ClientError> {
    let mut fresh = topic.clone();
    let mut failed = false;
    retrying(cluster, async |cluster| {
        if std::mem::replace(&mut failed, true) {
            fresh = find_topic(cluster, &fresh.name).await?;
        }
        let mut offsets = BTreeMap::new();
        for (leader, request) in requests(&fresh, partitions, query, read_committed)? {
            let answer = cluster.node(leader).await?.call(&request).await?;
            take(&fresh.name, answer, &mut offsets)?;
        }
        Ok(offsets)
    })
    .await
}

/// Makes one request per leader.
fn requests(
    topic: &Topic,
    partitions: &[i32],
    query: OffsetQuery,
    read_committed: bool,
) -> Result<BTreeMap<i32, ListOffsetsRequest>, ClientError> {
    let mut requests = BTreeMap::new();
    for &partition in partitions {
        let leader = topic.leader(partition).ok_or(ClientError::NoNode(-1))?;
        let request = requests.entry(leader).or_insert_with(|| ListOffsetsRequest {
            isolation_level: i8::from(read_committed),
            topics: vec![ListOffsetsTopic { name: topic.name.clone(), ..Default::default() }],
            ..Default::default()
        });
        request.topics[0].partitions.push(ListOffsetsPartition {
            partition_index: partition,
            timestamp: query.timestamp(),
            ..Default::default()
        });
    }
    Ok(requests)
}

fn take(
    topic: &str,
    answer: ListOffsetsResponse,
    offsets: &mut BTreeMap<i32, i64>,
) -> Result<(), ClientError> {
    for partition in answer.topics.into_iter().flat_map(|topic| topic.partitions) {
        let index = partition.partition_index;
        check(partition.error_code, None, || format!("cannot find offsets of {topic}-{index}"))?;
        offsets.insert(index, partition.offset);
    }
    Ok(())
}
