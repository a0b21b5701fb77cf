//! Committed offsets: how far each group has read each partition.
//!
//! `store.rs` holds them, both committed and pending in transactions. `commit.rs`, `fetch.rs` and `delete.rs`
//! handle one request each, `expire.rs` expires them. Only clients interpret the numbers. As in Kafka, any
//! offset is stored, including negative ones and those beyond the end of the log.

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
