//! The writer of one partition's log.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use bytes::Bytes;
use tailrace_records::{BatchHeader, PREFIX_BYTES};
use tailrace_types::{DurableEnd, LeaderEpoch, LogEnd, Offset, RaftIndex, TimestampMs};

use crate::checkpoint::CheckpointPlan;
use crate::config::{ENTRY_BYTES_MAX, LogConfig, PartitionIdentity, SEGMENT_BYTES_MAX};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::entries::SideFile;
use crate::epochs::EpochTable;
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::Checkpoint;
use crate::format::entry::Entry;
use crate::format::names::Kind;
use crate::format::row::row_position;
use crate::reader::LogReader;
use crate::rebuild::{rebuild_index, row_of};
use crate::reserved::Reserved;
use crate::sections::Sections;
use crate::segment::{LenOf, Segment, SegmentFiles};
use crate::sync::SyncPlan;

/// The writer of one partition's log. Belongs behind the caller's lock. Nothing here is shared except through
/// [`LogReader`] and the plans.
pub struct Log<D: Disk> {
    pub(crate) reader: Arc<LogReader<D>>,
    pub(crate) config: LogConfig,
    pub(crate) side: SideFile,
    pub(crate) epochs: EpochTable,
    pub(crate) next_raft_index: RaftIndex,
    pub(crate) last_epoch: LeaderEpoch,
    pub(crate) durable_end: DurableEnd,
    pub(crate) poisoned: Option<String>,
    /// The last segment of the list, if it takes batches.
    pub(crate) active: Option<Arc<Segment<D>>>,
    pub(crate) reserved: Reserved,
    pub(crate) plan_sequence: AtomicU64,
    /// The round of compaction under way, if any.
    pub(crate) compaction: std::sync::Weak<()>,
    /// True if the side file ends with a whole record.
    pub(crate) side_was_whole: bool,
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// One past the batch's last offset.
    pub log_end: LogEnd,
    /// True if the batch started a new segment, which is a good moment for a checkpoint.
    pub rolled: bool,
}

impl<D: Disk> Log<D> {
    /// Appends one batch. Its header is stamped: the base offset is the log end, and the epoch is not below
    /// the last. `bytes` is the whole batch as received. Its first 16 bytes are replaced by `batch.prefix()`
    /// in the write, without a copy. Starts a new segment if the active one is full or old. `now` is only
    /// used for ages.
    ///
    /// Makes two system calls: one for the batch, one for its index row. On return the batch can be read, but
    /// is not durable.
    ///
    /// # Errors
    /// [`LogError::NoSpace`]: nothing was appended, retry later. [`LogError::NotContinuous`] and
    /// [`LogError::BatchBytes`]: a bug of the caller. After any other error the log is poisoned.
    pub fn append(
        &mut self,
        batch: &BatchHeader,
        raft_index: RaftIndex,
        bytes: &[u8],
        now: TimestampMs,
    ) -> Result<Appended, LogError> {
        self.check_writable()?;
        self.check_continues(batch.base_offset, raft_index, batch.leader_epoch)?;
        check_bytes(batch, bytes)?;
        let result = self.append_checked(batch, raft_index, bytes, now);
        self.poison_unless_no_space(result)
    }

    fn append_checked(
        &mut self,
        batch: &BatchHeader,
        raft_index: RaftIndex,
        bytes: &[u8],
        now: TimestampMs,
    ) -> Result<Appended, LogError> {
        let (segment, rolled) = self.segment_for(batch, raft_index, now)?;
        let files = self.reader.files(&segment)?;
        let position = segment.bytes();
        let segment_end = u64::from(position) + bytes.len() as u64;
        assert!(segment_end <= SEGMENT_BYTES_MAX, "a segment of {segment_end} bytes");
        self.reserve(&files, position, bytes.len() as u64);
        let synced = segment.log_synced.load(Relaxed);
        let row = row_of(batch, raft_index, position, segment.max_timestamp(), synced);
        if let Err(error) = write_batch(&segment, &files, batch, bytes, &row) {
            if error.is_no_space() {
                take_back(&segment, &files, position)?;
                self.reserved = Reserved::default();
            }
            return Err(error);
        }
        segment.publish(&row, now);
        self.reader.appended_bytes.fetch_add(bytes.len() as u64, Relaxed);
        let end = batch.next_offset();
        self.reader.raise_log_end(end);
        self.next_raft_index = RaftIndex(raft_index.0 + 1);
        self.begin_epoch(batch.leader_epoch, batch.base_offset);
        Ok(Appended { log_end: LogEnd::from(end), rolled })
    }

