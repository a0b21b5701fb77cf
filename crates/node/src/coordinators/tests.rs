use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tailrace_env::task;
use tailrace_env::time::Duration;

use bytes::Bytes;
use tailrace_coordination::coordinator::{
    Append, Coordinator, CoordinatorRecord, Effects, Moment, ReplayError, Replayed, Token, partition_of_name,
};
use tailrace_log::LogConfig;
use tailrace_records::TimestampType;
use tailrace_replication::{Durability, Policy, Solo, TransactionMarker};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};
use tempfile::TempDir;
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};

use super::batch::build;
use super::cores::{Kind, Runtime};
use super::perform::{Perform, Performed};
use super::replay::replay;
use super::{CoordinatorFailure, SteadyClock, append_any_marker};
use crate::caller::{Caller, Door};
use crate::node::Node;
use crate::partitions::{Core, PartitionHandle};
use crate::start::RunningNode;
use crate::testing::{alone, identity, log_store, start_in};

/// Counts how often each name was asked for. Answers `later` when its time has come.
#[derive(Default)]
struct Counter {
    counts: BTreeMap<String, u64>,
    later: Option<(TimestampMs, Token)>,
    metadata_changes: u64,
}

enum Event {
    Count(Token, String),
    Later(Token, i64),
    Changes(Token),
    Panic,
}

impl Coordinator for Counter {
    type Event = Event;
    type Reply = u64;
    type Work = std::convert::Infallible;

    fn replay(&mut self, entry: Replayed<'_>) -> Result<(), ReplayError> {
        let Replayed::Record { key, value: Some(value), .. } = entry else {
            return Err(ReplayError("not a count".to_owned()));
        };
        let count = u64::from_be_bytes(value.try_into().expect("eight bytes"));
        if key == POISON.as_bytes() {
            POISON_READ.fetch_add(1, Ordering::Relaxed);
            assert!(!POISON_WORKS.load(Ordering::Relaxed), "a mistake of who reads it back");
        }
        self.counts.insert(String::from_utf8_lossy(key).into_owned(), count);
        Ok(())
    }

    fn loaded(&mut self, _: &Moment<'_>) -> Effects<Self> {
        Effects::default()
    }

    fn step(&mut self, event: Event, moment: &Moment<'_>) -> Effects<Self> {
        match event {
            Event::Count(token, name) => {
                let count = self.counts.entry(name.clone()).or_default();
                *count += 1;
                let mut effects = Effects::reply(token, *count);
                let value = Some(Bytes::copy_from_slice(&count.to_be_bytes()));
                effects.append(vec![CoordinatorRecord { key: name.into(), value }]);
                effects
            }
            Event::Later(token, ms) => {
                self.later = Some((TimestampMs(moment.now.0 + ms), token));
                Effects::default()
            }
            Event::Changes(token) => Effects::reply(token, self.metadata_changes),
            Event::Panic => panic!("a core's mistake"),
        }
    }

    fn metadata_changed(&mut self, _: &Moment<'_>) -> Effects<Self> {
        self.metadata_changes += 1;
        Effects::default()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.later.map(|(at, _)| at)
    }

    fn tick(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        match self.later {
            Some((at, token)) if at <= moment.now => {
                self.later = None;
                Effects::reply(token, 1)
            }
            _ => Effects::default(),
        }
    }
}

const PARTITIONS: i32 = 20;

/// A record whose replay panics while `POISON_WORKS` is set, and how often it was replayed.
const POISON: &str = "poison";
static POISON_WORKS: AtomicBool = AtomicBool::new(true);
static POISON_READ: AtomicUsize = AtomicUsize::new(0);

impl Perform for Counter {
    fn perform(_: Arc<Node>, _: i32, work: Self::Work) -> Performed {
        match work {}
    }
}

static COUNTERS: Kind<Counter> = Kind {
    name: "counter",
    topic: tailrace_metadata::SHARE_GROUP_STATE_TOPIC,
    partitions: |_| PARTITIONS,
    settings: |_| Vec::new(),
    new: Counter::default,
};

struct Rig {
    running: RunningNode,
    counters: Arc<Runtime<Counter>>,
}

