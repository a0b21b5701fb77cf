//! The common parts of the coordinators of groups, transactions and share groups.
//!
//! A coordinator is the state of one partition of an internal topic: everything whose name hashes to that
//! partition. It is a deterministic state machine. The caller passes in events with the time and the
//! metadata. The coordinator returns [`Effects`]: records to append, replies, and work to be done elsewhere.
//! Its state is a replay of its log, so a coordinator can be dropped and replayed at any time. Only pending
//! requests are lost.
//!
//! Deliberately not here: I/O, clocks, randomness (fresh ids come in with events), protocol error codes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use tailrace_metadata::MetadataImage;
use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

/// Target size of a batch of records, in bytes. Many offsets are written in several batches. A larger record
/// goes in a batch of its own.
const BATCH_BYTES: usize = 262_144;

/// A producer and its epoch, for which a coordinator writes transactional records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionalProducer {
    /// Its id.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
}

/// One record of a coordinator's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorRecord {
    /// The key, by which the log is compacted.
    pub key: Bytes,
    /// The value. `None` is a tombstone.
    pub value: Option<Bytes>,
}

/// Records that are appended together as one batch: all of them or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// With a producer, the batch is part of its transaction, and takes effect once that is committed.
    pub producer: Option<TransactionalProducer>,
    /// The records, at least one.
    pub records: Vec<CoordinatorRecord>,
}

/// Identifies a pending request. The caller assigns it; it is unique within a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The time and the metadata with which an event happens.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The current time. It never goes back while the process runs.
    pub now: TimestampMs,
    /// Topics and settings.
    pub image: &'a Arc<MetadataImage>,
    /// Source of generation numbers for this coordinator.
    pub generations: Generations<'a>,
}

/// A source of generation numbers for one partition. Each number is larger than all drawn before it, on any
/// node and before any restart. This needs neither a clock nor a record: each leader epoch of the partition
/// is led by one node only, and within an epoch the process counts.
#[derive(Clone, Copy, Debug)]
pub struct Generations<'a> {
    epoch: LeaderEpoch,
    drawn: &'a AtomicU32,
}

impl<'a> Generations<'a> {
    /// Makes a source for a coordinator that was loaded in this leader epoch. `drawn` counts the numbers that
    /// the process has drawn for the partition. It outlives the coordinator, which may be loaded several
    /// times in one epoch.
    pub const fn new(epoch: LeaderEpoch, drawn: &'a AtomicU32) -> Self {
        Self { epoch, drawn }
    }

    /// Returns the next number, which is positive.
    ///
    /// # Panics
    /// If one process has drawn four billion numbers.
    pub fn next(self) -> i64 {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        assert!(number < u32::MAX, "a process draws fewer generations");
        (i64::from(self.epoch.get()) << 32) | (i64::from(number) + 1)
    }
}

/// The results of a step.
#[derive(Debug)]
pub struct Effects<C: Coordinator> {
    /// Records to append to the coordinator's partition, in this order.
    pub appends: Vec<Append>,
    /// Replies to send once everything appended so far, by this and by earlier steps, is committed.
    pub replies: Vec<(Token, C::Reply)>,
    /// Work to start at that same time.
    pub work: Vec<C::Work>,
}

impl<C: Coordinator> Default for Effects<C> {
    fn default() -> Self {
        Self { appends: Vec::new(), replies: Vec::new(), work: Vec::new() }
    }
}

impl<C: Coordinator> Effects<C> {
    /// Makes effects that consist of one reply.
    pub fn reply(token: Token, reply: C::Reply) -> Self {
        Self { replies: vec![(token, reply)], ..Self::default() }
    }

    /// Adds records as one batch. An empty list adds none.
    pub fn append(&mut self, records: Vec<CoordinatorRecord>) {
        if !records.is_empty() {
            self.appends.push(Append { producer: None, records });
        }
    }