    /// Appends an entry that takes a raft index and no offset, and syncs it. Blocks for an fdatasync, so it
    /// does not belong on an event loop. Its epoch counts from the current log end on.
    ///
    /// # Errors
    /// Those of [`Log::append`]. [`LogError::TooLarge`] beyond [`ENTRY_BYTES_MAX`].
    pub fn append_entry(
        &mut self,
        raft_index: RaftIndex,
        epoch: LeaderEpoch,
        payload: &[u8],
    ) -> Result<(), LogError> {
        self.check_writable()?;
        let offset = self.log_end().offset();
        self.check_continues(offset, raft_index, epoch)?;
        if payload.len() > ENTRY_BYTES_MAX {
            let (bytes, bytes_max) = (payload.len() as u64, ENTRY_BYTES_MAX as u64);
            return Err(LogError::TooLarge { what: "an entry", bytes, bytes_max });
        }
        // The folder's name may not be durable yet, and the entry is worthless without it.
        let result = if self.reader.folder_synced.load(Acquire) { Ok(()) } else { self.sync_plan().run() };
        self.poison_unless_no_space(result)?;
        let entry =
            Entry { raft_index, leader_epoch: epoch, offset, payload: Bytes::copy_from_slice(payload) };
        let result = self.side.append(self.reader.store.disk(), entry);
        self.poison_unless_no_space(result)?;
        self.next_raft_index = RaftIndex(raft_index.0 + 1);
        self.begin_epoch(epoch, offset);
        Ok(())
    }

    pub(crate) fn begin_epoch(&mut self, epoch: LeaderEpoch, start: Offset) {
        let last = self.last_epoch;
        assert!(epoch >= last, "the epoch went back from {last} to {epoch}");
        if epoch > self.last_epoch {
            self.last_epoch = epoch;
            self.epochs.assign(epoch, start);
            self.publish_epochs();
        }
    }

    pub(crate) fn publish_epochs(&self) {
        self.reader.epochs.store(Arc::new(self.epochs.0.clone()));
    }

