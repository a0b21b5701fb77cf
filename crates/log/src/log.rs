//! API skeleton; the bodies follow.
#![allow(unused_variables, dead_code, reason = "skeleton")]
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tailrace_records::BatchHeader;
use tailrace_types::*;

use crate::*;

/// A disk together with what all logs on it share: the bounded set of open segment files. One per data folder; cheap
/// to clone.
#[derive(Clone)]
pub struct LogStore<D: Disk>(PhantomData<D>);
impl<D: Disk> LogStore<D> {
    /// `open_segments_max`: segments whose two files are kept open. Segments with unsynced data come on top.
    pub fn new(disk: D, open_segments_max: usize) -> Self {
        todo!()
    }
    /// The disk.
    pub fn disk(&self) -> &D {
        todo!()
    }
    /// Segments whose files are open now.
    pub fn open_segments(&self) -> usize {
        todo!()
    }
}

/// The writer of one partition's log.
pub struct Log<D: Disk>(PhantomData<D>);

/// What opening found and did.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Nothing lay beyond the recovery point: a clean stop, or an idle partition.
    pub clean: bool,
    /// The folder was created.
    pub created: bool,
    /// Bytes of `.log` read beyond the recovery point.
    pub bytes_read: u64,
    /// Batches found beyond the recovery point.
    pub batches_recovered: u64,
    /// What was cut off the end, if anything.
    pub truncated: Option<TornTail>,
    /// The newest usable producer snapshot: state after all batches below its offset. Rebuild the rest from
    /// [`LogReader::headers`] from that offset on (from the log start if there is none).
    pub producer_snapshot: Option<(Offset, Bytes)>,
    /// Oddities that were put right, one line each, for the operator.
    pub notes: Vec<String>,
}

/// A tail that was cut at open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The `.log` that was cut.
    pub file: std::path::PathBuf,
    /// Where.
    pub position: u64,
    /// Bytes removed from here on, later segments included.
    pub bytes: u64,
    /// What was wrong there.
    pub reason: String,
    /// Good batches followed the bad one. Normal after a power loss (pages reach the disk in any order); alarming after a
    /// mere kill.
    pub valid_batches_follow: bool,
}

/// An append that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// One past its last offset.
    pub log_end: LogEnd,
    /// It began a new segment: a good moment for a checkpoint.
    pub rolled: bool,
}

