//! Taps: sinks that hear of what is appended to topics once it is committed, without fetching it.
//!
//! A front registers a [`Sink`] at the start. An append puts the range of its offsets into the partition's
//! queue (`queue`) of each sink that wants the topic's records. This happens under the partition's lock, so
//! that ranges are in the order of the log. One task for each non-empty queue waits until its ranges are
//! committed, reads them back from the log, and hands whole batches to the sink (`reader`).
//!
//! Another leader may have overwritten an append before it was committed. Then the offsets are the same, but
//! the epoch is not. The other leader's node passes on what it appended.
//!
//! If a sink or the disk cannot keep up, the oldest ranges are skipped, and the sink is told how many records
//! it missed. Nothing here delays an append.

mod queue;
mod reader;

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tailrace_env::sync::Semaphore;
use tailrace_records::{BatchError, BatchHeader, split_batches};
use tailrace_replication::AbortedTransaction;
use tailrace_types::{LeaderEpoch, Offset};

pub use self::queue::TapBudget;
use self::queue::TapQueue;
pub(crate) use self::queue::TapQueues;
pub(crate) use self::queue::TapRange;
use crate::partitions::{PartitionHandle, Topic};

/// Maximum sinks of one server. Each has a bit in [`WantedBy`].
const SINKS_MAX: usize = 8;

/// Pieces of all partitions that are in memory at the same time for one sink: 16 MiB, more if batches are
/// larger.
const PIECES_MAX: usize = 64;

/// A receiver of committed records.
pub trait Sink: Send + Sync {
    /// Returns its name in the server's log.
    fn name(&self) -> &'static str;

    /// Reports whether it might want records of the topic. Called before each append and before each read.
    fn wants(&self, topic: &Topic) -> bool;

    /// Returns the budget for what waits for it.
    fn budget(&self) -> &TapBudget;

    /// Starts one range of a partition, which arrives in pieces.
    fn begin(self: Arc<Self>) -> Box<dyn Intake>;

    /// Tells it that it missed this many records.
    fn skipped(&self, records: u64);
}

/// How much of a piece a sink has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// All of it.
    All,
    /// Everything before this offset. For the rest it needs something of which there is not enough: see
    /// [`Intake::wait`].
    Before(Offset),
}

/// The future of [`Intake::take`].
pub type Taken<'a> = Pin<Box<dyn Future<Output = Result<Took, NotTaken>> + Send + 'a>>;

/// The future of [`Intake::wait`].
pub type Waited<'a> = Pin<Box<dyn Future<Output = Result<(), NotTaken>> + Send + 'a>>;

/// Why a sink took only part of a piece.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// A batch cannot be read.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A bug in the server: a task ended without a result.
    #[error("a task of the sink has failed")]
    Failed,
}

/// A sink that is taking a range.
pub trait Intake: Send {
    /// Takes the next piece. The one behind it is read when this completes. A piece occupies one of the
    /// places that all partitions share, so this must not wait for anything that others may hold for long.
    fn take<'a>(&'a mut self, topic: &'a Topic, piece: &'a Committed) -> Taken<'a>;

    /// Waits, without a piece, for what was missing when it took only part of one. Then the rest is read
    /// again.
    fn wait(&mut self) -> Waited<'_> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Whole batches of one partition, all committed.
pub struct Committed {
    bytes: Bytes,
    /// The epoch in which they were appended on this node.
    epoch: LeaderEpoch,
    /// Records before this offset were taken before, or deleted.
    pub from: Offset,
    aborted: Vec<AbortedTransaction>,
}

impl Committed {
    /// Iterates over the batches that were appended on this node, without markers and batches of aborted
    /// transactions. Batches with which a later leader has overwritten them are not included: the node that
    /// appended those passes them on.
    pub fn batches(&self) -> impl Iterator<Item = Result<(BatchHeader, Bytes), BatchError>> {
        let batches = split_batches(&self.bytes).map(|batch| {
            let (header, bytes) = batch?;
            let is_other = header.leader_epoch != self.epoch;
            let is_passed_over = is_other || header.attributes.is_control() || self.is_aborted(&header);
            Ok((!is_passed_over).then(|| (header, self.bytes.slice_ref(bytes))))
        });
        batches.filter_map(Result::transpose)
    }

    fn is_aborted(&self, batch: &BatchHeader) -> bool {
        batch.attributes.is_transactional()
            && self.aborted.iter().any(|transaction| {
                transaction.producer_id == batch.producer_id
                    && (transaction.first_offset..=transaction.last_offset).contains(&batch.base_offset)
            })
    }
}

/// The set of sinks that want what is appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedBy(u8);

impl WantedBy {
    /// No sink.
    pub(crate) const NOBODY: Self = Self(0);

    fn numbers(self) -> impl Iterator<Item = usize> {
        (0..SINKS_MAX).filter(move |number| self.0 & (1 << number) != 0)
    }
}

