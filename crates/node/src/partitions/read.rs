//! Reading a partition: who may, from where on, and how far. Decided here for all who read: fetches, share groups, taps
//! and coordinators, and the controller, which reads its log before there is a handle of it. Takes no lock.

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

/// How far somebody may read. The words are Kafka's (`FetchIsolation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// All that is there, committed or not: for a coordinator, of its own log.
    LogEnd,
    /// What is committed.
    HighWatermark,
    /// What is committed, and no undecided transaction precedes. Comes with the aborted ones.
    TxnCommitted,
}

impl Isolation {
    /// `committed_only`: transactions count once they are committed.
    pub fn of(committed_only: bool) -> Self {
        if committed_only { Self::TxnCommitted } else { Self::HighWatermark }
    }
}

/// The marks of a partition, which fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first offset that can be read.
    pub log_start: Offset,
    /// One past the last offset that no undecided transaction precedes.
    pub last_stable_offset: Offset,
    /// One past the last offset committed.
    pub high_watermark: Offset,
    pub(crate) log_end: Offset,
}

impl Bounds {
    /// The order matters: the log start may move up to the high watermark, never beyond one that is read later. So may
    /// the last stable offset.
    pub(crate) fn of(reader: &PartitionReader<NodeDisk>) -> Self {
        let log_start = reader.log_start();
        let last_stable_offset = reader.last_stable_offset();
        let high_watermark = reader.high_watermark().offset();
        Self { log_start, last_stable_offset, high_watermark, log_end: reader.log_end().offset() }
    }

    /// One past what is to be seen.
    pub fn end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::LogEnd => self.log_end,
            Isolation::HighWatermark => self.high_watermark,
            Isolation::TxnCommitted => self.last_stable_offset,
        }
    }
}

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct ReadTerms {
    /// The first offset wanted.
    pub from: Offset,
    /// Which records count.
    pub isolation: Isolation,
    /// No further than this.
    pub upto: Option<Offset>,
    /// So many bytes at most.
    pub bytes_max: u64,
    /// The first batch comes even if it is larger (KIP-74).
    pub at_least_one: bool,
    /// The epoch that the reader believes to be the partition's.
    pub claimed_epoch: Option<LeaderEpoch>,
    /// The epoch of the last record that the reader has: its log and this one may have parted (KIP-595).
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// A replica that does not lead will do (KIP-392).
    pub from_followers: bool,
    /// How far it goes to find where they lie.
    pub reach: Reach,
}

impl ReadTerms {
    /// Whole batches, the first one whatever its size, from whichever replica this is.
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

/// What may be read of what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// All below.
    Upto(Offset),
    /// Nothing for now.
    Nothing,
    /// Nothing: see [`ReadOutcome::diverging`].
    Diverging(LeaderEpoch, Offset),
}

/// Decides what may be read, as of `bounds`. `leads`: this node leads the partition, so that no other one may have what
/// lies behind this log's end.
///
/// # Errors
/// Nothing may, or there is no such offset.
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
    // The reader's log and this one have parted if this one ended that epoch before the reader's position.
    let last = terms.last_fetched_epoch;
    let ended = last.and_then(|epoch| Some((epoch, epoch_end(reader, epoch, bounds.log_end)?)));
    if let Some((epoch, (newest, end))) = ended
        && (newest < epoch || end < from)
    {
        return Ok(Readable::Diverging(newest, end));
    }
    // What lies beyond a follower's end, its leader may have.
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

/// What was found.
#[derive(Debug)]
pub struct ReadOutcome {
    /// What could be read.
    pub bounds: Bounds,
    /// Whole batches. `None` if there are none for now.
    pub slice: Option<LogSlice<NodeDisk>>,
    /// Those that touch the slice, where only committed transactions count.
    pub aborted: Vec<AbortedTransaction>,
    /// Behind the slice is more that the reader may see.
    pub has_more: bool,
    /// The reader's log ended an epoch elsewhere: the epoch, and where it ended here.
    pub diverging: Option<(LeaderEpoch, Offset)>,
}

