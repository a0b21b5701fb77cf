//! librdkafka's unmodified transactional producer against the server.

use std::time::Duration;

use crate::common::TestServer;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

const PATIENCE: Duration = Duration::from_secs(20);

fn config(server: &TestServer) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", server.kafka().to_string());
    config
}

fn producer(server: &TestServer, id: &str, settings: &[(&str, &str)]) -> FutureProducer {
    let mut config = config(server);
    config.set("transactional.id", id);
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config.create().expect("a legal configuration")
}

/// Runs blocking calls of librdkafka outside the event loop.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("the task does not panic")
}

async fn begun(server: &TestServer, id: &str) -> FutureProducer {
    let producer = producer(server, id, &[]);
    let starting = producer.clone();
    blocking(move || starting.init_transactions(PATIENCE)).await.expect("the producer is initialized");
    producer
}

async fn send(producer: &FutureProducer, partition: i32, payload: &str) -> Result<(), KafkaError> {
    let record = FutureRecord::<str, str>::to("t").partition(partition).payload(payload);
    producer.send(record, PATIENCE).await.map(|_| ()).map_err(|(error, _)| error)
}

async fn commit(producer: &FutureProducer) -> Result<(), KafkaError> {
    let producer = producer.clone();
    blocking(move || producer.commit_transaction(PATIENCE)).await
}

async fn abort(producer: &FutureProducer) -> Result<(), KafkaError> {
    let producer = producer.clone();
    blocking(move || producer.abort_transaction(PATIENCE)).await
}

/// Reads `count` committed records of a partition of `t`.
async fn read(server: &TestServer, partition: i32, count: usize) -> Vec<String> {
    read_of(server, "t", partition, count).await
}

async fn read_of(server: &TestServer, topic: &str, partition: i32, count: usize) -> Vec<String> {
    let consumer: StreamConsumer = config(server)
        .set("group.id", "nobody")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("check.crcs", "true")
        .create()
        .expect("a legal configuration");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Beginning).expect("a legal offset");
    consumer.assign(&list).expect("the partitions are assigned");
    let mut all = Vec::new();
    while all.len() < count {
        let record =
            tokio::time::timeout(PATIENCE, consumer.recv()).await.expect("in time").expect("a record");
        all.push(String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned());
    }
    // Nothing else is visible.
    let more = tokio::time::timeout(Duration::from_millis(300), consumer.recv()).await;
    assert!(more.is_err(), "more than was committed");
    all
}

