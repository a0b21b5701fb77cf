//! Recovery points: the part of the log that need not be read again after a crash.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use tailrace_types::{LogEnd, Offset};

use crate::checkpoint_file::{CheckpointFile, SnapshotContent};
use crate::disk::{Disk, DiskFile, remove_if_there, replace_file, replace_file_unsynced, sync_parent};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::Checkpoint;
use crate::format::names::{self, Kind};
use crate::format::snapshot;
use crate::reader::LogReader;
use crate::sections::Sections;
use crate::segment::Segment;
use crate::sync::{SyncPlan, unless_gone};

/// The number of snapshots kept.
const SNAPSHOTS_KEPT: usize = 2;

/// The plan of a recovery point: the log as it was when the plan was made.
pub struct CheckpointPlan<D: Disk> {
    pub(crate) sync: SyncPlan<D>,
    pub(crate) sequence: u64,
    pub(crate) image: Checkpoint,
    /// Segments whose rows are to be synced, each with the number of rows.
    pub(crate) rows: Vec<(Arc<Segment<D>>, u32)>,
    pub(crate) sections: Option<(Offset, Sections)>,
}

impl<D: Disk> CheckpointPlan<D> {
    /// Syncs the log and its index, then replaces the snapshot and the checkpoint. Does not take the log's
    /// lock. A plan that was overtaken by a newer one writes nothing.
    ///
    /// # Errors
    /// The caller [`poison`](crate::Log::poison)s the log after any error but [`LogError::NoSpace`], since a
    /// sync may have failed. After `NoSpace` the old checkpoint remains, and the log is durable up to
    /// [`CheckpointPlan::covers`].
    pub fn run(&self) -> Result<(), LogError> {
        self.sync.run()?;
        let reader = self.sync.reader();
        for (segment, rows) in &self.rows {
            unless_gone(reader, segment, sync_rows(reader, segment, *rows))?;
        }
        let mut file = reader.checkpoint.lock();
        if file.sequence >= self.sequence {
            return Ok(());
        }
        let path = reader.dir.join(names::CHECKPOINT);
        let snapshot_written = self.write_snapshot(&mut file)?;
        if file.written.as_ref() != Some(&self.image) {
            replace_file(reader.store.disk(), &path, &[IoSlice::new(&self.image.encode())])?;
            file.written = Some(self.image.clone());
        } else if snapshot_written {
            sync_parent(reader.store.disk(), &path)?;
        }
        file.sequence = self.sequence;
        self.remove_old_snapshots(&mut file)
    }

    fn write_snapshot(&self, file: &mut CheckpointFile) -> Result<bool, LogError> {
        let Some((offset, sections)) = &self.sections else { return Ok(false) };
        let content = Some(SnapshotContent::of(*offset, sections));
        if file.snapshots.last() == Some(offset) && file.newest == content {
            return Ok(false);
        }
        file.newest = None;
        let reader = self.sync.reader();
        write_snapshot_file(reader.store.disk(), &reader.dir, *offset, sections)?;
        // After a truncation the list may have had later snapshots, whose files were removed.
        file.snapshots.retain(|old| old < offset);
        file.snapshots.push(*offset);
        file.newest = content;
        Ok(true)
    }

    fn remove_old_snapshots(&self, file: &mut CheckpointFile) -> Result<(), LogError> {
        let reader = self.sync.reader();
        while file.snapshots.len() > SNAPSHOTS_KEPT {
            let old = file.snapshots.remove(0);
            remove_if_there(reader.store.disk(), &names::path(&reader.dir, old, Kind::Snapshot))?;
        }
        Ok(())
    }

    /// Returns the log end at the time of the plan, which is the recovery point after
    /// [`CheckpointPlan::run`].
    pub fn covers(&self) -> LogEnd {
        self.sync.covers()
    }
}

/// Writes sections next to the log. The file's name becomes durable with the next sync of the folder.
pub(crate) fn write_snapshot_file<D: Disk>(
    disk: &D,
    dir: &Path,
    offset: Offset,
    sections: &Sections,
) -> Result<(), LogError> {
    let head = snapshot::encode_head(offset, sections);
    let contents = sections.iter().map(|section| IoSlice::new(&section.bytes));
    let parts: Vec<_> = std::iter::once(IoSlice::new(&head)).chain(contents).collect();
    replace_file_unsynced(disk, &names::path(dir, offset, Kind::Snapshot), &parts)
}

fn sync_rows<D: Disk>(reader: &LogReader<D>, segment: &Arc<Segment<D>>, rows: u32) -> Result<(), LogError> {
    let files = reader.files(segment)?;
    files.index.sync_data().context("sync", &segment.path(Kind::Index)).map_err(LogError::lasting)?;
    segment.rows_synced.fetch_max(rows, Release);
    Ok(())
}