    pub(crate) fn check_writable(&self) -> Result<(), LogError> {
        match &self.poisoned {
            Some(reason) => Err(LogError::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn check_continues(&self, offset: Offset, index: RaftIndex, epoch: LeaderEpoch) -> Result<(), LogError> {
        let end = self.log_end().offset();
        if offset == end && index == self.next_raft_index && epoch >= self.last_epoch {
            return Ok(());
        }
        Err(LogError::NotContinuous {
            expected_offset: end,
            expected_index: self.next_raft_index,
            expected_epoch: self.last_epoch,
            found_offset: offset,
            found_index: index,
            found_epoch: epoch,
        })
    }

    pub(crate) fn poison_unless_no_space<T>(&mut self, result: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(error) = &result
            && !error.is_no_space()
        {
            self.poison(error.to_string());
        }
        result
    }

    /// Returns the plan that makes everything appended so far durable. Cheap. [`SyncPlan::run`] does the
    /// work.
    pub fn sync_plan(&self) -> SyncPlan<D> {
        SyncPlan::new(&self.reader)
    }

    /// Records that `plan.run()` succeeded. Plans may run out of order or before a truncation.
    ///
    /// # Panics
    /// If the plan belongs to this log and covers more than it holds.
    pub fn mark_durable(&mut self, plan: &SyncPlan<D>) -> DurableEnd {
        if plan.generation == self.reader.generation.load(Acquire) {
            let (covers, end) = (plan.covers(), self.log_end());
            assert!(covers <= end, "{covers} is durable of a log that ends at {end}");
            self.durable_end = self.durable_end.max(plan.covers_offset().into());
        }
        self.durable_end
    }

    /// Plans, runs and marks a sync. Blocks. Poisons the log on failure: the unwritten data may be gone, and
    /// the next sync would still succeed.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] if the log is poisoned. Nothing is synced then. Otherwise those of
    /// [`SyncPlan::run`].
    pub fn sync(&mut self) -> Result<DurableEnd, LogError> {
        self.check_writable()?;
        let plan = self.sync_plan();
        if let Err(error) = plan.run() {
            self.poison(error.to_string());
            return Err(error);
        }
        Ok(self.mark_durable(&plan))
    }

    /// Plans a recovery point at the current log end, with the state derived from the log up to there, if
    /// given. Cheap. [`CheckpointPlan::run`] does the work.
    pub fn checkpoint_plan(&self, sections: Option<Sections>) -> CheckpointPlan<D> {
        let list = self.reader.segments.load();
        let end = self.log_end().offset();
        CheckpointPlan {
            sync: self.sync_plan(),
            sequence: self.plan_sequence.fetch_add(1, Relaxed) + 1,
            image: self.image_of(&list, end, self.next_raft_index),
            rows: rows_to_sync(&list),
            sections: sections.map(|sections| (end, sections)),
        }
    }

    pub(crate) fn image_of(&self, list: &[Arc<Segment<D>>], end: Offset, next: RaftIndex) -> Checkpoint {
        Checkpoint {
            topic_id: self.reader.identity.topic_id,
            log_start: self.log_start(),
            end_offset: end,
            next_raft_index: next,
            first_dirty: self.reader.first_dirty(),
            segments: list.iter().filter(|s| s.rows() > 0).map(|s| s.to_entry()).collect(),
            epochs: self.epochs.0.clone(),
        }
    }

    /// Records that `plan.run()` succeeded. Also moves the durable end.
    pub fn mark_checkpointed(&mut self, plan: &CheckpointPlan<D>) -> DurableEnd {
        self.mark_durable(&plan.sync)
    }

    /// Plans, runs and marks a checkpoint. Blocks. Poisons the log on any failure but a full disk.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] if the log is poisoned. Nothing is written then. Otherwise those of
    /// [`CheckpointPlan::run`].
    pub fn checkpoint(&mut self, sections: Option<Sections>) -> Result<DurableEnd, LogError> {
        self.check_writable()?;
        let plan = self.checkpoint_plan(sections);
        let result = plan.run();
        self.poison_unless_no_space(result)?;
        Ok(self.mark_checkpointed(&plan))
    }

    /// Stops cleanly: frees reserved blocks, syncs everything, and writes a checkpoint. The next open reads
    /// no batch.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] if the log is poisoned. Nothing is written then. Otherwise those of
    /// [`Log::checkpoint`].
    pub fn close(mut self, sections: Option<Sections>) -> Result<(), LogError> {
        self.check_writable()?;
        if self.log_end().0 == 0 && self.next_raft_index.0 == 1 {
            // The log was never used, so there is nothing to keep.
            return Ok(());
        }
        self.give_back_reserved();
        // Damage that cannot be saved will be found again.
        drop(self.reader.save_damage());
        self.checkpoint(sections)?;
        for segment in self.reader.segments.load().iter() {
            segment.close();
        }
        Ok(())
    }

    /// Rebuilds the index of the segment that holds `offset` from its `.log`, after a read found a damaged
    /// row. Reads the whole segment.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if the `.log` itself is damaged.
    pub fn repair_index(&mut self, offset: Offset) -> Result<(), LogError> {
        let list = self.reader.segments.load_full();
        let Some(segment) = list.get(crate::reader::segment_of(&list, offset)) else { return Ok(()) };
        let path = segment.path(Kind::Log);
        let disk = self.reader.store.disk();
        let opening = self.reader.store.opening(segment);
        let log = disk.open(&path, OpenMode::Write).context("open", &path)?;
        let rebuilt = rebuild_index(disk, segment, &log);
        let (index, suspects) = match rebuilt {
            Ok(rebuilt) => rebuilt,
            Err(error) => {
                drop(opening);
                self.reader.condemn(segment, &error);
                return Err(error);
            }
        };
        segment.install(&Arc::new(SegmentFiles { log, index }));
        segment.forget_index_damage();
        segment.suspect(suspects);
        drop(opening);
        self.reader.store.admit(segment);
        self.reader.files(segment)?;
        Ok(())
    }

    /// Records that compaction has covered everything below `offset`, as a lost checkpoint said.
    pub fn raise_first_dirty(&mut self, offset: Offset) {
        self.reader.first_dirty.fetch_max(offset.0, Release);
    }

    /// Refuses writes from now on, because a sync failed. Reads continue. Lasts until the log is opened
    /// again.
    pub fn poison(&mut self, reason: impl Into<String>) {
        self.poisoned.get_or_insert_with(|| reason.into());
    }

    /// Returns the reason why writes are refused, if they are.
    pub fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    /// Replaces the settings. They apply from the next call on.
    pub fn set_config(&mut self, config: LogConfig) {
        self.reader.close_after_ms.store(config.close_after_ms(), Relaxed);
        self.config = config;
    }

    /// The settings.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// The partition that the log belongs to.
    pub fn identity(&self) -> &PartitionIdentity {
        &self.reader.identity
    }

    /// The entries without records, oldest first.
    pub fn entries(&self) -> &[Entry] {
        self.side.entries()
    }

    /// One past the last offset.
    pub fn log_end(&self) -> LogEnd {
        self.reader.log_end()
    }

    /// One past the last offset known to be durable.
    pub fn durable_end(&self) -> DurableEnd {
        self.durable_end
    }

    /// The first offset that may be read.
    pub fn log_start(&self) -> Offset {
        self.reader.log_start()
    }

    /// Raft index of the next batch or entry. 1 in a fresh log.
    pub fn next_raft_index(&self) -> RaftIndex {
        self.next_raft_index
    }

    /// Epoch of the last batch or entry. [`LeaderEpoch::UNKNOWN`] in a fresh log.
    pub fn last_epoch(&self) -> LeaderEpoch {
        self.last_epoch
    }

    /// Returns the lock-free reader.
    pub fn reader(&self) -> Arc<LogReader<D>> {
        Arc::clone(&self.reader)
    }
}

/// Returns the segments with rows that no checkpoint has synced, oldest first.
pub(crate) fn rows_to_sync<D: Disk>(list: &[Arc<Segment<D>>]) -> Vec<(Arc<Segment<D>>, u32)> {
    let unsynced = list.iter().filter(|s| s.rows() > s.rows_synced.load(Acquire));
    unsynced.map(|s| (Arc::clone(s), s.rows())).collect()
}

/// Truncates what was written of a batch for which there was no space, durably. Otherwise the next start
/// would take it for a regular batch, in place of what was appended instead, which may be in the next segment
/// or in the side file.
fn take_back<D: Disk>(segment: &Segment<D>, files: &SegmentFiles<D>, position: u32) -> Result<(), LogError> {
    let path = segment.path(Kind::Log);
    if files.log.len_of(&path)? <= u64::from(position) {
        return Ok(());
    }
    files.log.set_len(u64::from(position)).context("shorten", &path).map_err(LogError::lasting)?;
    files.log.sync_all().context("sync", &path).map_err(LogError::lasting)
}

fn check_bytes(batch: &BatchHeader, bytes: &[u8]) -> Result<(), LogError> {
    let (expected, found) = (batch.total_bytes() as u64, bytes.len() as u64);
    if expected != found || bytes.len() < PREFIX_BYTES {
        return Err(LogError::BatchBytes { expected, found });
    }
    if found > SEGMENT_BYTES_MAX {
        return Err(LogError::TooLarge { what: "a batch", bytes: found, bytes_max: SEGMENT_BYTES_MAX });
    }
    Ok(())
}

fn write_batch<D: Disk>(
    segment: &Segment<D>,
    files: &SegmentFiles<D>,
    batch: &BatchHeader,
    bytes: &[u8],
    row: &crate::Row,
) -> Result<(), LogError> {
    let prefix = batch.prefix();
    let bufs = [IoSlice::new(&prefix), IoSlice::new(&bytes[PREFIX_BYTES..])];
    let written = files.log.write_all_at(&bufs, u64::from(row.position));
    written.map_err(|error| LogError::io("write", &segment.path(Kind::Log), error))?;
    let encoded = row.encode(segment.base_offset);
    let written = files.index.write_all_at(&[IoSlice::new(&encoded)], row_position(segment.rows()));
    written.map_err(|error| LogError::io("write", &segment.path(Kind::Index), error))
}
