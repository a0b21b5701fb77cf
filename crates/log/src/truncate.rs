//! Truncation of the log's end. Rare: only a raft follower whose entries lost needs it, never a Solo
//! partition.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use tailrace_types::{LeaderEpoch, Offset, RaftIndex};

use crate::checkpoint::CheckpointPlan;
use crate::disk::{Disk, DiskFile, remove_if_there, sync_parent};
use crate::epochs::EpochTable;
use crate::error::{IoContext, LogError};
use crate::format::names::{self, Kind};
use crate::format::row::{Row, row_position};
use crate::log::{Log, rows_to_sync};
use crate::reader::{SegmentList, segment_of};
use crate::reserved::Reserved;
use crate::rows::Rows;
use crate::segment::Segment;
use crate::trim::remove_segment_files;

/// A planned truncation.
pub(crate) struct Cut<D: Disk> {
    /// Segments that stay. The last of them may be shortened.
    list: SegmentList<D>,
    /// The old object of the shortened segment.
    shortened: Option<Arc<Segment<D>>>,
    removed: SegmentList<D>,
    end: Offset,
    last_row_epoch: LeaderEpoch,
}

impl<D: Disk> Log<D> {
    /// Removes the batch that holds `offset` and everything after it. Entries without records before that
    /// batch stay. Blocks. Durable on return. The caller rebuilds producer state.
    ///
    /// # Errors
    /// Any error poisons the log. [`LogError::Poisoned`] if it was poisoned before.
    pub fn truncate_to(&mut self, offset: Offset) -> Result<(), LogError> {
        if offset >= self.log_end().offset() {
            return Ok(());
        }
        let list = self.reader.segments.load_full();
        for segment in &list[segment_of(&list, offset)..] {
            let files = self.reader.files(segment)?;
            let mut rows = Rows::new(segment, &files);
            let number = rows.first_where(|row| row.next_offset() > offset)?;
            if number < rows.count {
                let index = rows.get(number)?.raft_index;
                return self.truncate_from(index);
            }
        }
        Ok(())
    }

    /// Removes all batches and entries from `raft_index` on. Blocks. Durable on return. The caller rebuilds
    /// producer state.
    ///
    /// # Errors
    /// Any error poisons the log. [`LogError::Poisoned`] if it was poisoned before.
    pub fn truncate_from(&mut self, raft_index: RaftIndex) -> Result<(), LogError> {
        if let Some(reason) = &self.poisoned {
            return Err(LogError::Poisoned { reason: reason.clone() });
        }
        if raft_index >= self.next_raft_index {
            return Ok(());
        }
        let result = self.cut_at(raft_index).and_then(|cut| self.carry_out(cut, raft_index));
        if let Err(error) = &result {
            self.poison(error.to_string());
        }
        result
    }

    pub(crate) fn cut_at(&self, raft_index: RaftIndex) -> Result<Cut<D>, LogError> {
        let list = self.reader.segments.load_full();
        let stay = list.partition_point(|s| s.first_raft_index < raft_index);
        let mut cut = Cut {
            list: list[..stay].to_vec(),
            shortened: None,
            removed: list[stay..].to_vec(),
            end: list.get(stay).map_or(self.log_end().offset(), |s| s.base_offset),
            last_row_epoch: LeaderEpoch::UNKNOWN,
        };
        while let Some(last) = cut.list.pop() {
            let files = self.reader.files(&last)?;
            let mut rows = Rows::new(&last, &files);
            let keep = rows.first_where(|row| row.raft_index >= raft_index)?;
            let Some(last_row) = keep.checked_sub(1) else {
                // Otherwise an empty segment would stay.
                cut.removed.insert(0, last);
                continue;
            };
            let row = rows.get(last_row)?;
            if row.next_offset() > cut.end || row.leader_epoch > self.last_epoch {
                let reason = format!(
                    "the row before raft index {raft_index} has offset {} and epoch {}, which the log does not reach",
                    row.last_offset(),
                    row.leader_epoch
                );
                let at = row_position(last_row);
                return Err(LogError::damaged(&last.path(Kind::Index), at, reason));
            }
            cut.end = row.next_offset();
            cut.last_row_epoch = row.leader_epoch;
            if keep < last.rows() {
                cut.list.push(Arc::new(shorter(&last, keep, &row, &self.reader.dir)));
                cut.shortened = Some(last);
            } else {
                cut.list.push(last);
            }
            break;
        }
        Ok(cut)
    }

