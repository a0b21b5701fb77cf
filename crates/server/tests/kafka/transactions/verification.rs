//! The first batch of a transaction in a partition, for which the coordinator is asked.

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

use super::client::{
    NEW, Who, call_until_done, describe, end, ending, init, produce, produced, producing, started,
    transactional, until_committed,
};
use crate::common::rig::now;
use crate::common::{Client, OK, batch, error};

/// The first batch of a transaction arrives before the markers of the one before are written: here it is sent before EndTxn
/// is answered.
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
        // Markers that take long are waited for by the client.
        if produced(&answer) != ErrorCode::ConcurrentTransactions {
            assert_eq!(produced(&answer), OK, "turn {turn}");
        } else {
            assert_eq!(produce(&mut client, 12, "tx", next, (0, 0)).await, OK, "turn {turn}");
        }
        // Each turn is a record and a marker.
        expected.extend(commits.then_some(2 * turn));
        who = next;
    }
    until_committed(&mut client, 0, &expected).await;
}

/// Records in the coordinators' log.
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

/// A request with several partitions brings them into the transaction at once.
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
        "a repetition"
    );
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 1), first).await),
        [OK, OK, OK, unknown]
    );
    assert_eq!(coordinator_records(&mut client).await, 2);
    assert_eq!(describe(&mut client, "tx").await.topics[0].partitions, [0, 1, 2]);
    let next = end(&mut client, NEW, "tx", who, true).await.expect("it is committed");
    let old = InvalidProducerEpoch;
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 2), first).await),
        [old, old, old, unknown]
    );
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(next, 0), first).await),
        [OK, OK, OK, unknown]
    );
    end(&mut client, NEW, "tx", next, false).await.expect("it is aborted");
    for partition in 0..3 {
        until_committed(&mut client, partition, &[0, 1]).await;
    }
}
