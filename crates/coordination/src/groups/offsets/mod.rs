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
mod replay;
mod store;

use std::sync::Arc;

pub use event::{
    CommitPartition, CommitRequest, CommitTopic, CommittedOffset, CommittedTopic, Committer, FetchRequest,
    FetchTopic, FetchedPartition, FetchedTopic, OffsetsEvent, OffsetsReply, TopicPartitions, TopicReference,
};
pub(in crate::groups) use store::Offsets;

use bytes::Bytes;
use tailrace_records::internal::OffsetKey;

use crate::coordinator::{CoordinatorRecord, Effects, Moment, Token, TransactionalProducer};
use crate::groups::{GroupCoordinator, GroupReply};

/// Bytes of records that go into one batch: many offsets are written in several. A record that is larger goes alone.
const BATCH_BYTES: usize = 262_144;

impl GroupCoordinator {
    pub(super) fn step_offsets(
        &mut self,
        token: Token,
        group: &Arc<str>,
        event: OffsetsEvent,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let reply = match event {
            OffsetsEvent::Commit(request) => {
                OffsetsReply::Commit(self.commit(group, request, moment, effects))
            }
            OffsetsEvent::Fetch(request) => OffsetsReply::Fetch(self.fetch(group, &request, moment)),
            OffsetsEvent::Delete(topics) => {
                OffsetsReply::Delete(self.delete_offsets(group, &topics, moment, effects))
            }
        };
        effects.replies.push((token, GroupReply::Offsets(reply)));
    }
}

fn key(group: &str, topic: &str, partition: i32) -> Bytes {
    OffsetKey { group, topic, partition }.encode()
}

fn tombstone(group: &str, topic: &str, partition: i32) -> CoordinatorRecord {
    CoordinatorRecord { key: key(group, topic, partition), value: None }
}

/// Appends many records in batches of bounded size.
pub(in crate::groups) fn append_in_batches(
    effects: &mut Effects<GroupCoordinator>,
    producer: Option<TransactionalProducer>,
    records: Vec<CoordinatorRecord>,
) {
    let mut batch = Vec::new();
    let mut bytes = 0;
    let mut flush = |records: Vec<CoordinatorRecord>| {
        if !records.is_empty() {
            effects.appends.push(crate::coordinator::Append { producer, records });
        }
    };
    for record in records {
        bytes += record.key.len() + record.value.as_ref().map_or(0, Bytes::len);
        batch.push(record);
        if bytes >= BATCH_BYTES {
            flush(std::mem::take(&mut batch));
            bytes = 0;
        }
    }
    flush(batch);
}