async fn server() -> TestServer {
    let server = TestServer::start().await;
    server.connect().await.create_topic("t", 3, &[]).await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committed_records_are_read_and_aborted_ones_are_not() {
    let server = server().await;
    let producer = begun(&server, "tx").await;
    for round in 0..10 {
        producer.begin_transaction().expect("the transaction starts");
        for partition in 0..3 {
            send(&producer, partition, &format!("{round}")).await.expect("the record is stored");
        }
        if round % 3 == 1 {
            abort(&producer).await.expect("the transaction aborts");
        } else {
            commit(&producer).await.expect("the transaction commits");
        }
    }
    for partition in 0..3 {
        assert_eq!(read(&server, partition, 7).await, ["0", "2", "3", "5", "6", "8", "9"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_producer_fences_the_first() {
    let server = server().await;
    let first = begun(&server, "tx").await;
    first.begin_transaction().expect("the transaction starts");
    send(&first, 0, "lost").await.expect("the record is stored");
    let second = begun(&server, "tx").await;
    second.begin_transaction().expect("the transaction starts");
    send(&second, 0, "kept").await.expect("the record is stored");
    let fenced = commit(&first).await.expect_err("the first producer is fenced");
    let code = fenced.rdkafka_error_code();
    assert!(
        matches!(code, Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::InvalidProducerEpoch)),
        "{fenced:?}"
    );
    commit(&second).await.expect("the transaction commits");
    assert_eq!(read(&server, 0, 1).await, ["kept"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_goes_on_after_a_restart_of_the_server() {
    let mut server = TestServer::with(&[("kafka", "127.0.0.1:0")]).await;
    server.connect().await.create_topic("t", 1, &[]).await;
    let producer = begun(&server, "tx").await;
    producer.begin_transaction().expect("the transaction starts");
    send(&producer, 0, "before").await.expect("the record is stored");
    // After the restart the server listens on another port, so another producer takes over and aborts the
    // open transaction.
    server.restart().await;
    let other = begun(&server, "tx").await;
    other.begin_transaction().expect("the transaction starts");
    send(&other, 0, "after").await.expect("the record is stored");
    commit(&other).await.expect("the transaction commits");
    assert_eq!(read(&server, 0, 1).await, ["after"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_beyond_the_limit_is_refused_with_its_name() {
    let server = server().await;
    let producer = producer(&server, "tx", &[("transaction.timeout.ms", "1000000")]);
    let error =
        blocking(move || producer.init_transactions(PATIENCE)).await.expect_err("the timeout is refused");
    assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::InvalidTransactionTimeout), "{error:?}");
}

/// Creates a consumer in the group `g` that has read `count` records of partition 0 of `t`. Returns the
/// consumer and what it has read.
async fn consumed(server: &TestServer, count: usize) -> (StreamConsumer, Vec<String>) {
    let consumer: StreamConsumer = config(server)
        .set("group.id", "g")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .create()
        .expect("a legal configuration");
    consumer.subscribe(&["t"]).expect("the consumer subscribes");
    let mut all = Vec::new();
    while all.len() < count {
        let record =
            tokio::time::timeout(PATIENCE, consumer.recv()).await.expect("in time").expect("a record");
        all.push(String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned());
    }
    (consumer, all)
}

/// Returns the offset that the group has committed in `t`.
async fn committed_offset(server: &TestServer) -> Offset {
    let consumer: StreamConsumer = config(server)
        .set("group.id", "g")
        .set("isolation.level", "read_committed")
        .create()
        .expect("a legal configuration");
    blocking(move || {
        let mut list = TopicPartitionList::new();
        list.add_partition("t", 0);
        let list = consumer.committed_offsets(list, PATIENCE).expect("offsets");
        list.elements()[0].offset()
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_and_what_was_written_count_together() {
    let server = TestServer::with(&[("group.initial.rebalance.delay.ms", "0")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    client.create_topic("out", 1, &[]).await;
    let plain: FutureProducer = config(&server).create().expect("a legal configuration");
    for value in ["a", "b", "c"] {
        send(&plain, 0, value).await.expect("the record is stored");
    }
    let producer = begun(&server, "tx").await;
    // The first transaction is aborted, so everything is read again. The second is committed.
    for (round, expected) in [(0, Offset::Invalid), (1, Offset::Offset(3))] {
        let (consumer, read) = consumed(&server, 3).await;
        assert_eq!(read, ["a", "b", "c"]);
        producer.begin_transaction().expect("the transaction starts");
        for value in read {
            let payload = format!("{round}{value}");
            let record = FutureRecord::<str, str>::to("out").payload(&payload);
            producer.send(record, PATIENCE).await.map_err(|(error, _)| error).expect("the record is stored");
        }
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset("t", 0, Offset::Offset(3)).expect("a legal offset");
        let (sending, member) =
            (producer.clone(), consumer.group_metadata().expect("the consumer is in a group"));
        blocking(move || sending.send_offsets_to_transaction(&offsets, &member, PATIENCE))
            .await
            .expect("the offsets join the transaction");
        if round == 0 {
            abort(&producer).await.expect("the transaction aborts");
        } else {
            commit(&producer).await.expect("the transaction commits");
        }
        assert_eq!(committed_offset(&server).await, expected);
        blocking(move || drop(consumer)).await;
    }
    assert_eq!(read_of(&server, "out", 0, 3).await, ["1a", "1b", "1c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_an_older_generation_sends_no_offsets() {
    let server = TestServer::with(&[("group.initial.rebalance.delay.ms", "0")]).await;
    server.connect().await.create_topic("t", 1, &[]).await;
    let plain: FutureProducer = config(&server).create().expect("a legal configuration");
    send(&plain, 0, "a").await.expect("the record is stored");
    let (consumer, _) = consumed(&server, 1).await;
    let member = consumer.group_metadata().expect("the consumer is in a group");
    // The consumer leaves, and another takes its place.
    blocking(move || drop(consumer)).await;
    let (_other, _) = consumed(&server, 1).await;
    let producer = begun(&server, "tx").await;
    producer.begin_transaction().expect("the transaction starts");
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset("t", 0, Offset::Offset(1)).expect("a legal offset");
    let sending = producer.clone();
    let refused = blocking(move || sending.send_offsets_to_transaction(&offsets, &member, PATIENCE)).await;
    let code = refused.expect_err("the old member is refused").rdkafka_error_code();
    assert!(
        matches!(code, Some(RDKafkaErrorCode::UnknownMemberId | RDKafkaErrorCode::IllegalGeneration)),
        "{code:?}"
    );
    abort(&producer).await.expect("the transaction aborts");
    assert_eq!(committed_offset(&server).await, Offset::Invalid);
}
