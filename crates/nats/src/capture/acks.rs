//! Publish acknowledgements in JetStream's format: `{"stream":"orders","seq":17}`.
//!
//! The stream is the topic, with `_` for `.`. Each partition of a topic with several is a stream of its own,
//! NAME-PARTITION. The sequence is the record's offset plus one.

use std::pin::Pin;
use std::sync::Arc;
use tailrace_env::task;

use serde::Serialize;
use tailrace_jetstream::publish::{Verdict, refusal};
use tailrace_nats_wire::{Message, push_decimal};
use tailrace_types::Offset;

use crate::capture::demands::Unmet;
use crate::capture::line::Line;
use crate::front::NatsFront;
use crate::jetstream::{write_json_name, write_name};
use crate::server::NatsServer;
use crate::speaker::Speaker;
use tailrace_node::partitions::Topic;
use tailrace_node::relay::{NotStored, StoredHere};
use tailrace_node::streams::Published;

/// JetStream's codes for "the stream could not store it" and "the message is too large".
const STORE_FAILED: (u16, u16) = (503, 10077);
const TOO_LARGE: (u16, u16) = (400, 10054);

/// A negative acknowledgement, with its fields in nats-server's order.
#[derive(Debug, Serialize)]
struct PublishError<'a> {
    error: ApiError<'a>,
    stream: &'a str,
    seq: u64,
}

#[derive(Debug, Serialize)]
struct ApiError<'a> {
    code: u16,
    err_code: u16,
    description: &'a str,
}

/// The reason why a message was not stored, or not as durably as promised.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the partition is offline: {0}")]
    Offline(String),
    #[error("the topic was deleted, or the server is stopping")]
    Gone,
    #[error("another node leads the partition")]
    NotLeader,
    #[error("too few replicas keep up")]
    TooFewReplicas,
    #[error("too many messages wait for partition leaders on other nodes")]
    QueueFull,
    #[error("no leader of the partition was found in time: {0}")]
    NoLeader(String),
    #[error("the leader of the partition did not answer in time, the message may be stored: {0}")]
    Unanswered(String),
    #[error("{0}")]
    Refused(String),
    #[error("the log could not be written, the message may be stored: {0}")]
    LogFailed(String),
    #[error("the message is larger than max.message.bytes of the topic")]
    TooLarge,
    #[error("the partition stopped before the record was on stable storage")]
    Halted,
    #[error("{}", .0.description)]
    Unmet(Unmet),
    #[error("a bug in the server: building the batch panicked; see the server's log")]
    Panicked,
}

impl Failure {
    /// The label for the metric.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Offline(_) => "offline",
            Self::Gone => "gone",
            Self::NotLeader => "not_leader",
            Self::TooFewReplicas => "too_few_replicas",
            Self::QueueFull => "queue_full",
            Self::NoLeader(_) => "no_leader",
            Self::Unanswered(_) => "unanswered",
            Self::Refused(_) => "refused",
            Self::LogFailed(_) => "log_failed",
            Self::TooLarge => "too_large",
            Self::Halted => "halted",
            Self::Unmet(_) => "unmet_demand",
            Self::Panicked => "panicked",
        }
    }

    /// JetStream's error codes.
    fn codes(&self) -> (u16, u16) {
        match self {
            Self::TooLarge => TOO_LARGE,
            Self::Unmet(unmet) => (unmet.code, unmet.err_code),
            Self::Offline(_)
            | Self::Gone
            | Self::NotLeader
            | Self::TooFewReplicas
            | Self::QueueFull
            | Self::NoLeader(_)
            | Self::Unanswered(_)
            | Self::Refused(_)
            | Self::LogFailed(_)
            | Self::Halted
            | Self::Panicked => STORE_FAILED,
        }
    }
}

impl From<NotStored> for Failure {
    fn from(failure: NotStored) -> Self {
        match failure {
            NotStored::Offline(reason) => Self::Offline(reason.to_string()),
            NotStored::NoSuchPartition => Self::Offline(failure.to_string()),
            NotStored::TooLarge => Self::TooLarge,
            NotStored::Gone => Self::Gone,
            NotStored::NotLeader => Self::NotLeader,
            NotStored::TooFewReplicas => Self::TooFewReplicas,
            NotStored::QueueFull => Self::QueueFull,
            NotStored::NoLeader(reason) => Self::NoLeader(reason),
            NotStored::Unanswered(reason) => Self::Unanswered(reason),
            NotStored::Refused(reason) => Self::Refused(reason),
            NotStored::LogFailed(reason) => Self::LogFailed(reason),
            NotStored::Halted => Self::Halted,
            NotStored::Panicked => Self::Panicked,
        }
    }
}

