//! Requests about offsets, and their answers.

use std::sync::Arc;

use tailrace_metadata::TopicRef;
use tailrace_types::{TimestampMs, TopicId};

use crate::coordinator::TransactionalProducer;
use crate::groups::GroupError;

/// A request about a group's offsets.
#[derive(Debug)]
pub enum OffsetsEvent {
    /// Stores offsets (OffsetCommit), or makes them part of a transaction (TxnOffsetCommit).
    Commit(CommitRequest),
    /// Reads offsets (OffsetFetch).
    Fetch(FetchRequest),
    /// Forgets offsets (OffsetDelete).
    Delete(Vec<TopicPartitions>),
}

/// An answer to one.
#[derive(Clone, Debug, PartialEq)]
pub enum OffsetsReply {
    /// To [`OffsetsEvent::Commit`].
    Commit(Result<Vec<CommittedTopic>, GroupError>),
    /// To [`OffsetsEvent::Fetch`].
    Fetch(Result<Vec<FetchedTopic>, GroupError>),
    /// To [`OffsetsEvent::Delete`], in the request's order.
    Delete(Result<Vec<Vec<Result<(), GroupError>>>, GroupError>),
}

/// Who commits.
#[derive(Clone, Debug, Default)]
pub struct Committer {
    /// The member's id, empty for none.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// Generation of a classic group, member epoch of a consumer group, -1 for one that is no member.
    pub generation_or_epoch: i32,
    /// True if the client knows of member epochs (OffsetCommit 9): it is told of them where others are told of generations.
    pub knows_epochs: bool,
    /// The transaction that the offsets are part of.
    pub transaction: Option<TransactionalProducer>,
}

/// Offsets to be stored.
#[derive(Clone, Debug)]
pub struct CommitRequest {
    /// Who commits.
    pub by: Committer,
    /// How long the offsets are kept, in milliseconds, where an old client says so (OffsetCommit 2 to 4).
    pub retention_ms: Option<i64>,
    /// The offsets, by topic.
    pub topics: Vec<CommitTopic>,
}

/// Offsets of one topic.
#[derive(Clone, Debug)]
pub struct CommitTopic {
    /// The topic.
    pub topic: TopicReference,
    /// Its partitions.
    pub partitions: Vec<CommitPartition>,
}

/// A topic by name or by id.
pub type TopicReference = TopicRef;

/// The offset of one partition.
#[derive(Clone, Debug)]
pub struct CommitPartition {
    /// Its number.
    pub index: i32,
    /// The next record to be read. Any number: what it means is the client's affair.
    pub offset: i64,
    /// Leader epoch of the last record read, -1 for none.
    pub leader_epoch: i32,
    /// Text of the client's own.
    pub metadata: String,
}

/// What became of a topic's offsets, in the request's order.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedTopic {
    /// The topic, as the request named it.
    pub topic: TopicReference,
    /// Each partition's number and fate.
    pub partitions: Vec<(i32, Result<(), GroupError>)>,
}

/// Which offsets are wanted.
#[derive(Clone, Debug, Default)]
pub struct FetchRequest {
    /// The member that asks, if it says so.
    pub member: Option<Arc<str>>,
    /// Its epoch, -1 for none.
    pub member_epoch: i32,
    /// Which; `None` for all.
    pub topics: Option<Vec<FetchTopic>>,
    /// True to be told of offsets that an open transaction is about to change (KIP-447).
    pub require_stable: bool,
}

/// Wanted partitions of one topic.
#[derive(Clone, Debug)]
pub struct FetchTopic {
    /// The topic.
    pub topic: TopicReference,
    /// Numbers of partitions.
    pub partitions: Vec<i32>,
}

/// Offsets of one topic.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchedTopic {
    /// Its name, as far as known.
    pub name: Arc<str>,
    /// Its id, as far as known.
    pub id: TopicId,
    /// Its partitions.
    pub partitions: Vec<FetchedPartition>,
}

/// What is known of one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchedPartition {
    /// Its number.
    pub index: i32,
    /// The offset, if one is committed.
    pub offset: Result<Option<CommittedOffset>, GroupError>,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next record to be read.
    pub offset: i64,
    /// Leader epoch of the last record read, -1 for none.
    pub leader_epoch: i32,
    /// Text of the client's own.
    pub metadata: Arc<str>,
    /// When it was committed.
    pub committed_at: TimestampMs,
    /// When it expires, if the client said so; -1 if the retention of the broker decides.
    pub expires_at: TimestampMs,
    /// The topic's id when it was committed.
    pub topic_id: TopicId,
}

/// Partitions of one topic.
#[derive(Clone, Debug)]
pub struct TopicPartitions {
    /// The topic's name.
    pub topic: String,
    /// Numbers of partitions.
    pub partitions: Vec<i32>,
}
