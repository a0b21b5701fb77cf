//! How many records lie between two offsets of a partition. Offsets also belong to the markers that end transactions, and to
//! records that compaction removed: a consumer that has read everything may stand before them and has missed nothing.

use std::ops::Range;

use tailrace_kafka_wire::Records;
use tailrace_kafka_wire::messages::FetchRequest;
use tailrace_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use tailrace_records::split_batches;

use super::{ClientError, Cluster, Topic, check};

/// From this version on topics are named by their ids (KIP-516).
const VERSION_WITH_IDS: i16 = 13;
/// Longer stretches are not looked into: a few markers do not matter there.
const OFFSETS_MAX: i64 = 1_000;
/// Bytes that are read to look into one.
const BYTES_MAX: i32 = 1 << 20;

/// Records whose offsets lie in `range`. Never negative. What could not be looked into counts in full.
pub(crate) async fn records_between(
    cluster: &mut Cluster,
    topic: &Topic,
    partition: i32,
    range: Range<i64>,
) -> i64 {
    let offsets = (range.end - range.start).max(0);
    if offsets == 0 || offsets > OFFSETS_MAX {
        return offsets;
    }
    // Whoever cannot be asked, or has deleted what the range begins with, leaves us with the offsets.
    count(cluster, topic, partition, range).await.unwrap_or(offsets)
}

async fn count(
    cluster: &mut Cluster,
    topic: &Topic,
    partition: i32,
    range: Range<i64>,
) -> Result<i64, ClientError> {
    let Range { start: from, end: until } = range;
    let leader = topic.leader(partition).ok_or(ClientError::NoNode(-1))?;
    let connection = cluster.node(leader).await?;
    let newest = if topic.id == [0; 16] { VERSION_WITH_IDS - 1 } else { i16::MAX };
    let version = connection.version_up_to::<FetchRequest>(newest)?;
    let wanted = FetchPartition {
        partition,
        fetch_offset: from,
        partition_max_bytes: BYTES_MAX,
        ..Default::default()
    };
    let request = FetchRequest {
        max_bytes: BYTES_MAX,
        isolation_level: 1,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: topic.name.clone(),
            topic_id: topic.id,
            partitions: vec![wanted],
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = connection.begin(&request, version).await?.answer().await?;
    let what = || format!("cannot look into {}-{partition}", topic.name);
    check(answer.error_code, None, what)?;
    let (mut records, mut at) = (0, from);
    for data in answer.responses.into_iter().flat_map(|topic| topic.partitions) {
        check(data.error_code, None, what)?;
        let Records::Bytes(batches) = data.records else { continue };
        for batch in split_batches(&batches) {
            // The last one may be cut off.
            let Ok((header, _)) = batch else { break };
            let (first, next) = (header.base_offset.0.max(from), header.next_offset().0.min(until));
            if !header.attributes.is_control() {
                records += (next - first).max(0);
            }
            at = at.max(next);
        }
    }
    Ok(records + (until - at).max(0))
}
