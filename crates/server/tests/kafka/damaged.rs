//! Records that are known to be damaged and that no other replica has. Readers get an error, and nothing
//! blocks forever.

use crate::common::rig::*;
use crate::common::{Client, TestServer, error};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use tailrace_kafka_wire::messages::{OffsetCommitRequest, OffsetFetchRequest};

async fn until_known(server: &TestServer, partition: &str) {
    let what = format!("{partition} is damaged at offsets 3 to 5");
    eventually("the damage is found", || async { server.get("/healthz").await.1.contains(&what) }).await;
}

#[tokio::test]
async fn a_fetch_of_damaged_records_is_told_so_and_where_they_end() {
    let server = TestServer::with(&SCRUBBING).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    for first in [0, 3, 6] {
        client.produce_to("t", 0, -1, numbered(first, 3, 100)).await;
    }
    damage_second_batch(&server, "t-0");
    until_known(&server, "t-0").await;

    let before = client.fetch_from("t", 0, 0).await;
    let offsets: Vec<_> = decoded(&before).iter().map(|(offset, _)| *offset).collect();
    assert_eq!((error(before.error_code), offsets), (ErrorCode::None, vec![0, 1, 2]));
    for version in [4, 11, 12, 17] {
        for (offset, isolation_level) in [(3, 0), (4, 0), (5, 1)] {
            let mut request = fetch_request("t", 0, offset);
            request.isolation_level = isolation_level;
            if version >= 13 {
                let id = client.topic("t").await.topic_id;
                request.topics[0].topic_id = id;
            }
            let data = only_partition(client.call(version, &request).await);
            assert_eq!(
                error(data.error_code),
                ErrorCode::CorruptMessage,
                "version {version}, offset {offset}"
            );
            let end = (data.diverging_epoch.epoch, data.diverging_epoch.end_offset);
            assert_eq!(end, (-1, if version >= 12 { 6 } else { -1 }), "version {version}");
        }
    }
    let behind = client.fetch_from("t", 0, 6).await;
    assert_eq!((behind.error_code, decoded(&behind).len()), (0, 3));
}

async fn commit(client: &mut Client, offset: i64) {
    let partition = OffsetCommitRequestPartition { committed_offset: offset, ..Default::default() };
    let topic =
        OffsetCommitRequestTopic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
    let request = OffsetCommitRequest {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let answer = client.call(9, &request).await;
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
}

/// Returns the committed offset, or the error code instead.
async fn committed(client: &mut Client) -> Result<i64, ErrorCode> {
    let group = OffsetFetchRequestGroup { group_id: "g".to_owned(), topics: None, ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let answer = client.call(8, &request).await.groups.remove(0);
    match error(answer.error_code) {
        ErrorCode::None => Ok(answer.topics[0].partitions[0].committed_offset),
        code => Err(code),
    }
}

/// If the coordinator skipped a damaged position, it would take an older one for the newest, or find none.
/// Clients would skip records, or read a day's records again.
#[tokio::test]
async fn a_coordinator_does_not_pass_over_damaged_positions() {
    let mut server = TestServer::with(&[("offsets.topic.num.partitions", "1")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    for offset in 1..=3 {
        commit(&mut client, offset).await;
    }
    assert_eq!(committed(&mut client).await, Ok(3));
    // The scrubber has not found the damage: the coordinator checks the records that it acts on.
    server.stop().await;
    damage_second_batch(&server, "__consumer_offsets-0");
    server.begin(crate::common::local_disk()).await;
    let mut client = server.connect().await;
    assert_eq!(committed(&mut client).await, Err(ErrorCode::CoordinatorNotAvailable));
    server.stop().await;
    damage_second_batch(&server, "__consumer_offsets-0");
    server.begin(crate::common::local_disk()).await;
    assert_eq!(committed(&mut server.connect().await).await, Ok(3), "the records are complete again");
}
