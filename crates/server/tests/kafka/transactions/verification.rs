//! The first batch of a transaction in a partition, which the server verifies with the coordinator.

use tailrace_kafka_wire::ErrorCode::{self, InvalidProducerEpoch};
use tailrace_kafka_wire::Records;
use tailrace_kafka_wire::messages::end_txn_request::EndTxnRequest;
use tailrace_kafka_wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use tailrace_kafka_wire::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use tailrace_kafka_wire::messages::produce_response::ProduceResponse;

use tailrace_records::BatchOptions;

use super::client::{
    NEW, Who, call_until_done, describe, end, ending, init, produce, produced, producing, started,
    transactional, until_committed,
};
use crate::common::rig::now;
use crate::common::{Client, OK, batch, error};

/// The first batch of a transaction arrives before the markers of the previous one are written: the client
/// sends it before EndTxn is answered.
#[tokio::test]
async fn the_next_transaction_begins_while_the_one_before_is_completed() {
    const TURNS: i64 = 20;
    let (_server, mut client) = started().await;
    let mut who = init(&mut client, "tx").await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "tx", who, (0, 0)).await, OK);
    let mut expected = Vec::new();
    for turn in 0..TURNS {
        let (commits, next) = (turn % 5 != 4, (who.0, who.1 + 1));
        client.send(NEW, &ending("tx", who, commits)).await;
        client.send(12, &producing("tx", next, (0, 0))).await;
        let (_, ended) = client.answer::<EndTxnRequest>(NEW).await;
        assert_eq!((error(ended.error_code), ended.producer_epoch), (OK, next.1), "turn {turn}");
        let (_, answer) = client.answer::<ProduceRequest>(12).await;
        // If the markers take long, the client retries.
        if produced(&answer) != ErrorCode::ConcurrentTransactions {
            assert_eq!(produced(&answer), OK, "turn {turn}");
        } else {
            assert_eq!(produce(&mut client, 12, "tx", next, (0, 0)).await, OK, "turn {turn}");
        }
        // Each turn writes one record and one marker.
        expected.extend(commits.then_some(2 * turn));
        who = next;
    }
    until_committed(&mut client, 0, &expected).await;
}

/// Returns the number of records in the coordinators' log.
async fn coordinator_records(client: &mut Client) -> i64 {
    let partition =
        |partition_index| ListOffsetsPartition { partition_index, timestamp: -1, ..Default::default() };
    let topic = ListOffsetsTopic {
        name: "__transaction_state".to_owned(),
        partitions: (0..50).map(partition).collect(),
        ..Default::default()
    };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let answer = client.call(11, &request).await.topics.remove(0);
    answer.partitions.iter().map(|partition| partition.offset).sum()
}

/// A request with several partitions adds all of them to the transaction at once.
#[tokio::test]
async fn one_request_for_several_partitions_costs_one_record_of_the_coordinator() {
    let (_server, mut client) = started().await;
    let who = init(&mut client, "tx").await.expect("a producer");
    assert_eq!(coordinator_records(&mut client).await, 1);
    let request = |who: Who, sequence| {
        let data = |index| PartitionProduceData {
            index,
            records: Records::Bytes(batch(transactional(who, sequence), &[now().0])),
            ..Default::default()
        };
        let partition_data = (0..3).chain([9]).map(data).collect();
        let topic = TopicProduceData { name: "t".to_owned(), partition_data, ..Default::default() };
        ProduceRequest {
            transactional_id: Some("tx".to_owned()),
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic],
            ..Default::default()
        }
    };
    let codes = |answer: &ProduceResponse| {
        let partitions = answer.responses[0].partition_responses.iter();
        partitions.map(|partition| error(partition.error_code)).collect::<Vec<_>>()
    };
    let first = |answer: &ProduceResponse| codes(answer)[0];
    let unknown = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 0), first).await),
        [OK, OK, OK, unknown]
    );
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 0), first).await),
        [OK, OK, OK, unknown],
        "a retry"
    );
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 1), first).await),
        [OK, OK, OK, unknown]
    );
    assert_eq!(coordinator_records(&mut client).await, 2);
    assert_eq!(describe(&mut client, "tx").await.topics[0].partitions, [0, 1, 2]);
    let next = end(&mut client, NEW, "tx", who, true).await.expect("the transaction commits");
    let old = InvalidProducerEpoch;
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 2), first).await),
        [old, old, old, unknown]
    );
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(next, 0), first).await),
        [OK, OK, OK, unknown]
    );
    end(&mut client, NEW, "tx", next, false).await.expect("the transaction aborts");
    for partition in 0..3 {
        until_committed(&mut client, partition, &[0, 1]).await;
    }
}