impl Rig {
    async fn start(folder: &TempDir) -> Self {
        let running = start_in(folder, &[]).await;
        let counters = Arc::new(Runtime::new(&COUNTERS, SteadyClock::start()));
        Self { running, counters }
    }

    fn node(&self) -> &Arc<Node> {
        self.running.node()
    }

    async fn count(&self, name: &str) -> Result<u64, CoordinatorFailure> {
        let owned = name.to_owned();
        let pending = self
            .counters
            .submit(self.node(), Caller::internal(), name, move |token| Event::Count(token, owned))
            .await?;
        pending.reply().await
    }
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let rig = Rig::start(&folder).await;
    for expected in 1..=3 {
        assert_eq!(rig.count("a").await, Ok(expected));
    }
    assert_eq!(rig.count("b").await, Ok(1));
    rig.running.stop().await;
    let rig = Rig::start(&folder).await;
    assert_eq!(rig.count("a").await, Ok(4));
    assert_eq!(rig.count("b").await, Ok(2));
    rig.running.stop().await;
}

#[tokio::test]
async fn clients_that_come_while_the_topic_is_created_wait_for_it() {
    let folder = TempDir::new().unwrap();
    let rig = Arc::new(Rig::start(&folder).await);
    let count = || {
        let rig = Arc::clone(&rig);
        task::spawn(async move { rig.count("a").await })
    };
    let first = count();
    let mut others = Vec::new();
    while !first.is_finished() {
        others.push(count());
        task::yield_now().await;
    }
    let mut counts = vec![first.await.unwrap()];
    for other in others {
        counts.push(other.await.unwrap());
    }
    let failed = counts.iter().find(|count| count.is_err());
    assert_eq!(failed, None, "of {}", counts.len());
    Arc::into_inner(rig).unwrap().running.stop().await;
}

#[tokio::test]
async fn a_core_that_panics_is_read_again_and_the_others_go_on() {
    let folder = TempDir::new().unwrap();
    let rig = Rig::start(&folder).await;
    assert_eq!(rig.count("a").await, Ok(1));
    let failed = rig.counters.submit(rig.node(), Caller::internal(), "a", |_| Event::Panic).await;
    assert_eq!(failed.err(), Some(CoordinatorFailure::Reloaded));
    assert_eq!(rig.count("a").await, Ok(2));
    rig.running.stop().await;
}

/// Replaying the log again and again would not help.
#[tokio::test]
async fn a_core_whose_log_makes_it_panic_rests_and_is_named() {
    let folder = TempDir::new().unwrap();
    let rig = Rig::start(&folder).await;
    assert_eq!(rig.count(POISON).await, Ok(1));
    assert!(
        rig.counters.submit(rig.node(), Caller::internal(), POISON, |_| Event::Panic).await.is_err(),
        "it is evicted"
    );
    let told = "a bug in the server, loading it panicked: a mistake of who reads it back";
    assert_eq!(rig.count(POISON).await, Err(CoordinatorFailure::Unavailable(told.to_owned())));
    for _ in 0..10 {
        assert!(matches!(rig.count(POISON).await, Err(CoordinatorFailure::Unavailable(_))));
    }
    assert_eq!(POISON_READ.load(Ordering::Relaxed), 1, "its log is not read for a while");
    let problems = rig.counters.problems();
    assert!(matches!(&problems[..], [problem] if problem.ends_with(told)), "{problems:?}");
    let other = (b'a'..=b'z').map(|letter| char::from(letter).to_string());
    let mut other =
        other.filter(|name| partition_of_name(name, PARTITIONS) != partition_of_name(POISON, PARTITIONS));
    assert_eq!(rig.count(&other.next().unwrap()).await, Ok(1), "the others continue");
    // The next build can read it, and the rest period is over.
    POISON_WORKS.store(false, Ordering::Relaxed);
    let rests = |until: &AtomicI64| until.swap(i64::MIN, Ordering::Relaxed) > i64::MIN;
    assert_eq!(rig.counters.shards.lock().values().filter(|shard| rests(&shard.refuses_until)).count(), 1);
    assert_eq!(rig.count(POISON).await, Ok(2));
    assert_eq!(rig.counters.problems(), [""; 0]);
    rig.running.stop().await;
}