    pub(crate) fn carry_out(&mut self, cut: Cut<D>, raft_index: RaftIndex) -> Result<(), LogError> {
        let (end, next) = (self.log_end().offset(), self.next_raft_index);
        assert!(
            cut.end <= end && raft_index < next,
            "a log that ends at {end}, raft index {next}, is cut off at {}, raft index {raft_index}",
            cut.end
        );
        let mut side_epochs = self.side.entries().iter().filter(|e| e.raft_index < raft_index);
        let last_side = side_epochs.next_back().map_or(LeaderEpoch::UNKNOWN, |e| e.leader_epoch);
        let mut epochs = EpochTable(self.epochs.0.clone());
        epochs.truncate_end(cut.end);
        for entry in self.side.entries().iter().filter(|e| e.raft_index < raft_index && e.offset == cut.end) {
            epochs.assign(entry.leader_epoch, entry.offset);
        }
        // If the log start was moved past its start, the epoch in force has no entry below the end.
        epochs.assign(cut.last_row_epoch.max(last_side), cut.end);
        // Lower the recovery point. From here on, a crash leaves either end of the log.
        let log_start = self.log_start().min(cut.end);
        self.reader.log_start.store(log_start.0, Release);
        self.epochs = epochs;
        let plan = CheckpointPlan {
            sync: self.sync_plan(),
            sequence: self.plan_sequence.fetch_add(1, Relaxed) + 1,
            image: self.image_of(&cut.list, cut.end, raft_index),
            rows: rows_to_sync(&self.reader.segments.load()),
            sections: None,
        };
        plan.run()?;
        // Detach readers, and invalidate plans under way.
        self.reader.set_log_end(cut.end);
        self.reader.damage.forget(cut.end, Offset(i64::MAX));
        self.publish_epochs();
        self.reader.segments.store(Arc::new(cut.list.clone()));
        self.reader.generation.fetch_add(1, Release);
        self.reserved = Reserved::default();
        // A segment that was rewritten or copied takes no more appends.
        self.active = cut.list.last().filter(|segment| !segment.is_closed()).cloned();
        self.next_raft_index = raft_index;
        let last_epoch = cut.last_row_epoch.max(last_side);
        assert!(last_epoch <= self.last_epoch, "cutting off epoch {} leaves {last_epoch}", self.last_epoch);
        self.last_epoch = last_epoch;
        self.durable_end = self.durable_end.min(cut.end.into());
        self.remove_snapshots_after(cut.end)?;
        self.shorten_files(&cut)?;
        self.side.cut(self.reader.store.disk(), raft_index)?;
        self.durable_end = cut.end.into();
        Ok(())
    }

    fn shorten_files(&self, cut: &Cut<D>) -> Result<(), LogError> {
        let disk = self.reader.store.disk();
        // Remove segments from the end on, one durably after the other. They were synced, so a crash must not
        // leave a hole.
        for segment in cut.removed.iter().rev() {
            // The rows go first here, too.
            crate::disk::remove_if_there(disk, &segment.path(Kind::Index))?;
            disk.sync_dir(&self.reader.dir).context("sync", &self.reader.dir)?;
            remove_segment_files(disk, segment)?;
            disk.sync_dir(&self.reader.dir).context("sync", &self.reader.dir)?;
        }
        if let (Some(old), Some(new)) = (&cut.shortened, cut.list.last()) {
            let files = self.reader.files(old)?;
            let (log, index) = (old.path(Kind::Log), old.path(Kind::Index));
            // The rows go first. A row of a removed batch would claim that the batch had been synced.
            files.index.set_len(row_position(new.rows())).context("shorten", &index)?;
            files.index.sync_all().context("sync", &index)?;
            files.log.set_len(u64::from(new.bytes())).context("shorten", &log)?;
            files.log.sync_all().context("sync", &log)?;
        }
        sync_parent(disk, &self.reader.dir.join(names::CHECKPOINT))
    }

    fn remove_snapshots_after(&self, end: Offset) -> Result<(), LogError> {
        let mut file = self.reader.checkpoint.lock();
        let stay = file.snapshots.partition_point(|offset| *offset <= end);
        for offset in file.snapshots.drain(stay..) {
            remove_if_there(
                self.reader.store.disk(),
                &names::path(&self.reader.dir, offset, Kind::Snapshot),
            )?;
        }
        Ok(())
    }
}

/// Returns `segment` with only its first `keep` rows, the last of which is `last`. It is a new object,
/// unknown to older plans.
fn shorter<D: Disk>(segment: &Segment<D>, keep: u32, last: &Row, dir: &Arc<std::path::Path>) -> Segment<D> {
    let mut entry = segment.to_entry();
    entry.rows = keep;
    entry.bytes = last.end_position();
    entry.end_offset = last.next_offset();
    entry.max_timestamp = last.running_max_timestamp;
    let shorter = Segment::from_entry(dir, &entry);
    shorter.created_synced.store(segment.created_synced.load(Acquire), Release);
    shorter
}
