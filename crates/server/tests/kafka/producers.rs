//! Producer ids, what partitions remember of producers, and the answers to requests for features that do not
//! exist yet.

use crate::common::{Client, OK, TestServer, batch, error};
use tailrace_kafka_wire::ErrorCode::{self, InvalidRequest, InvalidTopicException, UnknownTopicOrPartition};
use tailrace_kafka_wire::messages::describe_producers_request::{DescribeProducersRequest, TopicRequest};
use tailrace_kafka_wire::messages::find_coordinator_request::FindCoordinatorRequest;
use tailrace_kafka_wire::messages::init_producer_id_request::InitProducerIdRequest;
use tailrace_records::BatchOptions;
use tailrace_types::{ProducerEpoch, ProducerId};

async fn init(client: &mut Client, request: InitProducerIdRequest) -> Result<i64, ErrorCode> {
    let answer = client.call(5, &request).await;
    match error(answer.error_code) {
        OK => {
            assert_eq!(answer.producer_epoch, 0);
            Ok(answer.producer_id)
        }
        code => {
            assert_eq!((answer.producer_id, answer.producer_epoch), (-1, -1));
            Err(code)
        }
    }
}

fn idempotent() -> InitProducerIdRequest {
    InitProducerIdRequest { transactional_id: None, ..Default::default() }
}

#[tokio::test]
async fn ids_are_never_given_out_twice() {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    let first = init(&mut client, idempotent()).await.expect("an id");
    let second = init(&mut client, idempotent()).await.expect("an id");
    assert_eq!((first, second), (0, 1));
    let known = InitProducerIdRequest { producer_id: second, producer_epoch: 0, ..idempotent() };
    assert_eq!(init(&mut client, known).await, Ok(2), "without a transactional id, a new producer id");

    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let mut client = server.connect().await;
        tasks.spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..100 {
                ids.push(init(&mut client, idempotent()).await.expect("an id"));
            }
            ids
        });
    }
    let mut ids = tasks.join_all().await.concat();
    ids.sort_unstable();
    assert_eq!(ids, (3..1603).collect::<Vec<_>>());
    server.restart().await;
    let mut client = server.connect().await;
    assert!(init(&mut client, idempotent()).await.expect("an id") >= 1603);
}

#[tokio::test]
async fn requests_that_are_refused_at_once() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let nameless = InitProducerIdRequest {
        transactional_id: Some(String::new()),
        transaction_timeout_ms: 1000,
        ..Default::default()
    };
    assert_eq!(init(&mut client, nameless).await, Err(InvalidRequest));
    let half = InitProducerIdRequest { producer_id: 5, ..idempotent() };
    assert_eq!(init(&mut client, half).await, Err(InvalidRequest));
    let half = InitProducerIdRequest { producer_epoch: 5, ..idempotent() };
    assert_eq!(init(&mut client, half).await, Err(InvalidRequest));
    // Share groups, and an unknown type.
    for key_type in [2, 9] {
        let request =
            FindCoordinatorRequest { key_type, coordinator_keys: vec!["g".to_owned()], ..Default::default() };
        let coordinator = client.call(6, &request).await.coordinators.remove(0);
        assert_eq!((coordinator.key.as_str(), error(coordinator.error_code)), ("g", InvalidRequest));
        assert!(!error(coordinator.error_code).is_retriable(), "clients must not retry forever");
        assert!(coordinator.error_message.is_some_and(|message| message.len() > 10));
    }
}

#[tokio::test]
async fn producers_are_remembered() {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 2, &[]).await;
    let from = |base_sequence| BatchOptions {
        producer_id: ProducerId(77),
        producer_epoch: ProducerEpoch(3),
        base_sequence,
        ..Default::default()
    };
    assert_eq!(client.produce_batch("t", 0, batch(from(0), &[1000, 3000, 2000])).await.error_code, 0);
    assert_eq!(client.produce_batch("t", 0, batch(from(3), &[4000])).await.error_code, 0);
    client.produce("t", 1, &[1]).await;
    for _ in 0..2 {
        let request = DescribeProducersRequest {
            topics: vec![
                TopicRequest {
                    name: "t".to_owned(),
                    partition_indexes: vec![0, 1, 5, 0],
                    ..Default::default()
                },
                TopicRequest { name: "a/b".to_owned(), partition_indexes: vec![0], ..Default::default() },
            ],
            ..Default::default()
        };
        let topics = client.call(0, &request).await.topics;
        let bad = topics.iter().find(|t| t.name == "a/b").expect("the response has the topic");
        assert_eq!(error(bad.partitions[0].error_code), InvalidTopicException);
        let good = &topics.iter().find(|t| t.name == "t").expect("the response has the topic").partitions;
        let codes: Vec<_> = good.iter().map(|p| (p.partition_index, error(p.error_code))).collect();
        assert_eq!(codes, [(0, OK), (1, OK), (5, UnknownTopicOrPartition)]);
        assert!(good[1].active_producers.is_empty());
        let producer = &good[0].active_producers[0];
        assert_eq!((producer.producer_id, producer.producer_epoch, producer.last_sequence), (77, 3, 3));
        assert_eq!((producer.last_timestamp, producer.coordinator_epoch), (4000, -1));
        assert_eq!(producer.current_txn_start_offset, -1);
        // The same again after a restart.
        server.restart().await;
        client = server.connect().await;
    }
}
