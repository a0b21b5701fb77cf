//! librdkafka's consumer groups: members join and leave while records flow, and nothing is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::TestServer;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};

const PATIENCE: Duration = Duration::from_secs(60);
const TOPIC: &str = "t";
const PARTITIONS: i32 = 6;

const SETTINGS: &[(&str, &str)] = &[("group.initial.rebalance.delay.ms", "200")];

fn config(server: &TestServer) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", server.kafka().to_string());
    config
}

async fn with_topic() -> TestServer {
    let server = TestServer::with(SETTINGS).await;
    let admin: AdminClient<DefaultClientContext> = config(&server).create().expect("a legal configuration");
    let topic = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1));
    let created = admin.create_topics([&topic], &AdminOptions::new()).await.expect("an answer");
    assert_eq!(created, [Ok(TOPIC.to_owned())]);
    server
}

fn member(server: &TestServer, settings: &[(&str, &str)]) -> BaseConsumer {
    let mut config = config(server);
    config.set("group.id", "g").set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
    config.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "100");
    config.set("fetch.wait.max.ms", "50").set("topic.metadata.refresh.interval.ms", "1000");
    for (key, value) in settings {
        config.set(*key, *value);
    }
    let consumer: BaseConsumer = config.create().expect("a legal configuration");
    consumer.subscribe(&[TOPIC]).expect("the consumer subscribes");
    consumer
}

async fn send(producer: &FutureProducer, number: u64) {
    let payload = number.to_string();
    let partition = i32::try_from(number).expect("a small number") % PARTITIONS;
    let record = FutureRecord::<[u8], _>::to(TOPIC).partition(partition).payload(payload.as_bytes());
    producer.send(record, PATIENCE).await.expect("acknowledged");
}

fn producer(server: &TestServer) -> FutureProducer {
    config(server).set("linger.ms", "1").create().expect("a legal configuration")
}

fn number(payload: &[u8]) -> u64 {
    std::str::from_utf8(payload).expect("text").parse().expect("a number")
}

/// Reads and commits until told to stop. Adds what it reads to `seen`.
fn work(consumer: &BaseConsumer, stop: &AtomicBool, seen: &std::sync::Mutex<BTreeSet<u64>>) {
    while !stop.load(Ordering::Acquire) {
        let Some(message) = consumer.poll(Duration::from_millis(50)) else { continue };
        // Polling returns the errors of a rebalance.
        let Ok(message) = message else { continue };
        seen.lock()
            .expect("no thread panics while it holds the lock")
            .insert(number(message.payload().expect("a payload")));
        // A commit may be refused in a rebalance. Another member then reads the record again.
        let _ = consumer.commit_message(&message, CommitMode::Async);
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what} takes too long");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_under_load_and_nothing_is_lost() {
    for strategy in ["range", "cooperative-sticky"] {
        let server = with_topic().await;
        let producer = producer(&server);
        let seen = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
        let mut members = Vec::new();
        let mut sent = 0_u64;
        // Two members, then up to five, then down to one. Records flow all the time.
        for size in [2, 5, 3, 1] {
            while members.len() < size {
                let consumer = member(&server, &[("partition.assignment.strategy", strategy)]);
                let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::clone(&seen));
                let told = Arc::clone(&stop);
                let thread = std::thread::spawn(move || {
                    work(&consumer, &told, &seen);
                    drop(consumer);
                });
                members.push((stop, thread));
            }
            while members.len() > size {
                let (stop, thread) = members.pop().expect("at least one member");
                stop.store(true, Ordering::Release);
                tokio::task::spawn_blocking(move || thread.join())
                    .await
                    .unwrap()
                    .expect("the thread does not panic");
            }
            for _ in 0..120 {
                send(&producer, sent).await;
                sent += 1;
            }
            let all = Arc::clone(&seen);
            until("reading everything", || all.lock().unwrap().len() == usize::try_from(sent).unwrap()).await;
        }
        for (stop, thread) in members {
            stop.store(true, Ordering::Release);
            tokio::task::spawn_blocking(move || thread.join())
                .await
                .unwrap()
                .expect("the thread does not panic");
        }
        assert_eq!(seen.lock().unwrap().len(), usize::try_from(sent).unwrap(), "{strategy}");
    }
}

fn all_partitions() -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition_range(TOPIC, 0, PARTITIONS - 1);
    list
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_survive_a_restart_and_reading_goes_on_behind_them() {
    let mut server = with_topic().await;
    let first = producer(&server);
    for number in 0..60 {
        send(&first, number).await;
    }
    let consumer = member(&server, &[]);
    let mut read = BTreeSet::new();
    let began = Instant::now();
    while read.len() < 60 {
        assert!(began.elapsed() < PATIENCE, "60 records take too long");
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) {
            read.insert(number(message.payload().unwrap()));
            consumer.commit_message(&message, CommitMode::Sync).expect("the offset is committed");
        }
    }
    drop(consumer);
    server.restart().await;
    let producer = producer(&server);
    for number in 60..90 {
        send(&producer, number).await;
    }
    let consumer = member(&server, &[]);
    let committed = consumer.committed_offsets(all_partitions(), PATIENCE).expect("offsets");
    assert!(
        committed.elements().iter().all(|partition| partition.offset() == Offset::Offset(10)),
        "{committed:?}"
    );
    let mut rest = Vec::new();
    let began = Instant::now();
    while rest.len() < 30 {
        assert!(began.elapsed() < PATIENCE, "30 records take too long");
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) {
            rest.push(number(message.payload().unwrap()));
        }
    }
    rest.sort_unstable();
    assert_eq!(rest, (60..90).collect::<Vec<_>>(), "no record is read twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_static_member_comes_back_without_a_rebalance() {
    let server = with_topic().await;
    let static_member = |id: &'static str| member(&server, &[("group.instance.id", id)]);
    let (a, b) = (static_member("a"), static_member("b"));
    let assigned = |consumer: &BaseConsumer| {
        consumer.poll(Duration::from_millis(20));
        let list = consumer.assignment().expect("an assignment");
        list.elements().iter().map(|partition| partition.partition()).collect::<BTreeSet<_>>()
    };
    let half = usize::try_from(PARTITIONS / 2).unwrap();
    until("the first assignment", || assigned(&a).len() == half && assigned(&b).len() == half).await;
    let before = assigned(&b);
    // librdkafka's static members do not leave the group when they close.
    tokio::task::spawn_blocking(move || drop(b)).await.unwrap();
    let b = static_member("b");
    until("coming back", || {
        assert_eq!(assigned(&a).len(), half, "the other member keeps its partitions");
        assigned(&b).len() == half
    })
    .await;
    assert_eq!(assigned(&b), before);
}
