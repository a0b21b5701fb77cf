//! Counts the records between two offsets of a partition. The markers that end transactions take offsets,
//! too, and so do records that compaction removed. So a consumer that has read everything may be a few
//! offsets before the end and has missed nothing.

use std::ops::Range;

use tailrace_kafka_wire::Records;
use tailrace_kafka_wire::messages::FetchRequest;
use tailrace_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use tailrace_records::split_batches;

use super::{ClientError, Cluster, Topic, check};

/// First version that names topics by id (KIP-516).
const VERSION_WITH_IDS: i16 = 13;
/// Longer ranges are not fetched: a few markers make no difference there.
const OFFSETS_MAX: i64 = 1_000;
/// Bytes to fetch for a range.
const BYTES_MAX: i32 = 1 << 20;

/// Counts the records whose offsets are in `range`. Never negative. Every offset counts where the records
/// cannot be fetched.
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
    // If the leader does not answer, or has deleted the start of the range, the number of offsets must do.
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
    let what = || format!("cannot read {}-{partition}", topic.name);
    check(answer.error_code, None, what)?;
    let (mut records, mut at) = (0, from);
    for data in answer.responses.into_iter().flat_map(|topic| topic.partitions) {
        check(data.error_code, None, what)?;
        let Records::Bytes(batches) = data.records else { continue };
        for batch in split_batches(&batches) {
            // The last batch may be cut off.
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