    /// Adds many records, in batches of bounded size.
    pub(crate) fn append_in_batches(
        &mut self,
        producer: Option<TransactionalProducer>,
        records: Vec<CoordinatorRecord>,
    ) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut flush = |records: Vec<CoordinatorRecord>| {
            if !records.is_empty() {
                self.appends.push(Append { producer, records });
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

    /// Appends the effects of `later` to these.
    pub fn extend(&mut self, later: Self) {
        self.appends.extend(later.appends);
        self.replies.extend(later.replies);
        self.work.extend(later.work);
    }
}

/// One entry of a coordinator's log.
#[derive(Clone, Copy, Debug)]
pub enum Replayed<'a> {
    /// A record.
    Record {
        /// Its key.
        key: &'a [u8],
        /// Its value, `None` for a tombstone.
        value: Option<&'a [u8]>,
        /// The time at which it was written.
        timestamp: TimestampMs,
        /// Its offset.
        offset: Offset,
        /// The producer, if it was written in a transaction. It takes effect only after a
        /// [`Replayed::Marker`] that commits.
        producer: Option<TransactionalProducer>,
    },
    /// The end of a transaction.
    Marker {
        /// The transaction's producer.
        producer: TransactionalProducer,
        /// Epoch of the transaction coordinator that wrote the marker.
        coordinator_epoch: i32,
        /// True if the transaction was committed.
        committed: bool,
    },
}

/// A record that cannot be parsed: it is damaged, or was written by a newer tailrace or Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReplayError(pub String);

/// A coordinator of one partition. See the module's documentation.
pub trait Coordinator: Send + Sized + 'static {
    /// Its events.
    type Event: Send;
    /// Its replies.
    type Reply: Send;
    /// The work that it wants done elsewhere.
    type Work: Send;

    /// Replays an entry of the log. Called for all entries, in order, before anything else.
    ///
    /// # Errors
    /// The record cannot be parsed. The coordinator ignores it.
    fn replay(&mut self, entry: Replayed<'_>) -> Result<(), ReplayError>;

    /// Ends the replay. Timers start now.
    fn loaded(&mut self, moment: &Moment<'_>) -> Effects<Self>;

    /// Handles an event. The state changes at once. If the appends fail, the caller drops the coordinator,
    /// replays it, and fails all pending requests.
    fn step(&mut self, event: Self::Event, moment: &Moment<'_>) -> Effects<Self>;

    /// Reacts to changes of topics or settings since the last step. The caller may also call it for
    /// irrelevant changes.
    fn metadata_changed(&mut self, _moment: &Moment<'_>) -> Effects<Self> {
        Effects::default()
    }

    /// Returns the time at which [`Coordinator::tick`] must be called. `None` for never. The caller asks
    /// after every step.
    fn deadline(&self) -> Option<TimestampMs>;

    /// Handles timers that have expired. The call may come early or late.
    fn tick(&mut self, moment: &Moment<'_>) -> Effects<Self>;
}

/// Returns the partition, out of `partitions` (which must be positive), to which `name` hashes. It is Java's
/// string hash without its sign, as Kafka's `Utils.abs` computes it.
pub fn partition_of_name(name: &str, partitions: i32) -> i32 {
    let hash =
        name.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    (hash & i32::MAX) % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_grow_within_an_epoch_and_over_epochs() {
        let (here, elsewhere) = (AtomicU32::new(0), AtomicU32::new(0));
        let mut last = 0;
        for (epoch, drawn) in
            [(0, &here), (0, &here), (1, &here), (2, &elsewhere), (2, &elsewhere), (7, &here)]
        {
            let next = Generations::new(LeaderEpoch(epoch), drawn).next();
            assert!(next > last, "{next} comes behind {last}");
            last = next;
        }
    }

    #[test]
    fn names_go_where_kafka_puts_them() {
        // From `Utils.abs("...".hashCode()) % 50` of Java 17.
        assert_eq!(partition_of_name("", 50), 0);
        assert_eq!(partition_of_name("a", 50), 97 % 50);
        assert_eq!(partition_of_name("hello", 50), 99_162_322 % 50);
        // A negative hash loses its sign bit.
        assert_eq!(partition_of_name("polygenelubricants", 50), 0);
    }
}
