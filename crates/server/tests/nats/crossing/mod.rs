//! A NATS client on one side, librdkafka on the other, and the server between them.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::time::Duration;

use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, StreamConsumer};
use rdkafka::message::{Headers, Message};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use crate::common::TestServer;

/// Longer than anything takes. A test that hangs fails after this time.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A record that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub timestamp: i64,
}

impl Record {
    pub fn key(&self) -> &str {
        self.key.as_deref().map(|key| std::str::from_utf8(key).expect("text")).expect("a key")
    }

    pub fn value(&self) -> &str {
        self.value.as_deref().map(|value| std::str::from_utf8(value).expect("text")).expect("a value")
    }

    /// Returns the names and values of the headers, all of them text.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        let lines = self.headers.iter().map(|(name, value)| {
            let value = value.as_deref().expect("a value");
            (name.as_str(), std::str::from_utf8(value).expect("text"))
        });
        lines.collect()
    }
}

/// Connects a real NATS client.
pub async fn nats(server: &TestServer) -> async_nats::Client {
    let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
    let connecting = options.connect(format!("nats://{}", server.nats()));
    tokio::time::timeout(PATIENCE, connecting).await.expect("in time").expect("the client connects")
}

pub fn kafka(server: &TestServer) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", server.kafka().to_string());
    config
}

pub fn admin(server: &TestServer) -> AdminClient<DefaultClientContext> {
    kafka(server).create().expect("a legal configuration")
}

/// Creates a topic with librdkafka.
pub async fn create(
    server: &TestServer,
    name: &str,
    partitions: i32,
    settings: &[(&str, &str)],
) -> Result<(), RDKafkaErrorCode> {
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    topic.config = settings.to_vec();
    let mut created = admin(server).create_topics([&topic], &AdminOptions::new()).await.expect("an answer");
    created.remove(0).map(drop).map_err(|(_, code)| code)
}

/// Replaces the settings of a topic with librdkafka, whose binding does not report a refusal.
pub async fn alter(server: &TestServer, name: &str, settings: &[(&str, &str)]) {
    let mut config = AlterConfig::new(ResourceSpecifier::Topic(name));
    for (key, value) in settings {
        config = config.set(key, value);
    }
    let altered = admin(server).alter_configs([&config], &AdminOptions::new()).await.expect("an answer");
    assert_eq!(altered.len(), 1);
}

pub async fn delete(server: &TestServer, name: &str) {
    let deleted = admin(server).delete_topics(&[name], &AdminOptions::new()).await.expect("an answer");
    assert_eq!(deleted, [Ok(name.to_owned())]);
}

/// Reads `count` records of a topic from the start, with librdkafka, ordered by partition and offset.
pub async fn records(server: &TestServer, topic: &str, partitions: i32, count: usize) -> Vec<Record> {
    let consumer: StreamConsumer = kafka(server)
        .set("group.id", "nobody")
        .set("enable.auto.commit", "false")
        .set("check.crcs", "true")
        .set("fetch.wait.max.ms", "50")
        .create()
        .expect("a legal configuration");
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("a legal offset");
    }
    consumer.assign(&list).expect("the partitions are assigned");
    let mut found = Vec::new();
    while found.len() < count {
        let message = tokio::time::timeout(PATIENCE, consumer.recv()).await.expect("a record in time");
        let message = message.expect("a record");
        let headers = message
            .headers()
            .map(|headers| headers.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect());
        found.push(Record {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.unwrap_or_default(),
            timestamp: message.timestamp().to_millis().expect("a time"),
        });
    }
    found.sort_by_key(|record| (record.partition, record.offset));
    found
}

/// Returns how many records a topic holds, from the ends of its partitions.
pub async fn count_of_records(server: &TestServer, topic: &'static str, partitions: i32) -> i64 {
    let consumer: BaseConsumer = kafka(server).create().expect("a legal configuration");
    let count = move || {
        let ends = (0..partitions).map(|partition| consumer.fetch_watermarks(topic, partition, PATIENCE));
        ends.map(|ends| ends.expect("the ends of a partition")).map(|(low, high)| high - low).sum()
    };
    tokio::task::spawn_blocking(count).await.expect("the task does not panic")
}

pub fn producer(server: &TestServer) -> FutureProducer {
    kafka(server).set("linger.ms", "0").create().expect("a legal configuration")
}

/// Produces with librdkafka and waits for the acknowledgement.
pub async fn send(producer: &FutureProducer, record: FutureRecord<'_, [u8], [u8]>) -> i64 {
    producer.send(record, PATIENCE).await.expect("the record is acknowledged").offset
}

/// Prefix of the subjects of [`settled`], which tests ignore.
const SETTLED: &str = "settled-";

/// Returns the next message of a subscription.
pub async fn next(subscriber: &mut Subscriber) -> async_nats::Message {
    loop {
        let message = any(subscriber).await;
        if !message.subject.starts_with(SETTLED) {
            return message;
        }
    }
}

async fn any(subscriber: &mut Subscriber) -> async_nats::Message {
    tokio::time::timeout(PATIENCE, subscriber.next()).await.expect("a message in time").expect("a message")
}

/// Returns once the server has carried out everything that the client sent before. The client's own flush
/// only sends.
pub async fn settled(client: &async_nats::Client) {
    let subject = format!("{SETTLED}{}", client.new_inbox());
    let mut echo = client.subscribe(subject.clone()).await.expect("the client subscribes");
    client.publish(subject, Bytes::new()).await.expect("the client publishes");
    any(&mut echo).await;
}

/// Publishes with a new reply subject, and returns the answer.
pub async fn publish_for_ack(client: &async_nats::Client, subject: &str, payload: &str) -> serde_json::Value {
    let payload = Bytes::from(payload.to_owned());
    let answer = tokio::time::timeout(PATIENCE, client.request(subject.to_owned(), payload)).await;
    let answer = answer.expect("an acknowledgement in time").expect("an acknowledgement");
    serde_json::from_slice(&answer.payload).expect("JSON")
}

/// Returns all header lines of a message. A name that occurs several times keeps its values in order.
pub fn headers(message: &async_nats::Message) -> Vec<(String, String)> {
    let Some(headers) = &message.headers else { return Vec::new() };
    let mut lines: Vec<_> = headers
        .iter()
        .flat_map(|(name, values)| values.iter().map(|value| (name.to_string(), value.to_string())))
        .collect();
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    lines
}

/// Builds a header map that keeps duplicates.
pub fn header_map(lines: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        map.append(*name, *value);
    }
    map
}
