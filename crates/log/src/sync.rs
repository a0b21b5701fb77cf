//! Makes appended data durable without holding the log's lock.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use tailrace_types::{LogEnd, Offset};

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{IoContext, LogError};
use crate::format::names::{self, Kind};
use crate::reader::LogReader;
use crate::segment::Segment;

/// A plan that makes everything durable that was appended before it.
pub struct SyncPlan<D: Disk> {
    reader: Arc<LogReader<D>>,
    covers: LogEnd,
    pub(crate) generation: u64,
    /// Oldest first, with the bytes that the plan covers.
    segments: Vec<(Arc<Segment<D>>, u32)>,
    folder: bool,
}

impl<D: Disk> SyncPlan<D> {
    pub(crate) fn new(reader: &Arc<LogReader<D>>) -> Self {
        let list = reader.segments.load();
        // Segments are synced oldest first, so the unsynced ones are at the end.
        let unsynced = list.iter().rev().take_while(|s| !s.is_log_synced());
        let mut segments: Vec<_> = unsynced.map(|s| (Arc::clone(s), s.bytes())).collect();
        segments.reverse();
        Self {
            covers: reader.log_end(),
            generation: reader.generation.load(Acquire),
            segments,
            folder: !reader.folder_synced.load(Acquire),
            reader: Arc::clone(reader),
        }
    }

    /// Syncs what the plan lists. Does not take the log's lock, and may run concurrently with appends and
    /// other plans.
    ///
    /// # Errors
    /// The state of the data is unknown then. The caller must [`poison`](crate::Log::poison) the log and must
    /// not retry.
    pub fn run(&self) -> Result<(), LogError> {
        self.sync_all().map_err(LogError::lasting)
    }

    fn sync_all(&self) -> Result<(), LogError> {
        let mut created = self.folder;
        for (segment, _) in &self.segments {
            created |= !segment.created_synced.load(Acquire);
            unless_gone(&self.reader, segment, self.sync_segment(segment))?;
        }
        if self.folder {
            self.sync_identity()?;
        }
        if created {
            self.reader.store.disk().sync_dir(&self.reader.dir).context("sync", &self.reader.dir)?;
        }
        for (segment, bytes) in &self.segments {
            segment.created_synced.store(true, Release);
            segment.log_synced.fetch_max(*bytes, Release);
        }
        if self.folder {
            self.reader.folder_synced.store(true, Release);
        }
        // Segments with unsynced data are never closed, but now these may be.
        self.reader.store.shrink();
        Ok(())
    }

    fn sync_segment(&self, segment: &Arc<Segment<D>>) -> Result<(), LogError> {
        if !segment.created_synced.load(Acquire) {
            self.sync_file(segment, Kind::Header)?;
        }
        let files = self.reader.files(segment)?;
        files.log.sync_data().context("sync", &segment.path(Kind::Log))
    }

    fn sync_file(&self, segment: &Segment<D>, kind: Kind) -> Result<(), LogError> {
        let path = segment.path(kind);
        let file = self.reader.store.disk().open(&path, OpenMode::Write).context("open", &path)?;
        file.sync_all().context("sync", &path)
    }

    fn sync_identity(&self) -> Result<(), LogError> {
        let disk = self.reader.store.disk();
        let path = self.reader.dir.join(names::IDENTITY);
        let file = disk.open(&path, OpenMode::Write).context("open", &path)?;
        file.sync_all().context("sync", &path)?;
        crate::disk::sync_parent(disk, &self.reader.dir)
    }

    /// Returns the log end at the time of the plan, which is durable after [`SyncPlan::run`].
    pub fn covers(&self) -> LogEnd {
        self.covers
    }

    /// True if there is nothing to sync.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && !self.folder
    }

    /// Bytes that were appended and not synced at the time of the plan.
    pub fn dirty_bytes(&self) -> u64 {
        let dirty = |(segment, bytes): &(Arc<Segment<D>>, u32)| {
            u64::from(bytes.saturating_sub(segment.log_synced.load(Relaxed)))
        };
        self.segments.iter().map(dirty).sum()
    }

    pub(crate) fn reader(&self) -> &Arc<LogReader<D>> {
        &self.reader
    }

    pub(crate) fn covers_offset(&self) -> Offset {
        self.covers.offset()
    }
}

/// Ignores an error about missing files. Retention or truncation may remove a segment while a plan that lists
/// it runs, and the segment needs no sync any more.
pub(crate) fn unless_gone<D: Disk>(
    reader: &LogReader<D>,
    segment: &Arc<Segment<D>>,
    result: Result<(), LogError>,
) -> Result<(), LogError> {
    match result {
        Err(LogError::Io { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound
                && !reader.segments.load().iter().any(|listed| Arc::ptr_eq(listed, segment)) =>
        {
            Ok(())
        }
        result => result,
    }
}
