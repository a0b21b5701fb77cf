//! Records sent and read by unmodified librdkafka, the C client that most languages' clients are built on.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common;
use crate::common::TestServer;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigResource, NewPartitions, NewTopic, OwnedResourceSpecifier,
    ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, StreamConsumer};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

const PATIENCE: Duration = Duration::from_secs(20);

fn config(server: &TestServer) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", server.kafka().to_string());
    config
}

fn producer(server: &TestServer, settings: &[(&str, &str)]) -> FutureProducer {
    let mut config = config(server);
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config.create().expect("a legal configuration")
}

fn admin(server: &TestServer) -> AdminClient<DefaultClientContext> {
    config(server).create().expect("a legal configuration")
}

async fn create(server: &TestServer, name: &str, partitions: i32, settings: &[(&str, &str)]) {
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    topic.config = settings.to_vec();
    let created = admin(server).create_topics([&topic], &AdminOptions::new()).await.expect("an answer");
    assert_eq!(created, [Ok(name.to_owned())]);
}

/// Creates a consumer of one partition from an offset on, without a group.
fn consumer(server: &TestServer, topic: &str, partition: i32, from: Offset) -> StreamConsumer {
    let consumer: StreamConsumer = config(server)
        .set("group.id", "nobody")
        .set("enable.auto.commit", "false")
        .set("check.crcs", "true")
        .set("fetch.wait.max.ms", "100")
        .create()
        .expect("a legal configuration");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, from).expect("a legal offset");
    consumer.assign(&list).expect("the partitions are assigned");
    consumer
}

async fn next(consumer: &StreamConsumer) -> BorrowedMessage<'_> {
    tokio::time::timeout(PATIENCE, consumer.recv()).await.expect("a record in time").expect("a record")
}

async fn send(producer: &FutureProducer, topic: &str, partition: i32, payload: &[u8]) -> i64 {
    let record = FutureRecord::<[u8], [u8]>::to(topic).partition(partition).payload(payload);
    producer.send(record, PATIENCE).await.expect("the record is acknowledged").offset
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_values_headers_and_nulls_come_back() {
    let server = TestServer::start().await;
    create(&server, "t", 1, &[]).await;
    let producer = producer(&server, &[]);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "a", value: Some("1") })
        .insert(Header { key: "null", value: None::<&str> })
        .insert(Header { key: "a", value: Some("") });
    let record =
        FutureRecord::to("t").key("key").payload("value").headers(headers).timestamp(1_700_000_000_123);
    let sent = producer.send(record, PATIENCE).await.expect("acknowledged");
    assert_eq!((sent.partition, sent.offset), (0, 0));
    let tombstone = FutureRecord::<str, [u8]>::to("t").key("key");
    producer.send(tombstone, PATIENCE).await.expect("acknowledged");
    let nothing = FutureRecord::<[u8], [u8]>::to("t").key(&[]).payload(&[]);
    producer.send(nothing, PATIENCE).await.expect("acknowledged");

    let consumer = consumer(&server, "t", 0, Offset::Beginning);
    let first = next(&consumer).await;
    assert_eq!((first.offset(), first.key(), first.payload()), (0, Some(&b"key"[..]), Some(&b"value"[..])));
    assert_eq!(first.timestamp().to_millis(), Some(1_700_000_000_123));
    let headers = first.headers().expect("headers");
    let headers: Vec<_> = headers.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect();
    let expected =
        [("a", Some(b"1".to_vec())), ("null", None), ("a", Some(Vec::new()))].map(|(k, v)| (k.to_owned(), v));
    assert_eq!(headers, expected);
    let second = next(&consumer).await;
    assert_eq!((second.key(), second.payload()), (Some(&b"key"[..]), None));
    let third = next(&consumer).await;
    assert_eq!((third.key(), third.payload()), (Some(&b""[..]), Some(&b""[..])));
}

