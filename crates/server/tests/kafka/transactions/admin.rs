//! What administrators see of transactions, and how they end them.

use tailrace_kafka_wire::ErrorCode::{self, TransactionalIdNotFound};
use tailrace_kafka_wire::Records;
use tailrace_kafka_wire::messages::describe_producers_request::{DescribeProducersRequest, TopicRequest};
use tailrace_kafka_wire::messages::find_coordinator_request::FindCoordinatorRequest;
use tailrace_kafka_wire::messages::list_transactions_request::ListTransactionsRequest;
use tailrace_kafka_wire::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use tailrace_kafka_wire::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};

use super::client::{OLD, describe, end, init, produce, produced, started, transactional, until_committed};
use crate::common::rig::{fetch_request, now, only_partition};
use crate::common::{Client, OK, batch, error};

async fn list(client: &mut Client, request: ListTransactionsRequest) -> Vec<(String, String)> {
    let answer = client.call(2, &request).await;
    assert_eq!(error(answer.error_code), OK);
    let mut all: Vec<_> = answer
        .transaction_states
        .into_iter()
        .map(|one| (one.transactional_id, one.transaction_state))
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn transactions_are_listed_and_described() {
    let (server, mut client) = started().await;
    let all = ListTransactionsRequest { duration_filter: -1, ..Default::default() };
    assert_eq!(list(&mut client, all.clone()).await, []);
    let a = init(&mut client, "orders-a").await.expect("a producer");
    let b = init(&mut client, "orders-b").await.expect("a producer");
    init(&mut client, "payments").await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "orders-b", b, (2, 0)).await, OK);
    let entry = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    let (empty_a, ongoing_b) = (entry("orders-a", "Empty"), entry("orders-b", "Ongoing"));
    let listed = list(&mut client, all.clone()).await;
    assert_eq!(listed, [empty_a.clone(), ongoing_b.clone(), entry("payments", "Empty")]);
    let of_a = ListTransactionsRequest { producer_id_filters: vec![a.0], ..all.clone() };
    assert_eq!(list(&mut client, of_a).await, std::slice::from_ref(&empty_a));
    let ongoing = ListTransactionsRequest { state_filters: vec!["Ongoing".to_owned()], ..all.clone() };
    assert_eq!(list(&mut client, ongoing).await, std::slice::from_ref(&ongoing_b));
    let long = ListTransactionsRequest { duration_filter: 3_600_000, ..all.clone() };
    assert_eq!(list(&mut client, long).await, []);
    let orders =
        ListTransactionsRequest { transactional_id_pattern: Some("orders-.".to_owned()), ..all.clone() };
    assert_eq!(list(&mut client, orders).await, [empty_a, ongoing_b]);
    let bad = ListTransactionsRequest { transactional_id_pattern: Some("(".to_owned()), ..all.clone() };
    let refused = client.call(2, &bad).await;
    assert_eq!(error(refused.error_code), ErrorCode::InvalidRegularExpression);
    let odd = ListTransactionsRequest { state_filters: vec!["Odd".to_owned()], ..all };
    assert_eq!(client.call(0, &odd).await.unknown_state_filters, ["Odd"]);

    assert_eq!(error(describe(&mut client, "nobody").await.error_code), TransactionalIdNotFound);
    assert_eq!(error(describe(&mut client, "").await.error_code), ErrorCode::InvalidRequest);
    let long_id = "x".repeat(5000);
    assert_eq!(init(&mut client, &long_id).await, Err(ErrorCode::InvalidRequest));
    let find = FindCoordinatorRequest {
        key_type: 1,
        coordinator_keys: vec!["orders-a".to_owned()],
        ..Default::default()
    };
    let found = client.call(6, &find).await.coordinators.remove(0);
    assert_eq!((error(found.error_code), found.port), (OK, i32::from(server.kafka().port())));
}

/// The last timestamp of a producer counts markers too, even if the epoch stays the same. The timestamp of a
/// marker follows the topic's timestamp type.
#[tokio::test]
async fn a_marker_is_the_last_that_a_producer_wrote() {
    let (_server, mut client) = started().await;
    client.create_topic("stamped", 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let began = now().0;
    for (topic, attributes) in [("t", 0x30), ("stamped", 0x38)] {
        let who = init(&mut client, topic).await.expect("a producer");
        let written = began - 5000;
        let data = PartitionProduceData {
            index: 0,
            records: Records::Bytes(batch(transactional(who, 0), &[written])),
            ..Default::default()
        };
        let request = ProduceRequest {
            transactional_id: Some(topic.to_owned()),
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![TopicProduceData {
                name: topic.to_owned(),
                partition_data: vec![data],
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(produced(&client.call(12, &request).await), OK);
        let asked = DescribeProducersRequest {
            topics: vec![TopicRequest {
                name: topic.to_owned(),
                partition_indexes: vec![0],
                ..Default::default()
            }],
            ..Default::default()
        };
        let last = async |client: &mut Client| {
            let producers =
                client.call(0, &asked).await.topics.remove(0).partitions.remove(0).active_producers;
            producers
                .iter()
                .find(|one| one.producer_id == who.0)
                .expect("the producer is known")
                .last_timestamp
        };
        let is_stamped = attributes & 0x08 != 0;
        assert!(last(&mut client).await >= if is_stamped { began } else { written });
        assert_eq!(last(&mut client).await < began, !is_stamped, "{topic}");
        // A client of the old protocol, in which the epoch stays the same.
        end(&mut client, OLD, topic, who, true).await.expect("the transaction commits");
        while describe(&mut client, topic).await.transaction_state != "CompleteCommit" {
            tokio::task::yield_now().await;
        }
        assert!(last(&mut client).await >= began, "{topic}");
        let data = only_partition(client.call(12, &fetch_request(topic, 0, 1)).await);
        let Records::Bytes(bytes) = data.records else { panic!("records in memory") };
        assert_eq!(bytes[22], attributes, "{topic}");
    }
}

#[tokio::test]
async fn administrators_end_transactions_in_a_partition() {
    let (_server, mut client) = started().await;
    let who = init(&mut client, "tx").await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "tx", who, (0, 0)).await, OK);
    let marker = |producer_epoch, index| {
        let topic = WritableTxnMarkerTopic {
            name: "t".to_owned(),
            partition_indexes: vec![index],
            ..Default::default()
        };
        let marker = WritableTxnMarker {
            producer_id: who.0,
            producer_epoch,
            transaction_result: false,
            topics: vec![topic],
            coordinator_epoch: 1,
            ..Default::default()
        };
        WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() }
    };
    let code =
        |mut answer: tailrace_kafka_wire::messages::write_txn_markers_response::WriteTxnMarkersResponse| {
            error(answer.markers.remove(0).topics.remove(0).partitions.remove(0).error_code)
        };
    assert_eq!(code(client.call(1, &marker(-1, 0)).await), ErrorCode::InvalidRequest);
    assert_eq!(code(client.call(1, &marker(who.1, 9)).await), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(code(client.call(1, &marker(who.1, 0)).await), OK);
    client.produce("t", 0, &[1]).await;
    until_committed(&mut client, 0, &[2]).await;
}