/// The kernel throttles all writers alike, coordinators as well as producers.
#[tokio::test]
async fn what_a_coordinator_appends_counts_as_dirty() {
    let folder = TempDir::new().unwrap();
    let rig = Rig::start(&folder).await;
    assert_eq!(rig.count("a").await, Ok(1), "its topic exists");
    let before = rig.node().dirty.appended_bytes();
    let long = "a".repeat(10_000);
    assert_eq!(rig.count(&long).await, Ok(1));
    let appended = rig.node().dirty.appended_bytes() - before;
    assert!(appended > long.len() as u64, "{appended} bytes were counted");
    rig.running.stop().await;
}

#[tokio::test]
async fn answers_keep_the_order_of_their_events_and_time_brings_its_own() {
    let folder = TempDir::new().unwrap();
    let rig = Rig::start(&folder).await;
    let mut pending = Vec::new();
    for _ in 0..100 {
        let counted = |token| Event::Count(token, "a".to_owned());
        pending.push(rig.counters.submit(rig.node(), Caller::internal(), "a", counted).await.unwrap());
    }
    for (number, pending) in (1..).zip(pending) {
        assert_eq!(pending.reply().await, Ok(number));
    }
    let later = rig
        .counters
        .submit(rig.node(), Caller::internal(), "a", |token| Event::Later(token, 30))
        .await
        .unwrap();
    assert_eq!(later.reply().await, Ok(1));
    rig.running.stop().await;
}

#[tokio::test]
async fn cores_hear_of_changed_topics_and_those_who_wait_of_the_stop() {
    let folder = TempDir::new().unwrap();
    let rig = Rig::start(&folder).await;
    assert_eq!(rig.count("a").await, Ok(1));
    let (counters, node) = (Arc::clone(&rig.counters), Arc::clone(rig.node()));
    let running = task::spawn(async move { counters.run(&node).await });
    let changes = |rig: &Rig| {
        let (counters, node) = (Arc::clone(&rig.counters), Arc::clone(rig.node()));
        async move {
            counters
                .submit(&node, Caller::internal(), "a", Event::Changes)
                .await
                .unwrap()
                .reply()
                .await
                .unwrap()
        }
    };
    // It starts to listen at some point. Create topics until it has heard of one.
    let mut number = 0;
    while changes(&rig).await == 0 {
        number += 1;
        let create = tailrace_metadata::CreateTopic::with_defaults(
            &format!("topic-{number}"),
            tailrace_types::TopicId::from_random(tailrace_env::random::bytes16()),
            rig.node().now(),
            tailrace_metadata::Requester::Client,
        );
        let command = tailrace_metadata::Command::CreateTopic(create);
        rig.node().controller.execute(Caller::internal(), command, rig.node().now()).await.unwrap();
    }
    let waits = rig
        .counters
        .submit(rig.node(), Caller::internal(), "a", |token| Event::Later(token, 3_600_000))
        .await
        .unwrap();
    let all = rig.counters.submit_all(rig.node(), Caller::internal(), Event::Changes).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(all.len(), PARTITIONS as usize);
    rig.running.stop().await;
    assert_eq!(waits.reply().await, Err(CoordinatorFailure::Reloaded));
    running.await.unwrap();
}

/// The log of a thread on which this is the default subscriber.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

impl Logged {
    /// Counts the lines that contain all of these words.
    fn with(&self, words: &[&str]) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }
}

impl tracing::Subscriber for Logged {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| write!(line, "{field}={value:?} ").unwrap());
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn client() -> Caller {
    Caller::client(Door::Kafka, SocketAddr::from((Ipv4Addr::LOCALHOST, 5000)))
}

