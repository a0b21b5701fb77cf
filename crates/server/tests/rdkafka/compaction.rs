//! Compacted topics, seen through librdkafka: the last record of every key stays, whatever the cleaner does
//! meanwhile.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::common::TestServer;
use crate::common::rig::eventually;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use tailrace_kafka_wire::messages::DeleteTopicsRequest;
use tailrace_kafka_wire::messages::IncrementalAlterConfigsRequest;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};

const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: usize = 50;

type Content = BTreeMap<i64, (String, Option<String>)>;

async fn server() -> TestServer {
    server_with(&[]).await
}

async fn server_with(more: &[(&str, &str)]) -> TestServer {
    let settings = [("log.cleaner.backoff.ms", "20"), ("log.cleaner.threads", "2")];
    TestServer::with(&[&settings, more].concat()).await
}

fn config(server: &TestServer) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", server.kafka().to_string());
    config
}

async fn create(server: &TestServer, name: &str, more: &[(&str, &str)]) {
    let admin: AdminClient<DefaultClientContext> = config(server).create().unwrap();
    let mut topic = NewTopic::new(name, 1, TopicReplication::Fixed(1));
    let usual = [
        ("cleanup.policy", "compact"),
        ("internal.segment.bytes", "20000"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", "0"),
    ];
    let settings: BTreeMap<_, _> = usual.iter().chain(more).copied().collect();
    topic.config = settings.into_iter().collect();
    let created = admin.create_topics([&topic], &AdminOptions::new()).await.unwrap();
    assert_eq!(created, [Ok(name.to_owned())]);
}

/// `ConfigResource.Type` of topics and brokers.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// Changes one setting of a running server. An empty name means all brokers.
async fn alter(server: &TestServer, (resource_type, name): (i8, &str), key: &str, value: &str) {
    let config =
        AlterableConfig { name: key.to_owned(), value: Some(value.to_owned()), ..Default::default() };
    let resource = AlterConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configs: vec![config],
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = server.connect().await.call(1, &request).await;
    assert_eq!(answer.responses[0].error_code, 0, "{:?}", answer.responses[0].error_message);
}

/// Produces `records` records over the keys. Every tenth is a tombstone.
fn produce(server: &TestServer, topic: &str, records: std::ops::Range<usize>, codec: &str) {
    let producer: ThreadedProducer<_> = config(server)
        .set("enable.idempotence", "true")
        .set("compression.type", codec)
        .set("batch.num.messages", "20")
        .set("linger.ms", "2")
        .create()
        .unwrap();
    for number in records {
        let key = format!("key-{}", number * 7919 % KEYS);
        let value = format!("value-{number}-{}", "x".repeat(80));
        let record = BaseRecord::to(topic).partition(0).key(&key);
        let record = if number % 10 == 3 { record } else { record.payload(&value) };
        let mut record = record;
        while let Err((error, back)) = producer.send(record) {
            assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::QueueFull), "{error}");
            // Wait until the producer's queue has room.
            std::thread::sleep(Duration::from_millis(5));
            record = back;
        }
    }
    producer.flush(PATIENCE).unwrap();
}

fn record(number: usize) -> (String, Option<String>) {
    let value = (number % 10 != 3).then(|| format!("value-{number}-{}", "x".repeat(80)));
    (format!("key-{}", number * 7919 % KEYS), value)
}

fn wanted(records: usize) -> BTreeMap<String, Option<String>> {
    (0..records).map(record).collect()
}

/// Returns the log start, as consumers see it.
fn log_start(server: &TestServer, topic: &str) -> i64 {
    let consumer: BaseConsumer = config(server).create().unwrap();
    consumer.fetch_watermarks(topic, 0, PATIENCE).unwrap().0
}

/// Returns everything that a consumer reads from the start.
fn read(server: &TestServer, topic: &str) -> Content {
    let consumer: BaseConsumer = config(server)
        .set("group.id", "nobody")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("check.crcs", "true")
        .set("fetch.wait.max.ms", "50")
        .set("auto.offset.reset", "earliest")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    let mut content = Content::new();
    loop {
        match consumer.poll(PATIENCE).expect("an answer in time") {
            Ok(message) => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let key = text(message.key().unwrap());
                let before = content.insert(message.offset(), (key, message.payload().map(text)));
                assert!(before.is_none(), "offset {} was read twice", message.offset());
            }
            Err(KafkaError::PartitionEOF(_)) => return content,
            Err(error) => panic!("{error}"),
        }
    }
}

fn last_values(content: &Content) -> BTreeMap<String, Option<String>> {
    content.values().cloned().collect()
}

