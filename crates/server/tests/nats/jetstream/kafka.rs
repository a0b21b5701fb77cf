//! What Kafka clients do to the topics of streams, as JetStream's API then tells of them.

use serde_json::json;
use tailrace_kafka_wire::messages::DeleteTopicsRequest;
use tailrace_kafka_wire::messages::create_partitions_request::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use tailrace_kafka_wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};

use super::messages::with_messages;
use super::{Asker, ON};
use crate::common::rig::eventually;
use crate::common::{Client, TestServer};

/// Asks for two partitions, and returns the error.
async fn widen(kafka: &mut Client, topic: &str) -> i16 {
    let topics = vec![CreatePartitionsTopic { name: topic.to_owned(), count: 2, ..Default::default() }];
    let request = CreatePartitionsRequest { topics, timeout_ms: 10_000, ..Default::default() };
    kafka.call(3, &request).await.results[0].error_code
}

/// Deletes the records before this offset.
async fn delete_before(kafka: &mut Client, topic: &str, offset: i64) {
    let partitions = vec![DeleteRecordsPartition { offset, ..Default::default() }];
    let topics = vec![DeleteRecordsTopic { name: topic.to_owned(), partitions, ..Default::default() }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 10_000, ..Default::default() };
    assert_eq!(kafka.call(2, &request).await.topics[0].partitions[0].error_code, 0);
}

async fn delete(kafka: &mut Client, topic: &str) {
    let request = DeleteTopicsRequest { topic_names: vec![topic.to_owned()], ..Default::default() };
    assert_eq!(kafka.call(5, &request).await.responses[0].error_code, 0);
}

#[tokio::test]
async fn a_stream_whose_topic_kafka_deletes_is_gone_and_can_be_made_again() {
    let (server, mut asker) = with_messages(3).await;
    let mut kafka = server.connect().await;
    assert_eq!(asker.api("STREAM.INFO.S", "").await["state"]["messages"], 3);
    delete(&mut kafka, "S").await;
    assert_eq!(asker.refusal("STREAM.INFO.S", "").await, 10059);
    assert_eq!(asker.refusal("STREAM.MSG.GET.S", r#"{"seq":1}"#).await, 10059);
    let direct = asker.ask("$JS.API.DIRECT.GET.S", r#"{"seq":1}"#).await;
    assert!(direct.headers.starts_with("NATS/1.0 503\r\n"), "{direct:?}");
    let made = asker.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["a.>"]}"#).await;
    assert_eq!(made["did_create"], true, "{made}");
    // Nothing of the old one shows in the new one.
    let state = &asker.api("STREAM.INFO.S", "").await["state"];
    assert_eq!((&state["messages"], &state["last_seq"]), (&json!(0), &json!(0)));
    assert_eq!(asker.ask("a.x", "new").await.payload, r#"{"stream":"S","seq":1}"#);
    assert_eq!(asker.api("STREAM.MSG.GET.S", r#"{"seq":1}"#).await["message"]["data"], "bmV3");
    assert_eq!(asker.refusal("STREAM.MSG.GET.S", r#"{"seq":2}"#).await, 10037);
}

#[tokio::test]
async fn a_stream_keeps_its_only_partition() {
    let (server, mut asker) = with_messages(3).await;
    let mut kafka = server.connect().await;
    assert_eq!(widen(&mut kafka, "S").await, 37);
    assert_eq!(asker.api("STREAM.INFO.S", "").await["state"]["messages"], 3);
}

/// It is its own topic, so it may. The table of its messages is dropped.
#[tokio::test]
async fn a_topic_of_kafka_that_gets_more_partitions_is_no_stream_any_more() {
    let server = TestServer::with(&[ON]).await;
    let (mut asker, mut kafka) = (Asker::new(&server).await, server.connect().await);
    kafka.create_topic("pay", 1, &[("tailrace.subjects", "pay.>")]).await;
    assert_eq!(asker.ask("pay.a", "x").await.payload, r#"{"stream":"pay","seq":1}"#);
    assert_eq!(asker.api("STREAM.INFO.pay", "").await["state"]["messages"], 1);
    assert!(server.get("/metrics").await.1.contains("\ntailrace_stream_tables 1\n"));
    assert_eq!(widen(&mut kafka, "pay").await, 0);
    assert_eq!(asker.api("STREAM.NAMES", "").await["total"], 0);
    assert_eq!(asker.refusal("STREAM.INFO.pay", "").await, 10059);
    assert_eq!(asker.refusal("STREAM.MSG.GET.pay", r#"{"seq":1}"#).await, 10059);
    let is_dropped = async || server.get("/metrics").await.1.contains("\ntailrace_stream_tables 0\n");
    eventually("the table is dropped", is_dropped).await;
}

#[tokio::test]
async fn records_that_kafka_deletes_are_no_messages_any_more() {
    let (server, mut asker) = with_messages(7).await;
    let mut kafka = server.connect().await;
    assert_eq!(asker.api("STREAM.INFO.S", "").await["state"]["messages"], 7);
    delete_before(&mut kafka, "S", 4).await;
    let info = asker.api("STREAM.INFO.S", r#"{"subjects_filter":">"}"#).await;
    let state = &info["state"];
    assert_eq!(
        (&state["messages"], &state["first_seq"], &state["last_seq"]),
        (&json!(3), &json!(5), &json!(7))
    );
    assert_eq!(state["subjects"], json!({"a.0": 1, "a.1": 1, "a.2": 1}));
    assert_eq!(asker.refusal("STREAM.MSG.GET.S", r#"{"seq":4}"#).await, 10037);
    assert_eq!(asker.api("STREAM.MSG.GET.S", r#"{"seq":5}"#).await["message"]["subject"], "a.1");
    // All of them: the last sequence stays.
    delete_before(&mut kafka, "S", -1).await;
    let state = &asker.api("STREAM.INFO.S", "").await["state"];
    assert_eq!(
        (&state["messages"], &state["first_seq"], &state["last_seq"]),
        (&json!(0), &json!(8), &json!(7))
    );
    assert_eq!(asker.refusal("STREAM.MSG.GET.S", r#"{"last_by_subj":"a.>"}"#).await, 10037);
}

/// Keys that are subjects are the subjects of records that Kafka clients write.
#[tokio::test]
async fn records_of_kafka_clients_are_messages_of_the_stream() {
    let (server, mut asker) = with_messages(1).await;
    let mut kafka = server.connect().await;
    kafka.produce("S", 0, &[1, 2]).await;
    let info = asker.api("STREAM.INFO.S", r#"{"subjects_filter":">"}"#).await;
    assert_eq!(info["state"]["messages"], 3);
    assert_eq!(info["state"]["subjects"], json!({"a.0": 1, "key": 2}));
    let found = asker.api("STREAM.MSG.GET.S", r#"{"last_by_subj":"key"}"#).await;
    assert_eq!(found["message"]["seq"], 3, "{found}");
}
