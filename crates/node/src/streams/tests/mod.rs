//! Streams of real nodes in one process, without a front: a record's key is its subject.

mod cluster;
mod consumers;
mod faults;
mod judged;
mod kept;
mod model;
mod publish;
mod pushes;

use std::sync::Arc;

use tailrace_jetstream::stream::StreamConfig;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_records::{BatchBuilder, BatchOptions, Record, Validated};
use tailrace_replication::TransactionMarker;
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs, TopicId};
use tempfile::TempDir;

use super::*;
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::{PartitionHandle, Topic, append, append_marker, append_verified, begin_verification};
use crate::start::{Fronts, RunningNode};
use crate::taps::WantedBy;
use crate::testing::start_with;

const ALL: ReadBounds = ReadBounds { messages: u64::MAX, bytes: u64::MAX };

/// A small generator, so that a seed repeats a run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// The key is the subject. A record without a key is no message.
struct Plain;

impl Translator for Plain {
    fn message(&self, _: &Topic, record: &Record<'_>, parts: &mut MessageParts) -> bool {
        parts.subject.clear();
        parts.headers.clear();
        parts.subject.extend_from_slice(record.key.unwrap_or_default());
        for (number, header) in record.headers.enumerate() {
            if number == 0 {
                parts.headers.extend_from_slice(b"NATS/1.0\r\n");
            }
            parts.headers.extend_from_slice(header.key);
            parts.headers.extend_from_slice(b": ");
            parts.headers.extend_from_slice(header.value.unwrap_or_default());
            parts.headers.extend_from_slice(b"\r\n");
        }
        if !parts.headers.is_empty() {
            parts.headers.extend_from_slice(b"\r\n");
        }
        record.key.is_some()
    }
}

fn fronts() -> Fronts {
    Fronts { translator: Some(Arc::new(Plain)), ..Fronts::default() }
}

/// A message to append: subject, payload, and a header if it has one.
type Sent<'a> = (&'a str, &'a [u8], Option<(&'a str, &'a str)>);

struct Rig {
    running: RunningNode,
    folder: TempDir,
    settings: Vec<(&'static str, &'static str)>,
}

