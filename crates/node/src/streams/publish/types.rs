//! What is published, and what becomes of it.

use bytes::Bytes;
use tailrace_jetstream::error::ApiError;
use tailrace_types::{LeaderEpoch, ProducerId};

use crate::partitions::Awaited;

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// It is stored, with this sequence.
    Stored(u64),
    /// It was there before, with this sequence.
    Duplicate(u64),
    /// It is not stored.
    Refused(Box<ApiError>),
}

/// The node that sends a request for another client, as an idempotent producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) producer: ProducerId,
    /// The sequence of the first record that is stored. The other ones follow without a gap.
    pub(crate) sequence: i32,
    /// The number of the request, which grows.
    pub(crate) request: u64,
    /// The epoch in which it may be judged, if the sender knows one.
    pub(crate) epoch: Option<LeaderEpoch>,
}

/// Messages for a stream, in order.
#[derive(Clone, Debug)]
pub(crate) struct PublishRequest {
    /// At most as many as a partition remembers of a producer.
    pub(crate) batches: Vec<Bytes>,
    /// `None` if nothing comes again: the only replica is on the publisher's node.
    pub(crate) sender: Option<Sender>,
}

/// Messages that were judged. Nothing may be told before that is committed which the judgements rest on.
#[derive(Debug)]
pub(crate) struct PublishedHere {
    /// One for each message.
    pub(crate) published: Vec<Published>,
    /// How many were stored.
    pub(crate) stored: i32,
    /// Bytes of the batches that were appended.
    pub(crate) bytes: u64,
    /// What has to be committed. `None` if nothing has to.
    pub(crate) awaited: Option<Awaited>,
}

/// Why messages were not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotPublished {
    /// Another node leads, or the table is being made. The same request may come again. Without a sender,
    /// none of it is stored.
    Again(String),
    /// For good, and nothing of it is stored by this attempt.
    Refused(String),
    /// Some may be stored.
    Unknown(String),
}
