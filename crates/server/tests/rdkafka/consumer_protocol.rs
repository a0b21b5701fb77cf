//! librdkafka with `group.protocol=consumer` (KIP-848). Members join and leave while records flow, in groups
//! with and without members of the classic protocol. Nothing is lost.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::TestServer;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};

const PATIENCE: Duration = Duration::from_secs(90);
const PARTITIONS: i32 = 6;
const ROUND: u64 = 120;

const SETTINGS: &[(&str, &str)] = &[
    ("group.initial.rebalance.delay.ms", "200"),
    ("group.consumer.min.heartbeat.interval.ms", "100"),
    ("group.consumer.heartbeat.interval.ms", "100"),
    ("group.consumer.min.session.timeout.ms", "6000"),
    ("group.consumer.session.timeout.ms", "6000"),
    ("group.consumer.assignment.interval.ms", "200"),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Protocol {
    Consumer,
    /// Subscribes with a regular expression, which the server resolves.
    ConsumerByExpression,
    Classic,
}

type Seen = Arc<Mutex<BTreeSet<u64>>>;

struct Worker {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Worker {
    fn start(server: &TestServer, protocol: Protocol, seen: &Seen) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", server.kafka().to_string());
        config.set("group.id", "g").set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
        config.set("fetch.wait.max.ms", "50").set("topic.metadata.refresh.interval.ms", "1000");
        match protocol {
            Protocol::Classic => config
                .set("partition.assignment.strategy", "cooperative-sticky")
                .set("session.timeout.ms", "6000")
                .set("heartbeat.interval.ms", "100"),
            Protocol::Consumer | Protocol::ConsumerByExpression => config.set("group.protocol", "consumer"),
        };
        let consumer: BaseConsumer = config.create().expect("a legal configuration");
        let topic = if protocol == Protocol::ConsumerByExpression { "^wor.*" } else { "work" };
        consumer.subscribe(&[topic]).expect("the consumer subscribes");
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::clone(seen));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Acquire) {
                // Polling returns the errors of a rebalance.
                let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) else { continue };
                let text = std::str::from_utf8(message.payload().expect("a payload")).expect("text");
                seen.lock()
                    .expect("no thread panics while it holds the lock")
                    .insert(text.parse().expect("a number"));
                // A commit may be refused in a rebalance. Another member then reads the record again.
                let _ = consumer.commit_message(&message, CommitMode::Async);
            }
        });
        Self { stop, thread }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("the worker does not panic");
    }
}

async fn play(rounds: &[&[Protocol]]) {
    let server = TestServer::with(SETTINGS).await;
    server.connect().await.create_topic("work", PARTITIONS, &[]).await;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", server.kafka().to_string()).set("linger.ms", "1");
    let producer: FutureProducer = config.create().expect("a legal configuration");
    let seen = Seen::default();
    let mut workers: Vec<(Protocol, Worker)> = Vec::new();
    let mut sent = 0;
    for wanted in rounds {
        // Members that are still wanted stay, and the others leave after new ones have joined.
        let mut left: Vec<Protocol> = wanted.to_vec();
        let mut kept = Vec::new();
        let mut going = Vec::new();
        for (protocol, worker) in workers.drain(..) {
            match left.iter().position(|one| *one == protocol) {
                Some(position) => {
                    left.remove(position);
                    kept.push((protocol, worker));
                }
                None => going.push(worker),
            }
        }
        kept.extend(left.into_iter().map(|protocol| (protocol, Worker::start(&server, protocol, &seen))));
        workers = kept;
        for _ in 0..ROUND {
            let payload = sent.to_string();
            let partition = sent % PARTITIONS;
            let record = FutureRecord::<[u8], _>::to("work").partition(partition).payload(payload.as_bytes());
            producer.send(record, PATIENCE).await.expect("acknowledged");
            sent += 1;
            // Records keep coming while members join and leave.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::task::spawn_blocking(|| going.into_iter().for_each(Worker::end))
            .await
            .expect("no worker panics");
        let began = Instant::now();
        while seen.lock().expect("no thread panics while it holds the lock").len()
            < usize::try_from(sent).expect("a small number")
        {
            let found = seen.lock().expect("no thread panics while it holds the lock").len();
            assert!(began.elapsed() < PATIENCE, "{found} of {sent} records after {wanted:?} came");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    tokio::task::spawn_blocking(|| workers.into_iter().for_each(|(_, worker)| worker.end()))
        .await
        .expect("no worker panics");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_under_load_and_nothing_is_lost() {
    use Protocol::{Consumer, ConsumerByExpression};
    play(&[
        &[Consumer, Consumer],
        &[Consumer, Consumer, Consumer, ConsumerByExpression, ConsumerByExpression],
        &[Consumer, ConsumerByExpression],
        &[ConsumerByExpression],
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_moves_from_one_protocol_to_the_other_and_back() {
    use Protocol::{Classic, Consumer};
    play(&[
        &[Classic, Classic],
        &[Classic, Classic, Consumer],
        &[Consumer, Consumer],
        &[Consumer, Classic],
        &[Classic],
    ])
    .await;
}