/// The codecs of the bundled librdkafka: gzip from zlib, and its own snappy and lz4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_codec_and_size_comes_back() {
    let server = TestServer::start().await;
    let sizes = [1, 100, 10_000, 900_000, 1 << 20];
    for codec in ["none", "gzip", "snappy", "lz4"] {
        create(&server, codec, 1, &[("max.message.bytes", "3000000")]).await;
        let settings = [("compression.type", codec), ("message.max.bytes", "2000000"), ("linger.ms", "1")];
        let producer = producer(&server, &settings);
        let payloads: Vec<_> = sizes.iter().map(|&size| common::rig::value(7, size)).collect();
        for (number, payload) in payloads.iter().enumerate() {
            assert_eq!(
                send(&producer, codec, 0, payload).await,
                i64::try_from(number).expect("a small number")
            );
        }
        // Many sends at once make large batches.
        let many = (0..500_u64).map(|n| common::rig::value(n, 200)).collect::<Vec<_>>();
        let sending = many.iter().map(|payload| {
            let record = FutureRecord::<[u8], [u8]>::to(codec).payload(payload);
            producer.send_result(record).expect("there is room in the queue")
        });
        for sent in sending.collect::<Vec<_>>() {
            sent.await.expect("the delivery is reported").expect("acknowledged");
        }
        let consumer = consumer(&server, codec, 0, Offset::Beginning);
        for payload in payloads.iter().chain(&many) {
            assert_eq!(next(&consumer).await.payload(), Some(&payload[..]), "{codec}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotent_producer_stores_everything_once_and_in_order() {
    let mut server = TestServer::start().await;
    create(&server, "t", 1, &[]).await;
    let settings = [("enable.idempotence", "true"), ("linger.ms", "0"), ("batch.num.messages", "7")];
    let producer = producer(&server, &settings);
    let mut sending = Vec::new();
    for number in 0..700_u32 {
        let payload = number.to_string();
        let record = FutureRecord::<str, str>::to("t").payload(&payload);
        sending.push(producer.send_result(record).expect("there is room in the queue"));
    }
    for (number, sent) in sending.into_iter().enumerate() {
        let sent = sent.await.expect("the delivery is reported").expect("acknowledged");
        assert_eq!(sent.offset, i64::try_from(number).expect("a small number"));
    }
    server.restart().await;
    let consumer = consumer(&server, "t", 0, Offset::Beginning);
    for number in 0..700_u32 {
        assert_eq!(next(&consumer).await.payload(), Some(number.to_string().as_bytes()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_reads_while_a_producer_writes() {
    const RECORDS: i64 = 2_000;
    let server = TestServer::start().await;
    create(&server, "t", 1, &[("internal.segment.bytes", "50000")]).await;
    let producer = producer(&server, &[("linger.ms", "1"), ("acks", "1")]);
    let consumer = consumer(&server, "t", 0, Offset::Beginning);
    let writing = tokio::spawn(async move {
        let mut sending = Vec::new();
        for number in 0..RECORDS {
            let payload = common::rig::value(number.cast_unsigned(), 100);
            let record = FutureRecord::<[u8], [u8]>::to("t").payload(&payload);
            sending.push(producer.send_result(record).expect("there is room in the queue"));
            if number % 50 == 0 {
                // Pause, so that there are many requests.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        for sent in sending {
            sent.await.expect("the delivery is reported").expect("acknowledged");
        }
    });
    for number in 0..RECORDS {
        let record = next(&consumer).await;
        assert_eq!(record.offset(), number);
        assert_eq!(common::rig::number(record.payload().expect("a value")), number.cast_unsigned());
    }
    writing.await.expect("all were acknowledged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_begins_where_it_is_told_to() {
    let server = TestServer::start().await;
    create(&server, "t", 2, &[]).await;
    let producer = producer(&server, &[]);
    for number in 0..10_i64 {
        let payload = number.to_string();
        let record =
            FutureRecord::<str, str>::to("t").partition(1).payload(&payload).timestamp(1_000 * (number + 1));
        producer.send(record, PATIENCE).await.expect("acknowledged");
    }
    for (from, expected) in [(Offset::Beginning, 0), (Offset::Offset(4), 4), (Offset::OffsetTail(3), 7)] {
        let consumer = consumer(&server, "t", 1, from);
        assert_eq!(next(&consumer).await.offset(), expected, "{from:?}");
    }
    let lookups: BaseConsumer = config(&server).create().expect("a legal configuration");
    let watermarks = tokio::task::block_in_place(|| lookups.fetch_watermarks("t", 1, PATIENCE));
    assert_eq!(watermarks.expect("an answer"), (0, 10));
    let mut times = TopicPartitionList::new();
    times.add_partition_offset("t", 1, Offset::Offset(4_500)).expect("legal");
    let found =
        tokio::task::block_in_place(|| lookups.offsets_for_times(times, PATIENCE)).expect("an answer");
    assert_eq!(found.elements()[0].offset(), Offset::Offset(4));
    let metadata =
        tokio::task::block_in_place(|| lookups.fetch_metadata(Some("t"), PATIENCE)).expect("an answer");
    assert_eq!(metadata.topics()[0].partitions().len(), 2);
    assert_eq!(metadata.brokers().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_administered() {
    let server = TestServer::start().await;
    create(&server, "t", 2, &[("retention.ms", "1234567")]).await;
    let (admin, options) = (admin(&server), AdminOptions::new());
    let again = NewTopic::new("t", 1, TopicReplication::Fixed(1));
    let refused = admin.create_topics([&again], &options).await.expect("an answer");
    assert_eq!(refused, [Err(("t".to_owned(), RDKafkaErrorCode::TopicAlreadyExists))]);
    let bad = NewTopic::new("bad", 1, TopicReplication::Fixed(1)).set("no.such.key", "1");
    let refused = admin.create_topics([&bad], &options).await.expect("an answer");
    assert_eq!(refused, [Err(("bad".to_owned(), RDKafkaErrorCode::InvalidConfig))]);

    let more = admin.create_partitions([&NewPartitions::new("t", 5)], &options).await.expect("an answer");
    assert_eq!(more, [Ok("t".to_owned())]);
    let fewer = admin.create_partitions([&NewPartitions::new("t", 3)], &options).await.expect("an answer");
    assert_eq!(fewer, [Err(("t".to_owned(), RDKafkaErrorCode::InvalidPartitions))]);

    assert_eq!(settings_of(&admin).await["retention.ms"].as_deref(), Some("1234567"));
    let change = AlterConfig::new(ResourceSpecifier::Topic("t")).set("retention.bytes", "777");
    let changed = admin.alter_configs([&change], &options).await.expect("an answer");
    assert_eq!(changed, [Ok(OwnedResourceSpecifier::Topic("t".to_owned()))]);
    let settings = settings_of(&admin).await;
    assert_eq!(settings["retention.bytes"].as_deref(), Some("777"));
    assert_ne!(settings["retention.ms"].as_deref(), Some("1234567"), "the old call replaces everything");

    let deleted = admin.delete_topics(&["t", "none"], &options).await.expect("an answer");
    let expected = [Ok("t".to_owned()), Err(("none".to_owned(), RDKafkaErrorCode::UnknownTopicOrPartition))];
    assert_eq!(deleted, expected);
    create(&server, "t", 1, &[]).await;
    assert_eq!(send(&producer(&server, &[]), "t", 0, b"again").await, 0);
}

async fn settings_of(admin: &AdminClient<DefaultClientContext>) -> BTreeMap<String, Option<String>> {
    let described = admin.describe_configs([&ResourceSpecifier::Topic("t")], &AdminOptions::new()).await;
    let mut described = described.expect("an answer");
    let resource: ConfigResource = described.remove(0).expect("the topic is described");
    resource.entries.into_iter().map(|entry| (entry.name, entry.value)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_missing_is_made() {
    let server = TestServer::start().await;
    let producer = producer(&server, &[]);
    assert_eq!(send(&producer, "made", 0, b"first").await, 0);
    assert_eq!(next(&consumer(&server, "made", 0, Offset::Beginning)).await.payload(), Some(&b"first"[..]));
    producer.flush(PATIENCE).expect("nothing is left");
}
