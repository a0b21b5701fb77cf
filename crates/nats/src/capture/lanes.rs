//! The batches of one burst: one for each partition, or several if one would become too large.

use std::collections::HashMap;
use std::sync::Arc;

use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::TimestampMs;

use super::acks::Replies;
use crate::mapping::RecordParts;
use tailrace_node::partitions::Topic;

/// Largest number of batches for which a linear search is faster than a table.
const LINEAR_MAX: usize = 16;

/// Room for the first record of a batch, besides its key and value.
const FIRST_RECORD_OVERHEAD: usize = 64;

/// A batch for one partition.
pub(super) struct Lane {
    pub(super) topic: Arc<Topic>,
    pub(super) partition: u32,
    pub(super) builder: BatchBuilder,
    /// The reply subjects, by record.
    pub(super) replies: Replies,
    /// The number of messages that are too large for any batch, and their reply subjects.
    pub(super) too_large: usize,
    pub(super) refused: Replies,
    /// Some of its messages are judged by the leader of the stream. The others pass there, in their order.
    pub(super) is_judged: bool,
    /// Most bytes of a batch with more than one record.
    bytes_max: usize,
}

/// A message as it goes into a batch.
pub(super) struct Place<'a> {
    pub(super) topic: &'a Arc<Topic>,
    pub(super) partition: u32,
    /// The outcome is published to this subject.
    pub(super) reply: Option<&'a [u8]>,
    /// The leader of the stream judges it.
    pub(super) is_judged: bool,
}

/// The batches of one burst, in the order of their first records.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// The newest lane of each partition, once there are more than [`LINEAR_MAX`].
    newest: HashMap<(usize, u32), usize>,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Adds a record to its partition's batch.
    pub(super) fn push(&mut self, place: &Place<'_>, now: TimestampMs, record: &RecordParts<'_>) {
        let &Place { topic, partition, reply, is_judged } = place;
        let at = match self.find(topic, partition) {
            Some(at) if self.lanes[at].add(now, record, reply) => {
                self.lanes[at].is_judged |= is_judged;
                return;
            }
            // Later records must come after this one, so it opens a new batch.
            _ => self.open(topic, partition, now, record),
        };
        let lane = &mut self.lanes[at];
        lane.is_judged = is_judged;
        // A single record may take all that the topic allows.
        if !lane.add_alone(now, record, reply) {
            lane.too_large += 1;
            if let Some(reply) = reply {
                lane.refused.push(0, reply);
            }
        }
    }

    /// Takes all batches. The list keeps a little memory for the next burst.
    pub(super) fn take(&mut self) -> Vec<Lane> {
        self.newest.clear();
        std::mem::take(&mut self.lanes)
    }

    fn find(&self, topic: &Arc<Topic>, partition: u32) -> Option<usize> {
        if self.lanes.len() > LINEAR_MAX {
            return self.newest.get(&(Arc::as_ptr(topic) as usize, partition)).copied();
        }
        let is_it = |lane: &Lane| lane.partition == partition && Arc::ptr_eq(&lane.topic, topic);
        self.lanes.iter().rposition(is_it)
    }

    fn open(
        &mut self,
        topic: &Arc<Topic>,
        partition: u32,
        now: TimestampMs,
        record: &RecordParts<'_>,
    ) -> usize {
        let at = self.lanes.len();
        self.lanes.push(Lane::new(topic, partition, now, record));
        let place = |lane: &Lane| (Arc::as_ptr(&lane.topic) as usize, lane.partition);
        if at == LINEAR_MAX {
            self.newest.extend(self.lanes.iter().enumerate().map(|(at, lane)| (place(lane), at)));
        } else if at > LINEAR_MAX {
            self.newest.insert(place(&self.lanes[at]), at);
        }
        at
    }
}

impl Lane {
    fn new(topic: &Arc<Topic>, partition: u32, now: TimestampMs, record: &RecordParts<'_>) -> Self {
        let compression = topic.stored_compression();
        let options = BatchOptions {
            compression: compression.unwrap_or_default(),
            levels: topic.compression_levels(),
            log_append_time: topic.log_append_time.then_some(now),
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        builder.reserve(record.key.len() + record.value.map_or(0, <[u8]>::len) + FIRST_RECORD_OVERHEAD);
        // Incompressible data grows a little.
        let bytes_max = topic.batch_bytes_max();
        let slack = if compression.is_some() { bytes_max / 64 } else { 0 };
        Self {
            topic: Arc::clone(topic),
            partition,
            builder,
            replies: Replies::default(),
            too_large: 0,
            refused: Replies::default(),
            is_judged: false,
            bytes_max: bytes_max - slack,
        }
    }

    /// Adds a record. Reports whether there was room for it.
    fn add(&mut self, now: TimestampMs, record: &RecordParts<'_>, reply: Option<&[u8]>) -> bool {
        self.add_within(self.bytes_max, now, record, reply)
    }

    fn add_alone(&mut self, now: TimestampMs, record: &RecordParts<'_>, reply: Option<&[u8]>) -> bool {
        self.add_within(self.topic.batch_bytes_max(), now, record, reply)
    }

    fn add_within(
        &mut self,
        bytes_max: usize,
        now: TimestampMs,
        record: &RecordParts<'_>,
        reply: Option<&[u8]>,
    ) -> bool {
        let index = self.builder.len();
        let pushed = self.builder.push_within(bytes_max, now, Some(record.key), record.value, record.headers);
        if pushed.is_err() {
            return false;
        }
        if let Some(reply) = reply {
            self.replies.push(index, reply);
        }
        true
    }
}
