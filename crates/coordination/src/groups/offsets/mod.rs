//! Committed offsets: how far each group has read each partition.
//!
//! `store.rs` holds them, committed and pending in transactions; `commit.rs`, `fetch.rs`, `delete.rs` answer one request each,
//! `expire.rs` lets them go in time. What a number means is the client's affair: any offset is stored, negative ones and those beyond
//! the end of the log included, as Kafka does.

mod commit;
mod delete;
mod event;
mod expire;
mod fetch;
mod records;
mod replay;
mod step;
mod store;

pub use event::{
    CommitPartition, CommitRequest, CommitTopic, CommittedOffset, CommittedTopic, Committer, FetchRequest,
    FetchTopic, FetchedPartition, FetchedTopic, OffsetsEvent, OffsetsReply, TopicPartitions, TopicReference,
};
pub(in crate::groups) use store::Offsets;