/// The epoch that a reader believes in is not the partition's (KIP-320).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EpochMismatch {
    /// The epoch is older than that of the partition.
    #[error("the reader knows an older leader epoch")]
    Fenced,
    /// The partition has not come to that epoch yet.
    #[error("the reader knows a newer leader epoch")]
    Unknown,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum ReadFailure {
    /// Another node leads the partition, or none.
    #[error("this node does not lead the partition")]
    NotLeader,
    /// The reader knows another epoch.
    #[error(transparent)]
    Epoch(#[from] EpochMismatch),
    /// Before the log start, or behind the end of the leader's log.
    #[error("there is no such offset")]
    OutOfRange,
    /// A mended segment is put in place: this passes.
    #[error("the partition's transactions are being read again")]
    BeingExchanged,
    /// See [`TopicTable::has_lost`]: other replicas may have it.
    #[error("{0}")]
    Damaged(DamagedRange),
    /// Where it lies has to be read from the disk, and [`ReadTerms::reach`] does not go so far.
    #[error("where it lies has to be read from the disk")]
    NotAtHand,
    /// The log cannot be read.
    #[error(transparent)]
    Log(LogError),
    /// A bug of the server, and nothing that the disk did.
    #[error("a bug of the server: reading panicked; see the server's log")]
    Panicked,
}

impl PartitionHandle {
    /// What can be read at this moment.
    pub fn bounds(&self) -> Bounds {
        Bounds::of(&self.reader)
    }

    /// Compares the epoch that a reader believes in, if it does in any.
    pub fn check_epoch(&self, claimed: Option<LeaderEpoch>) -> Result<(), EpochMismatch> {
        check_epoch(&self.reader, claimed)
    }

    /// Where whole batches lie. Blocks on the disk if the terms reach so far, or if batches are to be verified first
    /// (`tailrace.read.verify.after.ms`).
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

    /// The same on an event loop: if it has to go to the disk, it does so on a thread that may block.
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

    /// A thread that is dropped before its end is the server's, which stops: nobody hears the answer.
    async fn read_on_thread<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, ReadFailure> + Send + 'static,
    ) -> Result<T, ReadFailure> {
        task::spawn_blocking(read).await.unwrap_or_else(|error| {
            tracing::error!(partition = %self.id, %error, "a bug of the server: reading panicked");
            Err(ReadFailure::Panicked)
        })
    }

    fn failure(&self, caller: &Caller, from: Offset, error: LogError) -> ReadFailure {
        match error {
            LogError::OutOfRange { .. } => ReadFailure::OutOfRange,
            LogError::BeingExchanged => ReadFailure::BeingExchanged,
            LogError::NotAtHand => ReadFailure::NotAtHand,
            // What is known to be damaged was named when it was found, and is in `/healthz`.
            error => match self.damage_met(from, &error) {
                Some(range) => ReadFailure::Damaged(range),
                None => {
                    tracing::error!(%caller, partition = %self.id, offset = %from, %error, "reading failed");
                    ReadFailure::Log(error)
                }
            },
        }
    }

    /// The damaged range that a read from `from` on has failed at; `None` if `error` tells of something else, such as
    /// an index, which is built again.
    fn damage_met(&self, from: Offset, error: &LogError) -> Option<DamagedRange> {
        let LogError::Damaged { file, position, .. } = error else { return None };
        let range = self.reader.log().damaged().into_iter().find(|range| range.end_offset > from)?;
        (range.damage.file == *file && range.damage.position == *position).then_some(range)
    }
}

impl TopicTable {
    /// True if no other replica can give back what is damaged: this is the only one, or the others have lost it too.
    /// Readers do best to go on behind the range.
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
        assert_eq!(handle.halted(), None, "what reads changes nothing: the partition serves on");
    }
}