/// Returns the answer to one batch: its error code and the log start offset.
async fn answer_of(client: &mut Client, version: i16, id: &str, records: bytes::Bytes) -> (ErrorCode, i64) {
    let data = PartitionProduceData { index: 0, records: Records::Bytes(records), ..Default::default() };
    let topic =
        TopicProduceData { name: "small".to_owned(), partition_data: vec![data], ..Default::default() };
    let request = ProduceRequest {
        transactional_id: Some(id.to_owned()),
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![topic],
        ..Default::default()
    };
    let answer = call_until_done(client, version, &request, produced).await;
    (produced(&answer), answer.responses[0].partition_responses[0].log_start_offset)
}

fn large() -> Vec<i64> {
    vec![now().0; 100]
}

fn damaged(batch: &bytes::Bytes) -> bytes::Bytes {
    let mut bytes = batch.to_vec();
    *bytes.last_mut().expect("a batch") ^= 1;
    bytes.into()
}

/// Kafka asks the coordinator first, so the partition is in the transaction whatever is wrong with the batch.
/// The exception is data that is not a single batch.
#[tokio::test]
async fn a_partition_is_in_the_transaction_before_its_first_batch_is_looked_at() {
    let (_server, mut client) = started().await;
    client.create_topic("small", 1, &[("max.message.bytes", "1000")]).await;
    let fine = |who| batch(transactional(who, 0), &[now().0]);
    type Make<'a> = &'a dyn Fn(Who) -> bytes::Bytes;
    let cases: [(&str, Make<'_>, (ErrorCode, i64), bool); 6] = [
        ("large", &|who| batch(transactional(who, 0), &large()), (ErrorCode::MessageTooLarge, -1), true),
        ("damaged", &|who| damaged(&fine(who)), (ErrorCode::CorruptMessage, -1), true),
        (
            "gap",
            &|who| batch(transactional(who, 5), &[now().0]),
            (ErrorCode::OutOfOrderSequenceNumber, 0),
            true,
        ),
        (
            "future",
            &|who| batch(transactional(who, 0), &[now().0 * 2]),
            (ErrorCode::InvalidTimestamp, 0),
            true,
        ),
        ("cut", &|who| fine(who).slice(..70), (ErrorCode::InvalidRecord, -1), false),
        ("two", &|who| [fine(who), fine(who)].concat().into(), (ErrorCode::InvalidRecord, -1), false),
    ];
    for (id, make, expected, is_in) in cases {
        let who = init(&mut client, id).await.expect("a producer");
        assert_eq!(answer_of(&mut client, 12, id, make(who)).await, expected, "{id}");
        let state = describe(&mut client, id).await;
        assert_eq!(state.transaction_state, if is_in { "Ongoing" } else { "Empty" }, "{id}");
        assert_eq!(state.topics.len(), usize::from(is_in), "{id}");
        // Such a transaction can be ended like any other.
        if is_in {
            end(&mut client, NEW, id, who, false).await.expect("the transaction aborts");
        }
    }
}

/// A fenced producer learns that it is fenced, whatever else is wrong with its batch.
#[tokio::test]
async fn a_fenced_producer_learns_that_first() {
    let (_server, mut client) = started().await;
    client.create_topic("small", 1, &[("max.message.bytes", "1000")]).await;
    let old = init(&mut client, "tx").await.expect("a producer");
    let first = batch(transactional(old, 0), &[now().0]);
    assert_eq!(answer_of(&mut client, 12, "tx", first.clone()).await, (OK, 0));
    let next = init(&mut client, "tx").await.expect("another producer");
    assert!(next.1 > old.1);
    for version in [9, 12] {
        for records in [
            batch(transactional(old, 1), &[now().0]),
            batch(transactional(old, 1), &large()),
            batch(transactional(old, 1), &[now().0 * 2]),
            batch(transactional(old, 9), &[now().0]),
            damaged(&first),
        ] {
            let answer = answer_of(&mut client, version, "tx", records).await;
            assert_eq!(answer, (InvalidProducerEpoch, -1), "version {version}");
        }
    }
}

/// A producer with a transactional id may write outside its transactions. As in Kafka, its next batch must
/// then carry the sequence number of the batch that was refused.
#[tokio::test]
async fn what_was_to_be_verified_comes_before_batches_outside_of_transactions() {
    let (_server, mut client) = started().await;
    client.create_topic("small", 1, &[]).await;
    let who = init(&mut client, "tx").await.expect("a producer");
    let outside =
        |sequence| batch(BatchOptions { transactional: false, ..transactional(who, sequence) }, &[now().0]);
    // The partition was not added. In the old protocol the client has to add it.
    let refused = answer_of(&mut client, 9, "tx", batch(transactional(who, 2), &[now().0])).await;
    assert_eq!(refused.0, ErrorCode::InvalidTxnState);
    assert_eq!(answer_of(&mut client, 9, "tx", outside(3)).await.0, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(answer_of(&mut client, 9, "tx", outside(2)).await, (OK, 0));
}
