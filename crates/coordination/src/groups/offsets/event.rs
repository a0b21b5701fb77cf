//! Requests about offsets, and their replies.

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
    /// Deletes offsets (OffsetDelete).
    Delete(Vec<TopicPartitions>),
}

/// A reply to an [`OffsetsEvent`].
#[derive(Clone, Debug, PartialEq)]
pub enum OffsetsReply {
    /// To [`OffsetsEvent::Commit`].
    Commit(Result<Vec<CommittedTopic>, GroupError>),
    /// To [`OffsetsEvent::Fetch`].
    Fetch(Result<Vec<FetchedTopic>, GroupError>),
    /// To [`OffsetsEvent::Delete`], in the request's order.
    Delete(Result<Vec<Vec<Result<(), GroupError>>>, GroupError>),
}

/// The client that commits.
#[derive(Clone, Debug, Default)]
pub struct Committer {
    /// The member's id. Empty for none.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// Generation of a classic group, member epoch of a consumer group, -1 for a client that is not a member.
    pub generation_or_epoch: i32,
    /// True if the client knows member epochs (OffsetCommit 9). Its errors then mention epochs instead of
    /// generations.
    pub knows_epochs: bool,
    /// The transaction that the offsets are part of.
    pub transaction: Option<TransactionalProducer>,
}

/// Offsets to be stored.
#[derive(Clone, Debug)]
pub struct CommitRequest {
    /// The client that commits.
    pub by: Committer,
    /// Retention of the offsets in milliseconds, if an old client sends it (OffsetCommit 2 to 4).
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
    /// Offset of the next record to be read. Any number is accepted: only the client interprets it.
    pub offset: i64,
    /// Leader epoch of the last record that was read. -1 for none.
    pub leader_epoch: i32,
    /// Metadata text of the client.
    pub metadata: String,
}

/// The results for a topic's offsets, in the order of the request.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedTopic {
    /// The topic, as the request named it.
    pub topic: TopicReference,
    /// Each partition's number and result.
    pub partitions: Vec<(i32, Result<(), GroupError>)>,
}

/// A request for committed offsets.
#[derive(Clone, Debug, Default)]
pub struct FetchRequest {
    /// The member that asks, if the request names one.
    pub member: Option<Arc<str>>,
    /// Its epoch. -1 for none.
    pub member_epoch: i32,
    /// The wanted topics. `None` for all.
    pub topics: Option<Vec<FetchTopic>>,
    /// True if offsets that an open transaction may change are reported as unstable (KIP-447).
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
    /// Its name, if known.
    pub name: Arc<str>,
    /// Its id, if known.
    pub id: TopicId,
    /// Its partitions.
    pub partitions: Vec<FetchedPartition>,
}

/// The result for one partition.
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
    /// Offset of the next record to be read.
    pub offset: i64,
    /// Leader epoch of the last record that was read. -1 for none.
    pub leader_epoch: i32,
    /// Metadata text of the client.
    pub metadata: Arc<str>,
    /// The time of the commit.
    pub committed_at: TimestampMs,
    /// The time at which it expires, if the client set one. -1 if the broker's retention applies.
    pub expires_at: TimestampMs,
    /// The topic's id at the time of the commit.
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
