//! Decides who may read a partition, from where, and how far, for all readers: fetches, share groups, taps
//! and coordinators, and the controller, which reads its log before a handle of it exists. Takes no lock.

use std::sync::Arc;

use tailrace_env::task;
use tailrace_log::{DamagedRange, LogError, LogSlice, Reach};
use tailrace_replication::{AbortedTransaction, PartitionReader};
use tailrace_types::{LeaderEpoch, Offset};

use crate::caller::Caller;
use crate::disk::NodeDisk;
use crate::partitions::epochs::epoch_end;
use crate::partitions::handle::PartitionHandle;
use crate::partitions::table::TopicTable;

/// How far a reader may read. The words are Kafka's (`FetchIsolation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Everything, committed or not: for a coordinator, in its own log.
    LogEnd,
    /// Everything committed.
    HighWatermark,
    /// Everything committed that no undecided transaction precedes. Comes with the list of aborted
    /// transactions.
    TxnCommitted,
}

impl Isolation {
    /// `committed_only`: transactions count once they are committed.
    pub fn of(committed_only: bool) -> Self {
        if committed_only { Self::TxnCommitted } else { Self::HighWatermark }
    }
}

/// A consistent set of a partition's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first offset that can be read.
    pub log_start: Offset,
    /// The first offset of an undecided transaction, or the high watermark.
    pub last_stable_offset: Offset,
    /// One past the last committed offset.
    pub high_watermark: Offset,
    pub(crate) log_end: Offset,
}

impl Bounds {
    /// Reads the marks. The order matters: the log start may move up to the high watermark, but never beyond
    /// one that is read later. The same holds for the last stable offset.
    pub(crate) fn of(reader: &PartitionReader<NodeDisk>) -> Self {
        let log_start = reader.log_start();
        let last_stable_offset = reader.last_stable_offset();
        let high_watermark = reader.high_watermark().offset();
        Self { log_start, last_stable_offset, high_watermark, log_end: reader.log_end().offset() }
    }

    /// Returns one past the last visible record.
    pub fn end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::LogEnd => self.log_end,
            Isolation::HighWatermark => self.high_watermark,
            Isolation::TxnCommitted => self.last_stable_offset,
        }
    }
}

/// What a reader asks for.
#[derive(Clone, Copy, Debug)]
pub struct ReadTerms {
    /// The first offset wanted.
    pub from: Offset,
    /// Which records count.
    pub isolation: Isolation,
    /// Upper bound for what is returned.
    pub upto: Option<Offset>,
    /// Maximum bytes.
    pub bytes_max: u64,
    /// Return the first batch even if it is larger (KIP-74).
    pub at_least_one: bool,
    /// The epoch that the reader believes to be current.
    pub claimed_epoch: Option<LeaderEpoch>,
    /// The epoch of the reader's last record. Its log and this one may have diverged (KIP-595).
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// A follower may answer (KIP-392).
    pub from_followers: bool,
    /// How far to go to find the records' positions.
    pub reach: Reach,
}

impl ReadTerms {
    /// Asks for whole batches, the first one whatever its size, from any replica.
    pub fn new(from: Offset, isolation: Isolation, bytes_max: u64) -> Self {
        Self {
            from,
            isolation,
            upto: None,
            bytes_max,
            at_least_one: true,
            claimed_epoch: None,
            last_fetched_epoch: None,
            from_followers: true,
            reach: Reach::Disk,
        }
    }
}

/// How much of what is asked for may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// Everything below this offset.
    Upto(Offset),
    /// Nothing at the moment.
    Nothing,
    /// Nothing: see [`ReadOutcome::diverging`].
    Diverging(LeaderEpoch, Offset),
}

/// Decides what may be read, as of `bounds`. `leads`: this node leads the partition, so no other node has
/// records beyond the end of this log.
///
/// # Errors
/// The reader may read nothing, or the offset does not exist.
pub(crate) fn readable(
    reader: &PartitionReader<NodeDisk>,
    bounds: &Bounds,
    terms: &ReadTerms,
    leads: impl Fn() -> bool,
) -> Result<Readable, ReadFailure> {
    if !terms.from_followers && !leads() {
        return Err(ReadFailure::NotLeader);
    }
    check_epoch(reader, terms.claimed_epoch)?;
    let from = terms.from;
    // The logs have diverged if this one ended that epoch before the reader's position.
    let last = terms.last_fetched_epoch;
    let ended = last.and_then(|epoch| Some((epoch, epoch_end(reader, epoch, bounds.log_end)?)));
    if let Some((epoch, (newest, end))) = ended
        && (newest < epoch || end < from)
    {
        return Ok(Readable::Diverging(newest, end));
    }
    // A follower's leader may have records beyond the follower's end.
    if from < bounds.log_start || (from > bounds.log_end && leads()) {
        return Err(ReadFailure::OutOfRange);
    }
    let end = bounds.end(terms.isolation);
    let upto = terms.upto.map_or(end, |upto| upto.min(end));
    if from >= upto || (terms.bytes_max == 0 && !terms.at_least_one) {
        return Ok(Readable::Nothing);
    }
    Ok(Readable::Upto(upto))
}