impl<D: Disk> Log<D> {
    /// Opens the log in `dir`, creating it if absent, recovering it if the last stop was unclean. Blocks on the disk. On return
    /// everything in the log is durable, except that a fresh folder becomes durable with the first sync.
    pub fn open(
        store: &LogStore<D>,
        dir: &Path,
        identity: &PartitionIdentity,
        config: LogConfig,
        now: TimestampMs,
    ) -> Result<(Self, Recovery), LogError> {
        todo!()
    }
    /// Appends one batch whose header is stamped (base offset, epoch). `bytes` is the whole batch as received; its
    /// first 16 bytes are replaced by `batch.prefix()`. Rolls when due.
    pub fn append(
        &mut self,
        batch: &BatchHeader,
        raft_index: RaftIndex,
        bytes: &[u8],
        now: TimestampMs,
    ) -> Result<Appended, LogError> {
        todo!()
    }
    /// Appends an entry without records and syncs it: blocks for one fdatasync.
    pub fn append_entry(
        &mut self,
        raft_index: RaftIndex,
        epoch: LeaderEpoch,
        payload: &[u8],
    ) -> Result<(), LogError> {
        todo!()
    }
    /// The entries without records, oldest first.
    pub fn entries(&self) -> &[Entry] {
        todo!()
    }
    /// What must be synced to make everything appended so far durable. Cheap.
    pub fn sync_plan(&self) -> SyncPlan<D> {
        todo!()
    }
    /// Takes note that `plan.run()` succeeded.
    pub fn mark_durable(&mut self, plan: &SyncPlan<D>) -> DurableEnd {
        todo!()
    }
    /// Plan, run and mark in one, blocking.
    pub fn sync(&mut self) -> Result<DurableEnd, LogError> {
        todo!()
    }
    /// A checkpoint of the log as it is now, with the producer state at the log end (or without). Cheap.
    pub fn checkpoint_plan(&self, producers: Option<Bytes>) -> CheckpointPlan<D> {
        todo!()
    }
    /// Takes note that `plan.run()` succeeded; the durable end moves too.
    pub fn mark_checkpointed(&mut self, plan: &CheckpointPlan<D>) -> DurableEnd {
        todo!()
    }
    /// Plan, run and mark in one, blocking.
    pub fn checkpoint(&mut self, producers: Option<Bytes>) -> Result<DurableEnd, LogError> {
        todo!()
    }
    /// Clean stop: syncs all, writes a checkpoint, gives back preallocated blocks.
    pub fn close(self, producers: Option<Bytes>) -> Result<(), LogError> {
        todo!()
    }
    /// Removes the batch that holds `offset` and all that follows. Blocks; durable on return.
    pub fn truncate_to(&mut self, offset: Offset) -> Result<(), LogError> {
        todo!()
    }
    /// Removes everything from `raft_index` on. Blocks; durable on return.
    pub fn truncate_from(&mut self, raft_index: RaftIndex) -> Result<(), LogError> {
        todo!()
    }
    /// DeleteRecords: moves the log start up to `offset` (never back). Run the result, then answer.
    pub fn advance_log_start(&mut self, offset: Offset) -> Result<Trim<D>, LogError> {
        todo!()
    }
    /// Applies retention below the high watermark. Run the result if there is one.
    pub fn retain(
        &mut self,
        high_watermark: HighWatermark,
        now: TimestampMs,
    ) -> Result<Option<Trim<D>>, LogError> {
        todo!()
    }
    /// Refuses writes from now on: a sync failed.
    pub fn poison(&mut self, reason: impl Into<String>) {
        todo!()
    }
    /// Why writes are refused, if they are.
    pub fn poisoned(&self) -> Option<&str> {
        todo!()
    }
    /// Replaces the settings.
    pub fn set_config(&mut self, config: LogConfig) {
        todo!()
    }
    /// The settings.
    pub fn config(&self) -> &LogConfig {
        todo!()
    }
    /// Whose log it is.
    pub fn identity(&self) -> &PartitionIdentity {
        todo!()
    }
    /// One past the last offset.
    pub fn log_end(&self) -> LogEnd {
        todo!()
    }
    /// One past the last offset known to be durable.
    pub fn durable_end(&self) -> DurableEnd {
        todo!()
    }
    /// First offset that may be read.
    pub fn log_start(&self) -> Offset {
        todo!()
    }
    /// Raft index of the next batch or entry, from 1.
    pub fn next_raft_index(&self) -> RaftIndex {
        todo!()
    }
    /// Epoch of the last batch or entry; `UNKNOWN` in a fresh log.
    pub fn last_epoch(&self) -> LeaderEpoch {
        todo!()
    }
    /// The lock-free side.
    pub fn reader(&self) -> Arc<LogReader<D>> {
        todo!()
    }
}

/// What must be synced, and up to where it then is durable.
pub struct SyncPlan<D: Disk>(PhantomData<D>);
impl<D: Disk> SyncPlan<D> {
    /// Syncs. Needs no lock; may run beside appends and other plans. After an error the caller poisons the log; never retry.
    pub fn run(&self) -> Result<(), LogError> {
        todo!()
    }
    /// The log end when the plan was made.
    pub fn covers(&self) -> LogEnd {
        todo!()
    }
    /// True if there is nothing to sync.
    pub fn is_empty(&self) -> bool {
        todo!()
    }
}
/// A recovery point to be written.
pub struct CheckpointPlan<D: Disk>(PhantomData<D>);
impl<D: Disk> CheckpointPlan<D> {
    /// Syncs log and index, then replaces the checkpoint. Needs no lock. A failure to sync poisons (see
    /// [`LogError`]); a failure to write the checkpoint alone does not.
    pub fn run(&self) -> Result<(), LogError> {
        todo!()
    }
    /// The log end when the plan was made.
    pub fn covers(&self) -> LogEnd {
        todo!()
    }
}
/// A log start that moved: makes it durable, then removes the files below it.
pub struct Trim<D: Disk>(PhantomData<D>);
impl<D: Disk> Trim<D> {
    /// Needs no lock. Readers that hold a slice keep their file.
    pub fn run(&self) -> Result<(), LogError> {
        todo!()
    }
    /// The new log start.
    pub fn log_start(&self) -> Offset {
        todo!()
    }
    /// Base offsets of the segments that go.
    pub fn segments(&self) -> Vec<Offset> {
        todo!()
    }
    /// The checkpoint within, to be passed to [`Log::mark_checkpointed`] after `run`.
    pub fn checkpoint(&self) -> &CheckpointPlan<D> {
        todo!()
    }
}