/// A registered sink.
struct Tap {
    sink: Arc<dyn Sink>,
    pieces: Semaphore,
}

/// All sinks of a server.
pub(crate) struct Taps(Box<[Tap]>);

impl Taps {
    /// Makes the taps.
    ///
    /// # Panics
    /// There are more than [`SINKS_MAX`] sinks.
    pub(crate) fn new(sinks: impl IntoIterator<Item = Arc<dyn Sink>>) -> Self {
        let tap = |sink| Tap { sink, pieces: Semaphore::new(PIECES_MAX) };
        let taps: Box<[Tap]> = sinks.into_iter().map(tap).collect();
        assert!(
            taps.len() <= SINKS_MAX,
            "{} sinks, and no more than {SINKS_MAX} can be told apart",
            taps.len()
        );
        Self(taps)
    }

    /// Returns the sinks that want the topic's records. `known_to`: a sink that already has them, because it
    /// appends them.
    pub(crate) fn wanted(&self, topic: &Topic, known_to: Option<&str>) -> WantedBy {
        let wants = |tap: &Tap| known_to != Some(tap.sink.name()) && tap.sink.wants(topic);
        let bits = self.0.iter().enumerate().filter(|(_, tap)| wants(tap)).map(|(number, _)| 1 << number);
        WantedBy(bits.sum())
    }

    fn queue<'a>(&self, partition: &'a PartitionHandle, number: usize) -> &'a TapQueue {
        partition.taps.of(number, self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use tailrace_records::{BatchBuilder, BatchOptions};
    use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};

    use super::*;

    const EPOCH: LeaderEpoch = LeaderEpoch(5);

    /// Makes a batch of one record of a producer, in a transaction or not, or a marker.
    fn batch(offset: i64, producer: i64, transactional: bool, control: bool) -> Vec<u8> {
        let (producer_id, producer_epoch) = (ProducerId(producer), ProducerEpoch(0));
        let options =
            BatchOptions { producer_id, producer_epoch, transactional, control, ..BatchOptions::default() };
        let mut builder = BatchBuilder::new(options);
        builder.push(TimestampMs(1), Some(&[0; 4]), Some(&[0; 6]), &[]).unwrap();
        let (header, bytes) = builder.build_with_header();
        let header = BatchHeader { base_offset: Offset(offset), leader_epoch: EPOCH, ..header };
        [&header.prefix()[..], &bytes[tailrace_records::PREFIX_BYTES..]].concat()
    }

    #[test]
    fn what_a_producer_commits_is_seen_also_if_it_aborts_before_and_after() {
        const DATA: (bool, bool) = (true, false);
        const MARKER: (bool, bool) = (true, true);
        const PLAIN: (bool, bool) = (false, false);
        // Producer 7 commits 0, aborts 2 and 4, commits 6, aborts 8, and commits 12. Records of another
        // producer, or outside of transactions, are not part of that.
        let log = [
            (0, 7, DATA),
            (1, 7, MARKER),
            (2, 7, DATA),
            (3, 8, DATA),
            (4, 7, DATA),
            (5, 7, MARKER),
            (6, 7, DATA),
            (7, 7, MARKER),
            (8, 7, DATA),
            (9, 8, MARKER),
            (10, 7, PLAIN),
            (11, 7, MARKER),
            (12, 7, DATA),
            (13, 7, MARKER),
        ];
        let bytes = log.map(|(offset, producer, (transactional, control))| {
            batch(offset, producer, transactional, control)
        });
        let aborted = |first, last| AbortedTransaction {
            producer_id: ProducerId(7),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(first),
        };
        let piece = Committed {
            bytes: bytes.concat().into(),
            epoch: EPOCH,
            from: Offset(0),
            aborted: vec![aborted(2, 5), aborted(8, 11)],
        };
        let seen: Vec<i64> = piece.batches().map(|batch| batch.unwrap().0.base_offset.get()).collect();
        assert_eq!(seen, [0, 3, 6, 10, 12]);
    }

    #[test]
    fn what_a_later_leader_wrote_over_an_append_is_not_passed_on() {
        let [own, other] = [10, 11].map(|offset| batch(offset, -1, false, false));
        let (header, _) = split_batches(&other).next().unwrap().unwrap();
        let later = BatchHeader { leader_epoch: LeaderEpoch(6), ..header };
        let later = [&later.prefix()[..], &other[tailrace_records::PREFIX_BYTES..]].concat();
        let bytes = [own, later].concat().into();
        let piece = Committed { bytes, epoch: EPOCH, from: Offset(10), aborted: Vec::new() };
        let seen: Vec<i64> = piece.batches().map(|batch| batch.unwrap().0.base_offset.get()).collect();
        assert_eq!(seen, [10]);
    }
}