/// Reads until the cleaner has left at most `records` records.
fn read_until_compacted(server: &TestServer, topic: &str, records: usize) -> Content {
    let until = Instant::now() + PATIENCE;
    loop {
        let content = read(server, topic);
        if content.len() <= records {
            return content;
        }
        assert!(Instant::now() < until, "{} records are left, expected {records}", content.len());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Checks that everything is as it was sent, except that tombstones may be missing.
fn assert_same(found: &BTreeMap<String, Option<String>>, wanted: &BTreeMap<String, Option<String>>) {
    for (key, value) in wanted {
        match value {
            Some(_) => assert_eq!(found.get(key), Some(value), "{key}"),
            None => assert!(found.get(key).is_none_or(Option::is_none), "{key} was deleted"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_record_of_each_key_stays_also_over_restarts() {
    let mut server = server().await;
    for codec in ["none", "lz4"] {
        create(&server, codec, &[]).await;
        produce(&server, codec, 0..4000, codec);
        // The active segment, some 20 KB, is not compacted.
        let content = read_until_compacted(&server, codec, 1000);
        assert_same(&last_values(&content), &wanted(4000));
        assert_eq!(content.keys().next_back(), Some(&3999), "compaction keeps the offsets");
    }
    server.restart().await;
    for codec in ["none", "lz4"] {
        assert_same(&last_values(&read(&server, codec)), &wanted(4000));
        produce(&server, codec, 4000..8000, codec);
        let content = read_until_compacted(&server, codec, 1000);
        assert_same(&last_values(&content), &wanted(8000));
        assert_eq!(content.keys().next_back(), Some(&7999));
    }
    assert_eq!(server.metric("tailrace_compaction_uncleanable_partitions").await, 0.0);
    assert_eq!(server.metric("tailrace_compaction_failures_total").await, 0.0);
    assert!(server.metric("tailrace_compactions_total").await >= 2.0);
    assert!(server.metric("tailrace_compaction_removed_records_total").await >= 5000.0);
    server.stop().await;
}

/// `delete.retention.ms`: a consumer that lags learns that a key was deleted, however many rounds there were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tombstones_stay_for_their_time() {
    let server = server().await;
    create(&server, "t", &[("delete.retention.ms", "3600000")]).await;
    let mut upto = 0;
    for round in 1..=3 {
        let before = server.metric("tailrace_compactions_total").await;
        produce(&server, "t", upto..upto + 2000, "none");
        upto += 2000;
        eventually("a round of compaction", || async {
            server.metric("tailrace_compactions_total").await > before
        })
        .await;
        let content = read_until_compacted(&server, "t", 1000);
        assert_eq!(last_values(&content), wanted(upto), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_and_the_cleaner_do_not_get_in_each_others_way() {
    let mut server = server().await;
    create(&server, "t", &[]).await;
    for round in 0..8 {
        produce(&server, "t", round * 1000..(round + 1) * 1000, "lz4");
        // Read while segments are replaced.
        assert_same(&last_values(&read(&server, "t")), &wanted((round + 1) * 1000));
    }
    let content = read_until_compacted(&server, "t", 1000);
    assert_same(&last_values(&content), &wanted(8000));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_may_be_compacted_and_trimmed() {
    let mut server = server_with(&[("log.retention.check.interval.ms", "50")]).await;
    create(&server, "both", &[("cleanup.policy", "compact,delete"), ("retention.ms", "-1")]).await;
    create(&server, "kept", &[("retention.ms", "-1")]).await;
    for topic in ["both", "kept"] {
        produce(&server, topic, 0..4000, "lz4");
        let content = read_until_compacted(&server, topic, 1000);
        assert_same(&last_values(&content), &wanted(4000));
        assert_eq!(log_start(&server, topic), 0, "{topic} is compacted, and has no old records");
    }
    for topic in ["both", "kept"] {
        alter(&server, (TOPIC, topic), "retention.ms", "1").await;
    }
    eventually("retention removes whole segments", || async { log_start(&server, "both") > 3500 }).await;
    for (offset, found) in read(&server, "both") {
        assert!(offset > 3500, "offset {offset} is below the log start");
        assert_eq!(found, record(usize::try_from(offset).unwrap()), "offset {offset}");
    }
    assert_eq!(log_start(&server, "kept"), 0, "retention does not apply to topics that are only compacted");
    assert_same(&last_values(&read(&server, "kept")), &wanted(4000));
    // Compaction continues from where retention has left the log, after a restart too.
    alter(&server, (TOPIC, "both"), "retention.ms", "-1").await;
    for upto in [8000, 12_000] {
        produce(&server, "both", upto - 4000..upto, "lz4");
        let content = read_until_compacted(&server, "both", 1000);
        assert_same(&last_values(&content), &wanted(upto));
        server.restart().await;
        assert!(log_start(&server, "both") > 3500);
    }
    assert_eq!(server.metric("tailrace_compaction_uncleanable_partitions").await, 0.0);
    assert_eq!(server.metric("tailrace_compaction_failures_total").await, 0.0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_keeps_to_its_rate_and_to_a_change_of_it() {
    const RATE: &str = "log.cleaner.io.max.bytes.per.second";
    let mut server = server_with(&[(RATE, "1")]).await;
    create(&server, "t", &[]).await;
    let waits = || async { server.metric("tailrace_compaction_waits_total").await };
    produce(&server, "t", 0..4000, "none");
    eventually("the rate limit delays compaction", || async { waits().await >= 1.0 }).await;
    // One step may take a minute now, and there are dozens of them before the first segment is replaced.
    assert_eq!(server.metric("tailrace_compactions_total").await, 0.0);
    assert_eq!(read(&server, "t").len(), 4000);
    alter(&server, (BROKER, ""), RATE, "1e9").await;
    assert_same(&last_values(&read_until_compacted(&server, "t", 1000)), &wanted(4000));
    eventually("the round ends", || async { server.metric("tailrace_compactions_total").await >= 1.0 }).await;

    alter(&server, (BROKER, ""), RATE, "1").await;
    let before = waits().await;
    produce(&server, "t", 4000..8000, "none");
    eventually("the rate limit delays compaction again", || async { waits().await > before }).await;
    let began = Instant::now();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(10), "a stop does not wait for the rate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_partition_is_named_by_healthz_and_serves_on() {
    let mut server = server().await;
    // Nothing is ever dirty enough for this ratio.
    create(&server, "broken", &[("min.cleanable.dirty.ratio", "1.0")]).await;
    create(&server, "sound", &[]).await;
    produce(&server, "broken", 0..1000, "none");
    let folder = server.data().join("broken-0");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    logs.sort();
    assert!(logs.len() > 2, "{logs:?}");
    // This byte is among the records of the first batch.
    let mut bytes = std::fs::read(&logs[0]).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&logs[0], bytes).unwrap();
    assert_eq!(server.get("/healthz").await, (200, "{\"status\":\"ok\"}\n".to_owned()));

    alter(&server, (TOPIC, "broken"), "min.cleanable.dirty.ratio", "0.01").await;
    for _ in 0..2 {
        let is_named = || async { server.get("/healthz").await.1.contains("problems") };
        eventually("the damage is found", is_named).await;
        let (status, body) = server.get("/healthz").await;
        let page: serde_json::Value = serde_json::from_str(&body).unwrap();
        // There is no other replica to repair it from.
        assert_eq!((status, &page["status"]), (503, &"error".into()), "{body}");
        let [problem] = &page["problems"].as_array().unwrap()[..] else { panic!("{body}") };
        let problem = problem.as_str().unwrap();
        assert!(problem.starts_with("broken-0 is damaged at offset"), "{body}");
        assert!(problem.contains("00000000000000000000.log"), "{body}");
        // Damage alone does not make the partition uncleanable: it is compacted again once it is repaired,
        // without a restart.
        assert_eq!(page["warnings"].as_array().map_or(0, Vec::len), 0, "{body}");
        assert_eq!(server.metric("tailrace_compaction_uncleanable_partitions").await, 0.0);
        // The partition keeps serving, and others are compacted.
        let mut client = server.connect().await;
        let offset = client.produce("broken", 0, &[1, 2]).await;
        assert_eq!(client.fetch_from("broken", 0, offset).await.error_code, 0);
        produce(&server, "sound", 0..4000, "lz4");
        read_until_compacted(&server, "sound", 1000);
        server.restart().await;
    }
    let topic_names = vec!["broken".to_owned()];
    let delete = DeleteTopicsRequest { topic_names, timeout_ms: 10_000, ..Default::default() };
    assert_eq!(server.connect().await.call(5, &delete).await.responses[0].error_code, 0);
    let is_well = || async { server.get("/healthz").await.1 == "{\"status\":\"ok\"}\n" };
    eventually("the server is healthy again", is_well).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_without_a_key_are_refused() {
    let mut server = server().await;
    create(&server, "t", &[]).await;
    let producer: rdkafka::producer::FutureProducer = config(&server).create().unwrap();
    let record = rdkafka::producer::FutureRecord::<[u8], [u8]>::to("t").payload(b"x");
    let (error, _) = producer.send(record, PATIENCE).await.unwrap_err();
    assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::InvalidRecord), "{error}");
    server.stop().await;
}