/// The reply subjects for records of a batch. An empty list takes no memory.
#[derive(Debug, Default)]
pub(super) struct Replies {
    subjects: Vec<u8>,
    /// Index of the record, and the end of its subject.
    places: Vec<(u32, u32)>,
}

impl Replies {
    /// Adds a reply subject. A batch has less than 2^30 bytes, and so do the subjects of its burst.
    pub(super) fn push(&mut self, index: usize, subject: &[u8]) {
        self.subjects.extend_from_slice(subject);
        self.places.push((index as u32, self.subjects.len() as u32));
    }

    /// Creates the list for a single message.
    pub(super) fn of_one(subject: Option<&[u8]>) -> Self {
        let mut replies = Self::default();
        if let Some(subject) = subject {
            replies.push(0, subject);
        }
        replies
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The memory of the list.
    pub(super) fn bytes(&self) -> usize {
        self.subjects.len() + self.places.len() * size_of::<(u32, u32)>()
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut start = 0;
        self.places.iter().map(move |&(index, end)| {
            let subject = &self.subjects[start as usize..end as usize];
            start = end;
            (index, subject)
        })
    }
}

/// Publishes acknowledgements. Boxed, so that a connection's task reserves no room for it.
pub(super) type Telling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The outcome that is published.
enum Word {
    /// The record is stored. Contains the acknowledgement up to the sequence, and the sequence of the batch's
    /// first record.
    Stored { head: Vec<u8>, first: u64 },
    /// The record is not stored.
    Failed(String),
    /// What became of each message.
    Each { head: Vec<u8>, stream: String, published: Vec<Published> },
}

impl Word {
    fn write(&self, index: u32, payload: &mut Vec<u8>) {
        match self {
            Self::Each { head, stream, published } => match published.get(index as usize) {
                Some(Published::Stored(sequence)) => {
                    payload.extend_from_slice(head);
                    push_decimal(payload, *sequence);
                    payload.push(b'}');
                }
                Some(Published::Duplicate(first)) => {
                    let ack = Verdict::Duplicate(*first).ack(stream, None, *first);
                    payload.extend_from_slice(ack.as_bytes());
                }
                Some(Published::Refused(error)) => {
                    payload.extend_from_slice(refusal(error, stream).as_bytes());
                }
                // The node tells of each message.
                None => {}
            },
            Self::Stored { head, first } => {
                payload.extend_from_slice(head);
                push_decimal(payload, first + u64::from(index));
                payload.push(b'}');
            }
            Self::Failed(body) => payload.extend_from_slice(body.as_bytes()),
        }
    }
}

/// Acknowledges records once they are committed. The caller waits only if they are committed by now, or if
/// the limit of pending acknowledgements is reached: of this connection, until its pending ones are
/// published, or of all connections, until records are committed.
pub(super) async fn acknowledge(
    server: &Arc<NatsServer>,
    line: &Line,
    topic: &Arc<Topic>,
    partition: u32,
    stored: &StoredHere<'_>,
    replies: Replies,
) {
    if replies.is_empty() {
        return;
    }
    let Some(committing) = stored.committing() else {
        return tell(server, line, topic, partition, stored.first(), replies).await;
    };
    let (line, topic) = (line.clone(), Arc::clone(topic));
    let batch = Batch { line, topic, partition, first: stored.first(), replies };
    let captures = server.front.captures();
    let count = u32::try_from(batch.replies.len()).unwrap_or(u32::MAX).min(captures.acks_max);
    // The connection's own room comes first. A connection that waits for it does not block others.
    let room = batch.line.room(batch.replies.bytes()).await;
    // The semaphore is never closed.
    let Ok(permit) = Arc::clone(&captures.acks).acquire_many_owned(count).await else { return };
    let server = Arc::clone(server);
    server.front.metrics().capture.acks_waiting.inc_by(count.into());
    task::spawn(async move {
        let committed = committing.committed().await;
        server.front.metrics().capture.acks_waiting.dec_by(count.into());
        // Others do not wait while the acknowledgements are published, which may be slow.
        drop(permit);
        batch.told(&server, committed).await;
        drop(room);
    });
}

/// An appended batch and its reply subjects.
struct Batch {
    line: Line,
    topic: Arc<Topic>,
    partition: u32,
    first: Offset,
    replies: Replies,
}

impl Batch {
    fn told(self, server: &Arc<NatsServer>, committed: Result<(), NotStored>) -> Telling {
        let Self { line, topic, partition, first, replies } = self;
        match committed {
            Ok(()) => tell(server, &line, &topic, partition, first, replies),
            Err(failure) => {
                let failure = Failure::from(failure);
                let count = replies.len() as u64;
                server.front.metrics().capture.errors(failure.label()).inc_by(count);
                tell_failure(server, &line, &topic, partition, replies, &failure)
            }
        }
    }
}

/// Acknowledges the records of a batch whose first offset is `first`.
pub(super) fn tell(
    server: &Arc<NatsServer>,
    line: &Line,
    topic: &Topic,
    partition: u32,
    first: Offset,
    replies: Replies,
) -> Telling {
    if replies.is_empty() {
        return nobody();
    }
    let head = head(topic, partition);
    let first = first.get().unsigned_abs() + 1;
    answer(server, line, replies, Word::Stored { head, first })
}

/// Tells of each message what became of it.
pub(super) fn tell_each(
    server: &Arc<NatsServer>,
    line: &Line,
    topic: &Topic,
    published: Vec<Published>,
    replies: Replies,
) -> Telling {
    if replies.is_empty() {
        return nobody();
    }
    let mut name = Vec::new();
    write_name(&topic.image, 0, &mut name);
    let stream = String::from_utf8_lossy(&name).into_owned();
    answer(server, line, replies, Word::Each { head: head(topic, 0), stream, published })
}

/// The acknowledgement of a record up to the sequence.
fn head(topic: &Topic, partition: u32) -> Vec<u8> {
    let mut head = Vec::with_capacity(64);
    head.extend_from_slice(b"{\"stream\":");
    write_json_name(&topic.image, partition, &mut head);
    head.extend_from_slice(b",\"seq\":");
    head
}

/// Publishes that the messages were not stored.
pub(super) fn tell_failure(
    server: &Arc<NatsServer>,
    line: &Line,
    topic: &Topic,
    partition: u32,
    replies: Replies,
    failure: &Failure,
) -> Telling {
    if replies.is_empty() {
        return nobody();
    }
    let (code, err_code) = failure.codes();
    let mut stream = Vec::new();
    write_name(&topic.image, partition, &mut stream);
    let description = failure.to_string();
    let error = ApiError { code, err_code, description: &description };
    let body = PublishError { error, stream: &String::from_utf8_lossy(&stream), seq: 0 };
    let body = serde_json::to_string(&body).expect("text and numbers have a JSON form");
    answer(server, line, replies, Word::Failed(body))
}

/// Reports whether `name` is the name of the partition's stream.
pub(super) fn is_stream(topic: &Topic, partition: u32, name: &[u8]) -> bool {
    let mut stream = Vec::new();
    write_name(&topic.image, partition, &mut stream);
    stream == name
}

fn nobody() -> Telling {
    Box::pin(std::future::ready(()))
}

/// Joins the line at once, and publishes when it is first.
fn answer(server: &Arc<NatsServer>, line: &Line, replies: Replies, word: Word) -> Telling {
    let (front, mut place) = (Arc::clone(&server.front), line.join());
    Box::pin(async move {
        place.first().await;
        publish(&front, &replies, &word).await;
        drop(place);
    })
}

/// Publishes the outcome. Any number of subscribers may get it, so other tasks get turns meanwhile.
async fn publish(front: &NatsFront, replies: &Replies, word: &Word) {
    let (mut speaker, mut payload) = (Speaker::new(front), Vec::with_capacity(128));
    for (index, subject) in replies.iter() {
        payload.clear();
        word.write(index, &mut payload);
        let message = Message { subject, reply: None, headers: None, payload: &payload };
        speaker.say(front.router(), &message).await;
    }
    front.metrics().capture.acks.inc_by(replies.len() as u64);
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tailrace_env::time::{self, Duration};
    use tailrace_metadata::{Command, CreateTopic, Requester};
    use tailrace_node::Caller;
    use tailrace_types::TopicId;
    use tempfile::TempDir;

    use super::*;
    use crate::burst::Burst;
    use crate::capture::CaptureBurst;
    use crate::router::Begun;
    use crate::testing::{front, server_in, subscriber};

    /// Publishes `count` messages in one burst, each with this reply subject.
    async fn publish_captured(server: Arc<NatsServer>, line: Line, reply: &'static [u8], count: usize) {
        let subjects: Vec<_> = (0..count).map(|number| format!("t.{number}")).collect();
        let mut burst = Burst::default();
        let mut capture = CaptureBurst { line: Some(line), ..CaptureBurst::default() };
        for subject in &subjects {
            let (subject, reply) = (subject.as_bytes(), Some(reply));
            let message = Message { subject, reply, headers: None, payload: b"x" };
            let router = server.front.router();
            let begun =
                router.begin_crossed(&mut burst, None, &message, |binding| capture.push(binding, &message));
            assert!(matches!(begun, Begun::Done(0)));
        }
        burst.finish(server.front.metrics());
        capture.append(&server, Caller::internal()).await;
    }

    #[tokio::test]
    async fn who_is_told_slowly_keeps_no_other_publisher_waiting() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let folder = TempDir::new().unwrap();
        let (running, server) = server_in(&folder, &[("tailrace.nats.capture.acks.max", "1")]).await;
        let node = running.node();
        let configs = vec![("tailrace.subjects".to_owned(), Some("t.>".to_owned()))];
        let create = CreateTopic::with_defaults("t", TopicId([1; 16]), node.now(), Requester::Client);
        let create = Command::CreateTopic(CreateTopic { configs, ..create });
        node.execute(Caller::internal(), create).await.unwrap();
        let [slow, quick] =
            [&b"slow"[..], b"quick"].map(|subject| subscriber(&server.front, subject, None, 1));
        // An earlier entry of their line takes long to publish.
        let line = Line::default();
        let before = line.join();
        task::spawn(publish_captured(Arc::clone(&server), line, b"slow", 10));
        while server.front.metrics().capture.batches.get() == 0 {
            task::yield_now().await;
        }
        let other = publish_captured(Arc::clone(&server), Line::default(), b"quick", 1);
        time::timeout(PATIENCE, other).await.expect("it does not wait for the slow ones");
        while quick.sent().0 == 0 {
            task::yield_now().await;
        }
        assert_eq!(slow.sent().0, 0);
        drop(before);
        while slow.sent().0 < 10 {
            task::yield_now().await;
        }
        running.stop().await;
    }

