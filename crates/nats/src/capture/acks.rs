//! Publish acknowledgements, as JetStream words them: `{"stream":"orders","seq":17}`.
//!
//! The stream is the topic, with `_` for `.`; of a topic with several partitions each is a stream of its own, NAME-PARTITION.
//! The sequence is the record's offset plus one.

use std::sync::Arc;
use tailrace_env::task;

use serde::Serialize;
use tailrace_nats_wire::{Message, push_decimal};
use tailrace_types::Offset;

use crate::burst::Burst;
use crate::capture::demands::Unmet;
use crate::server::NatsServer;
use tailrace_node::partitions::Topic;
use tailrace_node::relay::{NotStored, StoredHere};

/// JetStream's codes of "the stream could not store it" and "the message is too large".
const STORE_FAILED: (u16, u16) = (503, 10077);
const TOO_LARGE: (u16, u16) = (400, 10054);

/// A negative acknowledgement, its fields in nats-server's order.
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

/// Why a message was not stored, or not as durably as promised.
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
    #[error("too much waits for the leaders of partitions on other nodes")]
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
    #[error("a bug of the server: building the batch panicked; see the server's log")]
    Panicked,
}

impl Failure {
    /// For the metric.
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

    /// JetStream's codes.
    fn codes(&self) -> (u16, u16) {
        match self {
            Self::TooLarge => TOO_LARGE,
            Self::Unmet(unmet) => (unmet.code, unmet.err_code),
            _ => STORE_FAILED,
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

/// Who wants to be told about which records of a batch. Empty, it takes no memory.
#[derive(Debug, Default)]
pub(super) struct Replies {
    subjects: Vec<u8>,
    /// Index of the record, and where its subject ends.
    places: Vec<(u32, u32)>,
}

impl Replies {
    /// A batch has less than 2^30 bytes, and so have the subjects of its burst.
    pub(super) fn push(&mut self, index: usize, subject: &[u8]) {
        self.subjects.extend_from_slice(subject);
        self.places.push((index as u32, self.subjects.len() as u32));
    }

    /// Those of a single message.
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

    fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut start = 0;
        self.places.iter().map(move |&(index, end)| {
            let subject = &self.subjects[start as usize..end as usize];
            start = end;
            (index, subject)
        })
    }
}

/// Acknowledges the records once they are committed. Returns at once, unless as many acknowledgements wait as may.
pub(super) async fn acknowledge(
    server: &Arc<NatsServer>,
    topic: &Arc<Topic>,
    partition: u32,
    stored: &StoredHere<'_>,
    replies: Replies,
) {
    if replies.is_empty() {
        return;
    }
    let Some(committing) = stored.committing() else {
        return tell(server, topic, partition, stored.first(), &replies);
    };
    let batch = Batch { topic: Arc::clone(topic), partition, first: stored.first(), replies };
    let captures = server.front.captures();
    let count = u32::try_from(batch.replies.len()).unwrap_or(u32::MAX).min(captures.acks_max);
    // It is closed by nobody.
    let Ok(permit) = Arc::clone(&captures.acks).acquire_many_owned(count).await else { return };
    let server = Arc::clone(server);
    server.front.metrics().capture.acks_waiting.inc_by(count.into());
    task::spawn(async move {
        match committing.committed().await {
            Ok(()) => tell(&server, &batch.topic, batch.partition, batch.first, &batch.replies),
            Err(failure) => batch.fail(&server, &failure.into()),
        }
        server.front.metrics().capture.acks_waiting.dec_by(count.into());
        drop(permit);
    });
}

/// An appended batch with those who wait for it.
struct Batch {
    topic: Arc<Topic>,
    partition: u32,
    first: Offset,
    replies: Replies,
}

impl Batch {
    fn fail(&self, server: &NatsServer, failure: &Failure) {
        let count = self.replies.len() as u64;
        server.front.metrics().capture.errors(failure.label()).inc_by(count);
        answer_failure(server, &self.topic, self.partition, &self.replies, failure);
    }
}

/// Acknowledges the records of a batch that begins at `first`.
pub(super) fn tell(server: &NatsServer, topic: &Topic, partition: u32, first: Offset, replies: &Replies) {
    if replies.is_empty() {
        return;
    }
    let mut head = Vec::with_capacity(64);
    head.extend_from_slice(b"{\"stream\":\"");
    write_stream(topic, partition, &mut head);
    head.extend_from_slice(b"\",\"seq\":");
    let first = first.get().unsigned_abs() + 1;
    answer(server, replies, |index, payload| {
        payload.extend_from_slice(&head);
        push_decimal(payload, first + u64::from(index));
        payload.push(b'}');
    });
}

/// Tells those who wait that their messages were not stored.
pub(super) fn answer_failure(
    server: &NatsServer,
    topic: &Topic,
    partition: u32,
    replies: &Replies,
    failure: &Failure,
) {
    if replies.is_empty() {
        return;
    }
    let (code, err_code) = failure.codes();
    let mut stream = Vec::new();
    write_stream(topic, partition, &mut stream);
    let description = failure.to_string();
    let error = ApiError { code, err_code, description: &description };
    let body = PublishError { error, stream: &String::from_utf8_lossy(&stream), seq: 0 };
    let body = serde_json::to_string(&body).expect("it is made of text and numbers");
    answer(server, replies, |_, payload| payload.extend_from_slice(body.as_bytes()));
}

/// The name of the stream that the partition is. Names of topics need no escapes in JSON.
fn write_stream(topic: &Topic, partition: u32, out: &mut Vec<u8>) {
    out.extend(topic.name.as_str().bytes().map(|byte| if byte == b'.' { b'_' } else { byte }));
    if topic.partition_count() > 1 {
        out.push(b'-');
        push_decimal(out, partition.into());
    }
}

/// True if this is the name of the stream that the partition is.
pub(super) fn is_stream(topic: &Topic, partition: u32, name: &[u8]) -> bool {
    let mut stream = Vec::new();
    write_stream(topic, partition, &mut stream);
    stream == name
}

fn answer(server: &NatsServer, replies: &Replies, mut write: impl FnMut(u32, &mut Vec<u8>)) {
    let (mut burst, mut payload) = (Burst::default(), Vec::with_capacity(128));
    for (index, subject) in replies.iter() {
        payload.clear();
        write(index, &mut payload);
        let message = Message { subject, reply: None, headers: None, payload: &payload };
        server.front.publish(&mut burst, &message);
    }
    burst.finish(server.front.metrics());
    server.front.metrics().capture.acks.inc_by(replies.len() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

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
