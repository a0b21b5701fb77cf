//! Recovery points: what need not be read again after a crash.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use bytes::Bytes;
use tailrace_types::{LogEnd, Offset};

use crate::disk::{Disk, DiskFile, remove_if_there, replace_file, replace_file_unsynced, sync_parent};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::Checkpoint;
use crate::format::names::{self, Kind};
use crate::format::snapshot;
use crate::reader::LogReader;
use crate::segment::Segment;
use crate::store::lock;
use crate::sync::{SyncPlan, unless_gone};

/// Producer snapshots that are kept.
const SNAPSHOTS_KEPT: usize = 2;

/// What is known of the files that plans replace.
#[derive(Debug, Default)]
pub(crate) struct CheckpointFile {
    /// Number of the newest plan that was carried out; older ones have nothing to add.
    pub(crate) sequence: u64,
    /// Content of the checkpoint file.
    pub(crate) written: Option<Checkpoint>,
    /// Offsets of the producer snapshots, ascending.
    pub(crate) snapshots: Vec<Offset>,
    /// What the newest of them holds, if that is known. The state at one offset changes: compaction removes the markers of
    /// aborted transactions, producers expire.
    pub(crate) newest: Option<SnapshotContent>,
}

/// Tells the contents of two snapshots apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotContent {
    offset: Offset,
    bytes: usize,
    crc: u32,
}

impl SnapshotContent {
    pub(crate) fn of(offset: Offset, payload: &[u8]) -> Self {
        Self { offset, bytes: payload.len(), crc: crc32c::crc32c(payload) }
    }
}

/// A recovery point to be written: the log as it was when the plan was made.
pub struct CheckpointPlan<D: Disk> {
    pub(crate) sync: SyncPlan<D>,
    pub(crate) sequence: u64,
    pub(crate) image: Checkpoint,
    /// Segments whose rows are to be synced, with how many.
    pub(crate) rows: Vec<(Arc<Segment<D>>, u32)>,
    pub(crate) producers: Option<(Offset, Bytes)>,
}

impl<D: Disk> CheckpointPlan<D> {
    /// Syncs the log and its index, then replaces producer snapshot and checkpoint. Takes no lock of the log's. A plan that
    /// is overtaken by a newer one writes nothing.
    ///
    /// # Errors
    /// The caller [`poison`](crate::Log::poison)s the log for anything but [`LogError::NoSpace`], since a sync may have
    /// failed. After `NoSpace` the old checkpoint stands and the log is durable up to [`CheckpointPlan::covers`].
    pub fn run(&self) -> Result<(), LogError> {
        self.sync.run()?;
        let reader = self.sync.reader();
        for (segment, rows) in &self.rows {
            unless_gone(reader, segment, sync_rows(reader, segment, *rows))?;
        }
        let mut file = lock(&reader.checkpoint);
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
        let Some((offset, payload)) = &self.producers else { return Ok(false) };
        let content = Some(SnapshotContent::of(*offset, payload));
        if file.snapshots.last() == Some(offset) && file.newest == content {
            return Ok(false);
        }
        file.newest = None;
        let reader = self.sync.reader();
        let path = names::path(&reader.dir, *offset, Kind::Snapshot);
        let head = snapshot::encode_head(*offset, payload);
        replace_file_unsynced(reader.store.disk(), &path, &[IoSlice::new(&head), IoSlice::new(payload)])?;
        // After a truncation there may be later ones; they were removed then.
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

    /// The log end when the plan was made: the recovery point after [`CheckpointPlan::run`].
    pub fn covers(&self) -> LogEnd {
        self.sync.covers()
    }
}

fn sync_rows<D: Disk>(reader: &LogReader<D>, segment: &Arc<Segment<D>>, rows: u32) -> Result<(), LogError> {
    let files = reader.files(segment)?;
    files.index.sync_data().context("sync", &segment.path(Kind::Index)).map_err(LogError::lasting)?;
    segment.rows_synced.fetch_max(rows, Release);
    Ok(())
}