    /// Returns how many turns other tasks get while this many replies are published to this many
    /// subscriptions.
    fn turns(replies: u32, subscriptions: u64) -> usize {
        let front = front();
        let client = subscriber(&front, b"r", None, subscriptions);
        let mut waiting = Replies::default();
        (0..replies).for_each(|index| waiting.push(index as usize, b"r"));
        let word = Word::Stored { head: b"{\"stream\":\"s\",\"seq\":".to_vec(), first: 1 };
        let mut published = pin!(publish(&front, &waiting, &word));
        let mut turns = 0;
        while published.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            turns += 1;
        }
        assert_eq!(client.sent().0, u64::from(replies) * subscriptions);
        assert_eq!(front.metrics().capture.acks.get(), u64::from(replies));
        turns
    }

    #[test]
    fn acknowledgements_that_many_get_take_several_turns() {
        // Each of these takes many milliseconds on any machine.
        assert!(turns(2_000, 300) > 1);
        assert!(turns(30, 20_000) > 1, "those to very many subscribers are split, too");
    }

    #[test]
    fn those_who_wait_are_told_the_sequence_or_the_reason() {
        let mut payload = Vec::new();
        Word::Stored { head: b"{\"seq\":".to_vec(), first: 17 }.write(3, &mut payload);
        assert_eq!(payload, b"{\"seq\":20}");
        payload.clear();
        Word::Failed("because".to_owned()).write(3, &mut payload);
        assert_eq!(payload, b"because");
    }

    #[test]
    fn replies_come_out_as_they_went_in() {
        let mut replies = Replies::default();
        assert!(replies.is_empty());
        for (index, subject) in [(0, "_INBOX.a"), (3, "b"), (4, "_INBOX.a")] {
            replies.push(index, subject.as_bytes());
        }
        let found: Vec<_> = replies.iter().collect();
        assert_eq!(found, [(0, &b"_INBOX.a"[..]), (3, b"b"), (4, b"_INBOX.a")]);
        assert_eq!(replies.len(), 3);
    }
}
