//! What the coordinators of groups, transactions and share groups have in common.
//!
//! A coordinator is the state of one partition of an internal topic: everything whose name hashes to that partition.
//! It is a deterministic state machine. The shell hands it events with the time and the metadata; it answers with
//! [`Effects`]: records to append, replies, and work to be done elsewhere. Its state is what its log says, replayed:
//! a coordinator that is thrown away and replayed is as good as before, but for those who were waiting.
//!
//! Deliberately not here: I/O, clocks, randomness (fresh ids come in with events), protocol error codes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use tailrace_metadata::MetadataImage;
use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

/// Bytes of records that go into one batch: many offsets are written in several. A record that is larger goes alone.
const BATCH_BYTES: usize = 262_144;

/// A producer in a generation, on whose behalf a coordinator writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionalProducer {
    /// Its id.
    pub id: ProducerId,
    /// Its generation.
    pub epoch: ProducerEpoch,
}

/// One record of a coordinator's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorRecord {
    /// What it is about; the log is compacted by it.
    pub key: Bytes,
    /// What is true of it; `None` says that it is gone.
    pub value: Option<Bytes>,
}

/// Records that are appended together, as one batch: all of them or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// With a producer the batch is part of its transaction and counts once that is committed.
    pub producer: Option<TransactionalProducer>,
    /// At least one.
    pub records: Vec<CoordinatorRecord>,
}

/// Names one who waits for an answer. Given by the shell, unique within a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// When, and in what surroundings, something happens.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The time, which never goes back while the process runs.
    pub now: TimestampMs,
    /// Topics and settings.
    pub image: &'a Arc<MetadataImage>,
    /// Where a coordinator draws numbers that it has never had before.
    pub generations: Generations<'a>,
}

/// Gives a coordinator numbers, each larger than all that were drawn before it in the same partition: by whichever node, before
/// whichever start. No clock and no record is needed for that: the epoch in which a node leads the partition is one that nobody led
/// in before, and within it the process counts.
#[derive(Clone, Copy, Debug)]
pub struct Generations<'a> {
    epoch: LeaderEpoch,
    drawn: &'a AtomicU32,
}

impl<'a> Generations<'a> {
    /// Those of a coordinator that was loaded in this epoch. `drawn` is how many the process has drawn for its partition; it outlives
    /// the coordinator, which may be loaded several times in one epoch.
    pub const fn new(epoch: LeaderEpoch, drawn: &'a AtomicU32) -> Self {
        Self { epoch, drawn }
    }

    /// The next one. It is positive.
    ///
    /// # Panics
    /// If one process has drawn four billion.
    pub fn next(self) -> i64 {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        assert!(number < u32::MAX, "a process draws fewer generations");
        (i64::from(self.epoch.get()) << 32) | (i64::from(number) + 1)
    }
}

/// What a step brings about.
#[derive(Debug)]
pub struct Effects<C: Coordinator> {
    /// To be appended to the coordinator's partition, in this order.
    pub appends: Vec<Append>,
    /// To be sent once everything appended so far, by this and by earlier steps, is committed.
    pub replies: Vec<(Token, C::Reply)>,
    /// To be done at that time too.
    pub work: Vec<C::Work>,
}

impl<C: Coordinator> Default for Effects<C> {
    fn default() -> Self {
        Self { appends: Vec::new(), replies: Vec::new(), work: Vec::new() }
    }
}

impl<C: Coordinator> Effects<C> {
    /// Nothing but one answer.
    pub fn reply(token: Token, reply: C::Reply) -> Self {
        Self { replies: vec![(token, reply)], ..Self::default() }
    }

    /// Adds records as a batch of their own. None are no batch.
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

    /// Adds everything of `later` behind what is here.
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
        /// When it was written.
        timestamp: TimestampMs,
        /// Where it lies.
        offset: Offset,
        /// In whose transaction it was written: it counts only after a [`Replayed::Marker`] that commits.
        producer: Option<TransactionalProducer>,
    },
    /// The end of a transaction.
    Marker {
        /// Whose.
        producer: TransactionalProducer,
        /// Generation of the coordinator that decided it.
        coordinator_epoch: i32,
        /// Whether its records count.
        committed: bool,
    },
}

/// A record that cannot be understood: damaged, or of a newer tailrace or Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReplayError(pub String);

/// A coordinator of one partition. See the module's documentation.
pub trait Coordinator: Send + Sized + 'static {
    /// What can happen to it.
    type Event: Send;
    /// What it answers.
    type Reply: Send;
    /// What it wants done elsewhere.
    type Work: Send;

    /// Takes over what the log holds, in order, before anything else happens.
    ///
    /// # Errors
    /// The record cannot be understood. It is as if it were not there.
    fn replay(&mut self, entry: Replayed<'_>) -> Result<(), ReplayError>;

    /// Everything was replayed: time begins to run.
    fn loaded(&mut self, moment: &Moment<'_>) -> Effects<Self>;

    /// Decides about an event. The state changes at once; if the appends fail, the coordinator is thrown away and
    /// replayed, and everybody who waits is told so.
    fn step(&mut self, event: Self::Event, moment: &Moment<'_>) -> Effects<Self>;

    /// Topics or settings have changed since the last step. May be called for changes that do not matter.
    fn metadata_changed(&mut self, _moment: &Moment<'_>) -> Effects<Self> {
        Effects::default()
    }

    /// When [`Coordinator::tick`] wants to be called; `None` for never. Asked after every step.
    fn deadline(&self) -> Option<TimestampMs>;

    /// Time has passed. May come early or late.
    fn tick(&mut self, moment: &Moment<'_>) -> Effects<Self>;
}

/// The partition that everything about `name` belongs to, of `partitions` (which must be positive): the hash that Java
/// gives a string, without its sign, as Kafka's `Utils.abs` has it.
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
        // A hash below zero loses its sign bit.
        assert_eq!(partition_of_name("polygenelubricants", 50), 0);
    }
}