#[tokio::test]
async fn nothing_is_begun_for_who_waits_no_longer() {
    let folder = TempDir::new().unwrap();
    let rig = Rig::start(&folder).await;
    let (node, counters, late) = (rig.node(), &rig.counters, client().within(Duration::ZERO));
    let counted = |token| Event::Count(token, "a".to_owned());
    let refused = counters.submit(node, &late, "a", counted).await;
    assert_eq!(refused.err(), Some(CoordinatorFailure::Late));
    assert!(node.topics().by_name(COUNTERS.topic).is_none(), "not even the topic is created");
    assert_eq!(rig.count("a").await, Ok(1));
    let logged = Logged::default();
    let logging = tracing::subscriber::set_default(logged.clone());
    let refused = counters.submit(node, &late, "a", counted).await;
    assert_eq!(refused.err(), Some(CoordinatorFailure::Late));
    drop(logging);
    assert_eq!(logged.with(&["could not ask a coordinator", "caller=kafka client 127.0.0.1:5000"]), 1);
    let partition = counters.partition_of(node, &late, "a").await.unwrap();
    let refused = counters.submit_if(node, &late, partition, |_, _| true, counted).await;
    assert_eq!(refused.err(), Some(CoordinatorFailure::Late));
    let all = counters.submit_all(node, &late, Event::Changes).await;
    assert!(all.iter().all(|one| *one == Err(CoordinatorFailure::Late)), "{all:?}");
    assert_eq!(rig.count("a").await, Ok(2), "nobody else notices");
    rig.running.stop().await;
}

/// The log names the caller that ends a transaction in the coordinators' own topic, as in any other topic.
#[tokio::test]
async fn a_marker_among_the_groups_offsets_has_the_caller_it_was_given() {
    let folder = TempDir::new().unwrap();
    let rig = Rig::start(&folder).await;
    let (node, caller) = (rig.node(), client());
    let partition = node.coordinators.groups.partition_of(node, &caller, "g").await.unwrap();
    let topic = node.topics().by_name(tailrace_metadata::CONSUMER_OFFSETS_TOPIC).unwrap();
    let handle = Arc::clone(topic.here(partition).unwrap());
    let marker = |epoch| TransactionMarker {
        producer_id: ProducerId(1),
        producer_epoch: ProducerEpoch(epoch),
        coordinator_epoch: 0,
        committed: true,
        epochs_are_bumped: false,
    };
    append_any_marker(node, &caller, &handle, marker(1)).await.unwrap();
    let logged = Logged::default();
    let logging = tracing::subscriber::set_default(logged.clone());
    let stale = append_any_marker(node, &caller, &handle, marker(0)).await;
    drop(logging);
    assert!(stale.is_err(), "an earlier producer's");
    let named = ["refused an append", "__consumer_offsets", "caller=kafka client 127.0.0.1:5000"];
    assert_eq!(logged.with(&named), 1);
    rig.running.stop().await;
}

/// A partition in which nothing is synced.
fn unsynced(folder: &TempDir) -> Arc<PartitionHandle> {
    let (durability, timestamp_type) = (Durability::Strict, TimestampType::CreateTime);
    let policy = Policy { durability, producer_expiration_ms: i64::MAX, timestamp_type };
    let (store, dir, config) = (log_store(), folder.path().join("t-0"), LogConfig::default());
    let (mut solo, _) = Solo::open(&store, &dir, &identity(), config, policy, TimestampMs(1)).unwrap();
    solo.begin_epoch().unwrap();
    alone(Core::Solo(Box::new(solo)))
}

/// The core continues from there, and what it adds is committed together with that or not at all. If it
/// loaded only up to the high watermark, it would decide again what is decided.
#[tokio::test]
async fn what_is_appended_and_not_committed_yet_is_loaded_too() {
    let folder = TempDir::new().unwrap();
    let handle = unsynced(&folder);
    for count in 1..=3_u64 {
        let value = Some(Bytes::copy_from_slice(&count.to_be_bytes()));
        let records = vec![CoordinatorRecord { key: "a".into(), value }];
        let batch = build(&Append { producer: None, records }, TimestampMs(1)).unwrap();
        let appended = handle.with(|core| core.append(&batch.header, &batch.bytes, None, TimestampMs(1)));
        appended.await.unwrap().unwrap();
    }
    assert_eq!(handle.bounds().high_watermark, Offset(0));
    let mut core = Counter::default();
    let report = replay(&mut core, &handle, 1 << 20).unwrap();
    assert_eq!((report.end, report.records, core.counts.get("a")), (Offset(3), 3, Some(&3)));
}