fn check_epoch(
    reader: &PartitionReader<NodeDisk>,
    claimed: Option<LeaderEpoch>,
) -> Result<(), EpochMismatch> {
    let current = reader.epoch();
    match claimed {
        Some(claimed) if claimed < current => Err(EpochMismatch::Fenced),
        Some(claimed) if claimed > current => Err(EpochMismatch::Unknown),
        _ => Ok(()),
    }
}

/// Result of a read.
#[derive(Debug)]
pub struct ReadOutcome {
    /// The marks at the time of the read.
    pub bounds: Bounds,
    /// Whole batches. `None` if there are none at the moment.
    pub slice: Option<LogSlice<NodeDisk>>,
    /// Aborted transactions that touch the slice, if only committed transactions count.
    pub aborted: Vec<AbortedTransaction>,
    /// There is more behind the slice that the reader may see.
    pub has_more: bool,
    /// The reader's log ended an epoch elsewhere: that epoch, and where it ended here.
    pub diverging: Option<(LeaderEpoch, Offset)>,
}

/// The epoch that a reader believes to be current is not the partition's (KIP-320).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EpochMismatch {
    /// The epoch is older than the partition's.
    #[error("the reader knows an older leader epoch")]
    Fenced,
    /// The partition has not reached that epoch yet.
    #[error("the reader knows a newer leader epoch")]
    Unknown,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum ReadFailure {
    /// Another node leads the partition, or none does.
    #[error("this node does not lead the partition")]
    NotLeader,
    /// The reader's epoch is not the partition's.
    #[error(transparent)]
    Epoch(#[from] EpochMismatch),
    /// The offset is before the log start, or beyond the end of the leader's log.
    #[error("there is no such offset")]
    OutOfRange,
    /// A repaired segment is being put in place. This passes.
    #[error("the partition's transactions are being read again")]
    BeingExchanged,
    /// The records are damaged. See [`TopicTable::has_lost`]: other replicas may have them.
    #[error("{0}")]
    Damaged(DamagedRange),
    /// The position has to be read from the disk, and [`ReadTerms::reach`] does not allow that.
    #[error("the read needs the disk")]
    NotAtHand,
    /// The log cannot be read.
    #[error(transparent)]
    Log(LogError),
    /// A bug in the server, not a fault of the disk.
    #[error("a bug in the server: reading panicked; see the server's log")]
    Panicked,
}

impl PartitionHandle {
    /// Returns the current marks.
    pub fn bounds(&self) -> Bounds {
        Bounds::of(&self.reader)
    }

    /// Checks the epoch that a reader believes to be current, if it names one.
    pub fn check_epoch(&self, claimed: Option<LeaderEpoch>) -> Result<(), EpochMismatch> {
        check_epoch(&self.reader, claimed)
    }

    /// Finds the positions of whole batches. Blocks on the disk if the terms allow that, or if batches have
    /// to be verified first (`tailrace.read.verify.after.ms`).
    pub fn read(&self, caller: &Caller, terms: &ReadTerms) -> Result<ReadOutcome, ReadFailure> {
        let bounds = self.bounds();
        let outcome =
            ReadOutcome { bounds, slice: None, aborted: Vec::new(), has_more: false, diverging: None };
        let from = terms.from;
        let upto = match readable(&self.reader, &bounds, terms, || self.leads().is_some())? {
            Readable::Upto(upto) => upto,
            Readable::Nothing => return Ok(outcome),
            Readable::Diverging(epoch, end) => {
                return Ok(ReadOutcome { diverging: Some((epoch, end)), ..outcome });
            }
        };
        let (bytes_max, at_least_one) = (terms.bytes_max, terms.at_least_one);
        let read = match terms.isolation {
            Isolation::TxnCommitted => {
                self.reader.read_committed(terms.reach, from, upto, bytes_max, at_least_one)
            }
            Isolation::HighWatermark | Isolation::LogEnd => {
                let slice = self.reader.log().read_within(terms.reach, from, upto, bytes_max, at_least_one);
                slice.map(|slice| slice.map(|slice| (slice, Vec::new())))
            }
        };
        match read {
            Ok(Some((slice, aborted))) => {
                let has_more = slice.next_offset < upto;
                Ok(ReadOutcome { slice: Some(slice), aborted, has_more, ..outcome })
            }
            Ok(None) => Ok(outcome),
            Err(error) => Err(self.failure(caller, from, error)),
        }
    }

    /// Reads on an event loop. If the read needs the disk, it moves to a thread that may block.
    pub(crate) async fn read_on_loop(
        self: &Arc<Self>,
        caller: &Caller,
        terms: &ReadTerms,
    ) -> Result<ReadOutcome, ReadFailure> {
        match self.read(caller, &ReadTerms { reach: Reach::Memory, ..*terms }) {
            Err(ReadFailure::NotAtHand) => {}
            read => return read,
        }
        let (handle, caller, terms) = (Arc::clone(self), caller.clone(), *terms);
        self.read_on_thread(move || handle.read(&caller, &terms)).await
    }

    /// A thread is dropped early only if the server stops, and then the answer does not matter.
    async fn read_on_thread<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, ReadFailure> + Send + 'static,
    ) -> Result<T, ReadFailure> {
        task::spawn_blocking(read).await.unwrap_or_else(|error| {
            tracing::error!(partition = %self.id, %error, "a bug in the server: reading panicked");
            Err(ReadFailure::Panicked)
        })
    }

    fn failure(&self, caller: &Caller, from: Offset, error: LogError) -> ReadFailure {
        match error {
            LogError::OutOfRange { .. } => ReadFailure::OutOfRange,
            LogError::BeingExchanged => ReadFailure::BeingExchanged,
            LogError::NotAtHand => ReadFailure::NotAtHand,
            // Known damage was logged when it was found, and is in `/healthz`.
            error => match self.damage_met(from, &error) {
                Some(range) => ReadFailure::Damaged(range),
                None => {
                    tracing::error!(%caller, partition = %self.id, offset = %from, %error, "reading failed");
                    ReadFailure::Log(error)
                }
            },
        }
    }

    /// Returns the damaged range at which a read from `from` failed. `None` if `error` is about something
    /// else, such as an index, which is rebuilt.
    fn damage_met(&self, from: Offset, error: &LogError) -> Option<DamagedRange> {
        let LogError::Damaged { file, position, .. } = error else { return None };
        let range = self.reader.log().damaged().into_iter().find(|range| range.end_offset > from)?;
        (range.damage.file == *file && range.damage.position == *position).then_some(range)
    }
}

