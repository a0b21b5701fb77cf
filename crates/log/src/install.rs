//! Replacing a log with a copy, in one step: the replacement of the checkpoint.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use tailrace_types::{LeaderEpoch, Offset, RaftIndex};

use crate::checkpoint::write_snapshot_file;
use crate::checkpoint_file::SnapshotContent;
use crate::damage::DamagedRange;
use crate::disk::{Disk, remove_if_there, replace_file, replace_file_unsynced};
use crate::epochs::EpochTable;
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::Checkpoint;
use crate::format::names::{self, Kind};
use crate::log::Log;
use crate::reader::SegmentList;
use crate::reserved::Reserved;
use crate::sections::Sections;
use crate::staging::Staging;
use crate::trim::remove_segment_files;

/// The state of a log after a copy has replaced it, besides the copy's segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallTarget {
    /// The first offset that may be read.
    pub log_start: Offset,
    /// One past the last offset.
    pub end_offset: Offset,
    /// Raft index of the next entry.
    pub next_raft_index: RaftIndex,
    /// Epoch of the last batch or entry.
    pub last_epoch: LeaderEpoch,
    /// Compaction has covered everything below.
    pub first_dirty: Offset,
    /// Epochs and the first offset of each, both ascending.
    pub epochs: Vec<(LeaderEpoch, Offset)>,
    /// The state derived from the log, as of its end.
    pub sections: Option<Sections>,
    /// Offsets whose records the copy lacks, because they are lost on every replica.
    pub lost: Vec<DamagedRange>,
}

impl<D: Disk> Log<D> {
    /// Replaces the whole log with a copy. The log must end at or below the copy's end, in offset and in raft
    /// index. Readers see the copy from then on. Blocks. Durable on return. A crash leaves either the old log
    /// or the copy, each whole.
    ///
    /// # Errors
    /// Any error poisons the log. Which of the two is on disk is then known only after the log is opened
    /// again.
    ///
    /// # Panics
    /// If the log ends beyond the copy, or if part of the copy is missing.
    pub fn install(&mut self, staging: Staging<D>, target: &InstallTarget) -> Result<(), LogError> {
        self.check_writable()?;
        assert!(staging.wanted().is_none(), "a copy that has not arrived as a whole");
        let (end, next) = (self.log_end().offset(), self.next_raft_index);
        assert!(
            end <= target.end_offset && next <= target.next_raft_index,
            "the log ends at {end}, raft index {next}: beyond the copy"
        );
        assert!(
            staging.next_offset() == target.end_offset || staging.done.is_empty(),
            "a copy up to {} is put in place as one up to {}",
            staging.next_offset(),
            target.end_offset
        );
        let result = self.exchange(&staging, target).and_then(|old| self.remove_old(&old));
        if let Err(error) = &result {
            self.poison(error.to_string());
        }
        result
    }

    /// Makes the copy count, on the disk first.
    fn exchange(
        &mut self,
        staging: &Staging<D>,
        target: &InstallTarget,
    ) -> Result<Arc<SegmentList<D>>, LogError> {
        let disk = self.reader.store.disk();
        for (info, segment) in &staging.done {
            let header = staging.header(info).encode();
            replace_file_unsynced(disk, &segment.path(Kind::Header), &[IoSlice::new(&header)])?;
        }
        // Written before the copy counts, so that the copy is never taken for complete.
        self.reader.write_damage(&target.lost)?;
        let mut file = self.reader.checkpoint.lock();
        // The snapshots belong to the old log. Remove them for good before the copy counts.
        for offset in std::mem::take(&mut file.snapshots) {
            remove_if_there(disk, &names::path(&self.reader.dir, offset, Kind::Snapshot))?;
        }
        disk.sync_dir(&self.reader.dir).context("sync", &self.reader.dir)?;
        let image = Checkpoint {
            topic_id: self.reader.identity.topic_id,
            log_start: target.log_start,
            end_offset: target.end_offset,
            next_raft_index: target.next_raft_index,
            first_dirty: target.first_dirty,
            segments: staging.done.iter().map(|(_, segment)| segment.to_entry()).collect(),
            epochs: target.epochs.clone(),
        };
        if let Some(sections) = &target.sections {
            write_snapshot_file(disk, &self.reader.dir, target.end_offset, sections)?;
            file.snapshots.push(target.end_offset);
            file.newest = Some(SnapshotContent::of(target.end_offset, sections));
        }
        let path = self.reader.dir.join(names::CHECKPOINT);
        replace_file(disk, &path, &[IoSlice::new(&image.encode())])?;
        file.written = Some(image);
        // Earlier plans are obsolete.
        file.sequence = self.plan_sequence.fetch_add(1, Relaxed) + 1;
        drop(file);
        Ok(self.adopt(staging, target))
    }

    fn adopt(&mut self, staging: &Staging<D>, target: &InstallTarget) -> Arc<SegmentList<D>> {
        let new: SegmentList<D> = staging.done.iter().map(|(_, segment)| Arc::clone(segment)).collect();
        self.epochs = EpochTable(target.epochs.clone());
        let reader = &self.reader;
        let old = reader.segments.swap(Arc::new(new));
        reader.log_start.store(target.log_start.0, Release);
        reader.set_log_end(target.end_offset);
        reader.damage.forget(Offset(0), Offset(i64::MAX));
        target.lost.iter().for_each(|range| {
            reader.damage.add(&DamagedRange { is_lost: true, ..range.clone() });
        });
        reader.first_dirty.store(target.first_dirty.0, Release);
        reader.generation.fetch_add(1, Release);
        self.publish_epochs();
        self.next_raft_index = target.next_raft_index;
        self.last_epoch = target.last_epoch;
        self.durable_end = target.end_offset.into();
        // The next append starts a segment, because the copied segments are complete.
        self.active = None;
        self.reserved = Reserved::default();
        old
    }

    fn remove_old(&mut self, old: &SegmentList<D>) -> Result<(), LogError> {
        let disk = self.reader.store.disk();
        for segment in old {
            remove_segment_files(disk, segment)?;
        }
        self.side.cut(disk, RaftIndex(0))?;
        Ok(())
    }
}
