//! Transactions that end while clients wait for it: a librdkafka consumer of committed records, and live NATS
//! subscribers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use tailrace_records::{BatchBuilder, BatchOptions, Validated};
use tailrace_replication::TransactionMarker;
use tailrace_types::{ProducerEpoch, ProducerId};

use tailrace_node::Caller;
use tailrace_node::Node;
use tailrace_node::coordinators::append_any_marker;
use tailrace_node::partitions::{PartitionHandle, append};
use tailrace_node::taps::WantedBy;

use tailrace_runtime::disk::LocalDisk;

use crate::{NodeDisk, Server, Startup, start};

const PATIENCE: Duration = Duration::from_secs(20);

/// A short period during which something must not happen.
const MEANWHILE: Duration = Duration::from_millis(300);

struct Rig {
    server: Server,
    node: Arc<Node>,
    handle: Arc<PartitionHandle>,
    _folder: tempfile::TempDir,
}

impl Rig {
    /// Starts a server with a topic `t` that holds one record, `first`.
    async fn start() -> Self {
        tailrace_runtime::install();
        let folder = tempfile::TempDir::new().unwrap();
        let data = folder.path().join("data").display().to_string();
        let settings = [
            ("data.dir", &*data),
            ("kafka", "127.0.0.1:0"),
            ("nats", "127.0.0.1:0"),
            ("http", "127.0.0.1:0"),
        ];
        let settings: BTreeMap<_, _> = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let server = start(Startup { settings, disk: NodeDisk::new(LocalDisk::default()) }).await.unwrap();
        let producer: FutureProducer = ClientConfig::new()
            .set("bootstrap.servers", server.addresses().kafka.to_string())
            .create()
            .unwrap();
        let record = FutureRecord::<[u8], [u8]>::to("t").partition(0).payload(b"first");
        producer.send(record, PATIENCE).await.unwrap();
        let node = Arc::clone(server.node());
        let topic = node.topics().by_name("t").unwrap();
        let handle = Arc::clone(topic.here(0).unwrap());
        Self { server, node, handle, _folder: folder }
    }

    /// Appends a record of a producer's transaction, as a coordinator would.
    async fn append(&self, producer: i64, value: &str) {
        let options = BatchOptions {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(0),
            transactional: true,
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        builder.push(self.node.now(), None, Some(value.as_bytes()), &[]).unwrap();
        let (header, bytes) = builder.build_with_header();
        let (now, batch) = (self.node.now(), Validated { header, bytes });
        append(&self.node, Caller::internal(), &self.handle, batch, now, self.wanted()).await.unwrap();
    }

    fn wanted(&self) -> WantedBy {
        let topic = self.node.topics().by_name("t").unwrap();
        self.node.wanted(&topic)
    }

    async fn end(&self, producer: i64, committed: bool) {
        let marker = TransactionMarker {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(1),
            coordinator_epoch: 0,
            committed,
            epochs_are_bumped: true,
        };
        append_any_marker(&self.node, Caller::internal(), &self.handle, marker).await.unwrap();
    }
}

fn consumer(rig: &Rig) -> StreamConsumer {
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", rig.server.addresses().kafka.to_string())
        .set("group.id", "unused")
        .set("isolation.level", "read_committed")
        // Longer than the test waits, so the consumer gets its record only if it is woken up.
        .set("fetch.wait.max.ms", "60000")
        .set("socket.timeout.ms", "70000")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("t", 0, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    consumer
}

async fn consumed(consumer: &StreamConsumer) -> String {
    let record = tokio::time::timeout(PATIENCE, consumer.recv()).await.unwrap().unwrap();
    String::from_utf8(record.payload().unwrap().to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_consumer_of_committed_records_is_woken_by_the_end_of_a_transaction() {
    let rig = Rig::start().await;
    let consumer = consumer(&rig);
    assert_eq!(consumed(&consumer).await, "first");
    rig.append(1, "one").await;
    rig.append(2, "two").await;
    rig.append(3, "three").await;
    rig.end(2, false).await;
    rig.end(3, true).await;
    assert!(tokio::time::timeout(MEANWHILE, consumer.recv()).await.is_err(), "transaction 1 is open");
    rig.end(1, true).await;
    assert_eq!(consumed(&consumer).await, "one");
    assert_eq!(consumed(&consumer).await, "three", "two was aborted");
    // Drop the consumer first: it says goodbye to its server.
    drop(consumer);
    rig.server.stop().await;
}

async fn heard(subscriber: &mut Subscriber) -> String {
    let message = tokio::time::timeout(PATIENCE, subscriber.next()).await.unwrap().unwrap();
    String::from_utf8(message.payload.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_subscribers_hear_of_transactions_once_they_are_committed() {
    let rig = Rig::start().await;
    let client =
        async_nats::connect(format!("nats://{}", rig.server.addresses().nats.unwrap())).await.unwrap();
    let mut subscriber = client.subscribe("t").await.unwrap();
    // After this round trip, the server knows of the subscription.
    let mut echo = client.subscribe("echo").await.unwrap();
    client.publish("echo", "x".into()).await.unwrap();
    heard(&mut echo).await;
    rig.append(1, "one").await;
    rig.append(2, "two").await;
    rig.append(3, "three").await;
    rig.end(2, false).await;
    rig.end(3, true).await;
    assert!(tokio::time::timeout(MEANWHILE, subscriber.next()).await.is_err(), "transaction 1 is open");
    rig.end(1, true).await;
    assert_eq!(heard(&mut subscriber).await, "one");
    assert_eq!(heard(&mut subscriber).await, "three", "two was aborted");
    rig.server.stop().await;
}