impl TopicTable {
    /// Reports whether no other replica can restore the damaged range: this is the only replica, or the
    /// others have lost it, too. Readers should continue behind the range.
    pub fn has_lost(&self, handle: &PartitionHandle, range: &DamagedRange) -> bool {
        range.is_lost || self.has_only_copy(handle)
    }

    fn has_only_copy(&self, handle: &PartitionHandle) -> bool {
        let Some(own) = handle.replica() else { return true };
        let topic = self.by_id(handle.group.topic.0);
        let partition = topic.as_ref().and_then(|topic| topic.image.partition(handle.group.partition));
        partition.is_some_and(|partition| partition.replicas == [own] && !partition.is_reassigned())
    }
}

#[cfg(test)]
mod tests {
    use tailrace_log::LogConfig;
    use tailrace_records::TimestampType;
    use tailrace_replication::{Durability, Policy, Solo};
    use tailrace_types::TimestampMs;
    use tempfile::TempDir;

    use super::*;
    use crate::partitions::handle::Core;
    use crate::testing::{alone, identity, log_store};

    #[tokio::test]
    async fn a_panic_of_who_reads_is_no_fault_of_the_disk() {
        let folder = TempDir::new().unwrap();
        let (durability, timestamp_type) = (Durability::Strict, TimestampType::CreateTime);
        let policy = Policy { durability, producer_expiration_ms: i64::MAX, timestamp_type };
        let (store, dir, now) = (log_store(), folder.path().join("t-0"), TimestampMs(1));
        let (solo, _) = Solo::open(&store, &dir, &identity(), LogConfig::default(), policy, now).unwrap();
        let handle = alone(Core::Solo(Box::new(solo)));
        let read = handle.read_on_thread(|| -> Result<(), _> { panic!("an invariant is broken") }).await;
        assert!(matches!(read, Err(ReadFailure::Panicked)), "{read:?}");
        assert_eq!(handle.halted(), None, "a read changes nothing: the partition continues to serve");
    }
}
