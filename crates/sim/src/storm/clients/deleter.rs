//! Deletes old records, up to any offset that was acknowledged.

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::DeleteRecordsRequest;
use tailrace_kafka_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use tailrace_types::PartitionId;

use super::client::{Client, below, code, pause};
use crate::storm::history::Phase;
use crate::storm::site::{OLD_TOPIC, topic_partition};

const DELETE_RECORDS: i16 = 2;

/// The longest pause between two requests.
const PAUSE_MS: u64 = 2_000;

pub(super) async fn run(mut client: Client) {
    while client.history.lock().phase() == Phase::Storm {
        pause(PAUSE_MS).await;
        let highest = client.history.lock().highest_in(OLD_TOPIC);
        let Some(highest) = highest.and_then(|offset| u64::try_from(offset.get()).ok()) else { continue };
        let to = i64::try_from(below(highest + 2)).expect("a small number");
        match delete(&mut client, to).await {
            Some(low_watermark) => {
                client.history.lock().was_deleted(low_watermark);
                client.count("old records were deleted");
            }
            None => client.refresh().await,
        }
    }
}

/// Deletes records below `to`. Returns the new log start, or `None` if it is unknown.
async fn delete(client: &mut Client, to: i64) -> Option<i64> {
    let (leader, _) = client.leader(&topic_partition(OLD_TOPIC, PartitionId(0))).await?;
    let partition = DeleteRecordsPartition { partition_index: 0, offset: to, ..Default::default() };
    let (name, partitions) = (OLD_TOPIC.to_owned(), vec![partition]);
    let topic = DeleteRecordsTopic { name, partitions, ..Default::default() };
    let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() };
    client.history.lock().asked_to_delete(to);
    let answer = client.ask(leader, DELETE_RECORDS, &request).await?;
    let partition = answer.topics.first()?.partitions.first()?;
    (code(partition.error_code) == ErrorCode::None).then_some(partition.low_watermark)
}