/// The readers' side of a log. Lock-free; shared by any number of threads.
pub struct LogReader<D: Disk>(PhantomData<D>);
/// Where whole batches lie. Keeps its file open.
pub struct LogSlice<D: Disk> {
    /// The segment's files.
    pub file: Arc<SegmentFiles<D>>,
    /// First byte in the `.log`.
    pub position: u64,
    /// How many bytes.
    pub bytes: u32,
    /// Base offset of the first batch. May be below the offset asked for.
    pub base_offset: Offset,
    /// One past the last offset of the last batch.
    pub next_offset: Offset,
}
/// A segment's open files.
pub struct SegmentFiles<D: Disk> {
    /// The `.log`.
    pub log: D::File,
    /// The `.index`.
    pub index: D::File,
}
impl<D: Disk> LogSlice<D> {
    /// The open `.log`, for sendfile.
    pub fn log_file(&self) -> &D::File {
        todo!()
    }
    /// Reads all of it into memory.
    pub fn read(&self) -> Result<Bytes, LogError> {
        todo!()
    }
}
impl<D: Disk> LogReader<D> {
    /// Whole batches from the one that holds `from` on, below `upto` (high watermark or last stable offset), at most `bytes_max` bytes
    /// unless `at_least_one`. `None` if there is nothing to read (yet).
    pub fn read(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: u64,
        at_least_one: bool,
    ) -> Result<Option<LogSlice<D>>, LogError> {
        todo!()
    }
    /// First record at or after `timestamp` below `upto`: its offset, timestamp, epoch. Decodes one batch.
    pub fn offset_for_time(
        &self,
        timestamp: TimestampMs,
        upto: Offset,
    ) -> Result<Option<(Offset, TimestampMs, LeaderEpoch)>, LogError> {
        todo!()
    }
    /// The first record with the largest timestamp below `upto`.
    pub fn max_timestamp(
        &self,
        upto: Offset,
    ) -> Result<Option<(Offset, TimestampMs, LeaderEpoch)>, LogError> {
        todo!()
    }
    /// The largest epoch at or below `epoch` and one past its last offset. `None` if the log knows none.
    pub fn epoch_end(&self, epoch: LeaderEpoch, upto: Offset) -> Option<(LeaderEpoch, Offset)> {
        todo!()
    }
    /// The epoch of `offset`; `None` below the log start or in an empty log.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        todo!()
    }
    /// Epoch -> first offset, ascending.
    pub fn epochs(&self) -> Arc<Vec<(LeaderEpoch, Offset)>> {
        todo!()
    }
    /// Headers of the batches from the one that holds `from` on, up to the log end at the time of the call.
    pub fn headers(&self, from: Offset) -> HeaderIter<D> {
        todo!()
    }
    /// First offset that may be read.
    pub fn log_start(&self) -> Offset {
        todo!()
    }
    /// One past the last offset.
    pub fn log_end(&self) -> LogEnd {
        todo!()
    }
    /// Bytes of all `.log` files.
    pub fn size_bytes(&self) -> u64 {
        todo!()
    }
    /// How many segments.
    pub fn segment_count(&self) -> usize {
        todo!()
    }
    /// Whose log it is.
    pub fn identity(&self) -> &PartitionIdentity {
        todo!()
    }
    /// Its folder.
    pub fn dir(&self) -> &Path {
        todo!()
    }
}
/// Batch headers in order, with the index row of each.
pub struct HeaderIter<D: Disk>(PhantomData<D>);
impl<D: Disk> Iterator for HeaderIter<D> {
    type Item = Result<(Row, BatchHeader), LogError>;
    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

/// Renames a partition's folder out of the way (durably), then removes it. A crash in between is finished by [`remove_leftovers`].
pub fn delete_partition<D: Disk>(disk: &D, dir: &Path) -> Result<(), LogError> {
    todo!()
}
/// Removes partition folders whose deletion was begun. Returns their names. At start, before any log is opened.
pub fn remove_leftovers<D: Disk>(disk: &D, data_dir: &Path) -> Result<Vec<String>, LogError> {
    todo!()
}
/// The identity of a partition folder, `None` if it has none.
pub fn read_identity<D: Disk>(disk: &D, dir: &Path) -> Result<Option<PartitionIdentity>, LogError> {
    todo!()
}