impl Rig {
    async fn start(settings: &[(&'static str, &'static str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let running = start_with(&folder, settings, fronts()).await;
        Self { running, folder, settings: settings.to_vec() }
    }

    /// Stops the node, and starts it again.
    async fn again(self) -> Self {
        let Self { running, folder, settings } = self;
        running.stop().await;
        let running = start_with(&folder, &settings, fronts()).await;
        Self { running, folder, settings }
    }

    fn node(&self) -> &Arc<Node> {
        self.running.node()
    }

    fn topic(&self) -> Arc<Topic> {
        self.node().topics().by_name("orders").unwrap()
    }

    async fn state(&self) -> StreamState {
        state(self.node(), Caller::internal(), &self.topic(), StateTerms::default()).await.unwrap()
    }

    async fn read(&self, select: Select) -> Result<Messages, StreamFailure> {
        messages(self.node(), Caller::internal(), &self.topic(), select, ALL).await
    }
}

/// Creates the stream `orders` with this configuration; an ordinary topic without one.
async fn create(node: &Arc<Node>, config: Option<&StreamConfig>) -> TopicId {
    let topic = TopicId::from_random(tailrace_env::random::bytes16());
    let by = if config.is_some() { Requester::Stream } else { Requester::Client };
    let create = CreateTopic::with_defaults("orders", topic, node.now(), by);
    let setting = |config: &StreamConfig| ("tailrace.jetstream.stream".to_owned(), Some(config.to_stored()));
    let small = ("segment.bytes".to_owned(), Some("1048576".to_owned()));
    let configs = config.map(setting).into_iter().chain([small]).collect();
    let create = Command::CreateTopic(CreateTopic { configs, ..create });
    node.controller.execute(Caller::internal(), create, node.now()).await.unwrap();
    topic
}

fn config() -> StreamConfig {
    StreamConfig {
        name: "orders".to_owned(),
        max_msgs: -1,
        max_bytes: -1,
        max_msg_size: -1,
        duplicate_window: 120_000_000_000,
        ..StreamConfig::default()
    }
}

/// Appends one batch, in a transaction of this producer if there is one, and waits until it is committed.
async fn send(node: &Arc<Node>, handle: &Arc<PartitionHandle>, producer: Option<i64>, sent: &[Sent<'_>]) {
    let mut options = BatchOptions::default();
    if let Some(id) = producer {
        options.producer_id = ProducerId(id);
        options.producer_epoch = ProducerEpoch(0);
        options.transactional = true;
    }
    let mut builder = BatchBuilder::new(options);
    for (number, (subject, payload, header)) in (1..).zip(sent) {
        let headers: Vec<(&[u8], Option<&[u8]>)> =
            header.iter().map(|(name, value)| (name.as_bytes(), Some(value.as_bytes()))).collect();
        builder.push(TimestampMs(number * 10), Some(subject.as_bytes()), Some(payload), &headers).unwrap();
    }
    let (header, bytes) = builder.build_with_header();
    let (batch, now, caller) = (Validated { header, bytes }, node.now(), Caller::internal());
    let appended = match producer {
        None => append(node, caller, handle, batch, now, WantedBy::NOBODY).await,
        Some(_) => {
            let guard = begin_verification(caller, handle, &header, false, now).await.unwrap();
            append_verified(node, caller, handle, batch, guard, now, WantedBy::NOBODY).await
        }
    };
    if let Some(wait) = handle.wait_committed(&appended.unwrap()) {
        wait.await.unwrap();
    }
}

/// Ends the producer's transaction.
async fn end(node: &Arc<Node>, handle: &Arc<PartitionHandle>, producer: i64, committed: bool) {
    let marker = TransactionMarker {
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        coordinator_epoch: 0,
        committed,
        epochs_are_bumped: false,
    };
    let appended = append_marker(node, Caller::internal(), handle, marker, None).await.unwrap();
    if let Some(wait) = handle.wait_committed(&appended) {
        wait.await.unwrap();
    }
}

fn last(text: &str) -> Select {
    Select::Last(text.to_owned())
}

fn next(text: &str, from: u64) -> Select {
    Select::Next { filter: text.to_owned(), from: From::Sequence(from) }
}

fn sequences(messages: &Messages) -> Vec<u64> {
    messages.messages.iter().map(|message| message.sequence).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_is_read_at_once_and_what_a_transaction_withholds_is_not() {
    let rig = Rig::start(&[]).await;
    create(rig.node(), Some(&config())).await;
    let topic = rig.topic();
    let handle = topic.here(0).unwrap();
    assert_eq!(rig.state().await, StreamState::default());
    assert_eq!(rig.read(last(">")).await, Err(StreamFailure::NoMessage));
    send(rig.node(), handle, None, &[("a.1", b"one", Some(("X", "y"))), ("a.2", b"", None)]).await;
    let found = rig.read(Select::At(1)).await.unwrap();
    let expected = StoredMessage {
        sequence: 1,
        time_ms: 10,
        subject: "a.1".into(),
        headers: "NATS/1.0\r\nX: y\r\n\r\n".into(),
        payload: "one".into(),
    };
    assert_eq!(found, Messages { messages: vec![expected], pending: 0, next: None, upto: 2 });
    // An open transaction is in front of what comes after it.
    send(rig.node(), handle, Some(7), &[("a.1", b"aborted", None)]).await;
    send(rig.node(), handle, None, &[("a.3", b"behind", None)]).await;
    assert_eq!(rig.read(last("a.3")).await, Err(StreamFailure::NoMessage));
    end(rig.node(), handle, 7, false).await;
    send(rig.node(), handle, Some(7), &[("a.2", b"committed", None)]).await;
    end(rig.node(), handle, 7, true).await;
    let all = rig.read(next("", 0)).await.unwrap();
    assert_eq!((sequences(&all), all.upto), (vec![1, 2, 4, 6], 7));
    assert_eq!(&*all.messages[3].payload, b"committed");
    assert_eq!(sequences(&rig.read(last("a.1")).await.unwrap()), [1], "what is aborted is no message");
    // 3 was aborted, 5 and 7 are markers.
    let terms =
        StateTerms { subjects: Some(SubjectsPage { filter: "a.*".to_owned(), offset: 1 }), deleted: true };
    let found = state(rig.node(), Caller::internal(), &topic, terms).await.unwrap();
    assert_eq!((found.messages, found.first_seq, found.last_seq, found.subjects), (4, 1, 7, 3));
    assert_eq!((found.deleted, found.deleted_sequences), (3, vec![3, 5, 7]));
    assert_eq!(found.listed, [("a.2".to_owned(), 2), ("a.3".to_owned(), 1)]);
    // Subject, payload, and what a file has around them.
    let sizes = (3 + 3 + 18 + 34) + (3 + 30) + (3 + 6 + 30) + (3 + 9 + 30);
    assert_eq!(found.bytes, sizes);
    let rig = rig.again().await;
    assert_eq!(sequences(&rig.read(next("a.>", 2)).await.unwrap()), [2, 4, 6]);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_no_stream_says_so() {
    let rig = Rig::start(&[]).await;
    let create = CreateTopic::with_defaults("orders", TopicId([1; 16]), rig.node().now(), Requester::Client);
    let create = Command::CreateTopic(CreateTopic { partitions: 2, ..create });
    rig.node().controller.execute(Caller::internal(), create, rig.node().now()).await.unwrap();
    assert_eq!(rig.read(last(">")).await, Err(StreamFailure::NoStream));
    rig.running.stop().await;
}
