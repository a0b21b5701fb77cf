//! Kafka's own tool reads what our group coordinator writes to `__consumer_offsets`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Client, TestServer};
use bytes::Bytes;
use tailrace_kafka_wire::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use tailrace_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use tailrace_kafka_wire::messages::{DeleteGroupsRequest, LeaveGroupRequest};

async fn commit(client: &mut Client, version: i16, group: &str, offset: i64, retention_time_ms: i64) {
    let request = OffsetCommitRequest {
        group_id: group.to_owned(),
        retention_time_ms,
        topics: vec![OffsetCommitRequestTopic {
            name: "t".to_owned(),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: offset,
                committed_leader_epoch: if version >= 6 { 3 } else { -1 },
                committed_metadata: Some("note".to_owned()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(client.call(version, &request).await.topics[0].partitions[0].error_code, 0);
}

/// A static member joins alone and gets an assignment. Then an administrator removes it.
async fn live(client: &mut Client) {
    let protocol = JoinGroupRequestProtocol {
        name: "range".to_owned(),
        metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"),
        ..Default::default()
    };
    let join = JoinGroupRequest {
        group_id: "g".to_owned(),
        group_instance_id: Some("instance".to_owned()),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol],
        ..Default::default()
    };
    let joined = client.call(9, &join).await;
    let sync = SyncGroupRequest {
        group_id: "g".to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("range".to_owned()),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: joined.member_id.clone(),
            assignment: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\xff\xff\xff\xff"),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(client.call(5, &sync).await.error_code, 0);
    let leave =
        LeaveGroupRequest { group_id: "g".to_owned(), member_id: joined.member_id, ..Default::default() };
    assert_eq!(client.call(2, &leave).await.error_code, 0);
}

fn logs_of_groups(data: &Path) -> Vec<PathBuf> {
    let mut logs = Vec::new();
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "log")
                && path.to_string_lossy().contains("__consumer_offsets-")
            {
                logs.push(path);
            }
        }
    }
    logs
}

#[tokio::test]
#[ignore = "needs a JRE, and KAFKA_LIBS with the folder of Kafka 4.3.1's jars"]
async fn kafka_itself_understands_our_groups_and_offsets() {
    let libs = PathBuf::from(std::env::var_os("KAFKA_LIBS").expect("KAFKA_LIBS is set")).join("*");
    let settings = [("group.initial.rebalance.delay.ms", "0"), ("offsets.topic.num.partitions", "1")];
    let mut server = TestServer::with(&settings).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    live(&mut client).await;
    commit(&mut client, 9, "g", 42, -1).await;
    commit(&mut client, 3, "old", 7, 60_000).await;
    commit(&mut client, 9, "gone", 1, -1).await;
    let delete = DeleteGroupsRequest { groups_names: vec!["gone".to_owned()], ..Default::default() };
    assert_eq!(client.call(2, &delete).await.results[0].error_code, 0);
    drop(client);
    server.stop().await;
    let logs = logs_of_groups(&server.data());
    assert_eq!(logs.len(), 1, "{logs:?}");
    let output = Command::new("java")
        .arg("-cp")
        .arg(&libs)
        .args(["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files"])
        .arg(&logs[0])
        .output()
        .expect("java runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let has = |parts: &[&str]| {
        let found = text.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{parts:?} is not in\n{text}\n{errors}");
    };
    has(&[
        "\"type\":\"2\"",
        "\"group\":\"g\"",
        "\"generation\":1",
        "\"groupInstanceId\":\"instance\"",
        "\"version\":\"3\"",
    ]);
    has(&["\"type\":\"2\"", "\"group\":\"g\"", "\"generation\":2", "\"members\":[]"]);
    has(&[
        "\"type\":\"1\"",
        "\"group\":\"g\"",
        "\"offset\":42",
        "\"leaderEpoch\":3",
        "\"note\"",
        "\"version\":\"4\"",
    ]);
    has(&[
        "\"type\":\"1\"",
        "\"group\":\"old\"",
        "\"offset\":7",
        "\"expireTimestamp\":",
        "\"version\":\"1\"",
    ]);
    has(&["\"type\":\"1\"", "\"group\":\"gone\"", "payload: <DELETE>"]);
    assert!(!text.contains("Could not decode") && !text.contains("isvalid: false"), "{text}");
}
