//! The active segment: when a new one starts, and the blocks reserved for it.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tailrace_records::BatchHeader;
use tailrace_types::{Offset, RaftIndex, TimestampMs};

use crate::config::SEGMENT_BYTES_MAX;
use crate::disk::{Disk, DiskFile, OpenMode, remove_if_there};
use crate::error::{IoContext, LogError};
use crate::format::names::Kind;
use crate::format::row::encode_head;
use crate::format::segment_header::SegmentHeader;
use crate::log::Log;
use crate::reader::{LogReader, SegmentList};
use crate::segment::{Segment, SegmentFiles};

impl<D: Disk> LogReader<D> {
    /// True if [`Log::close_old_segment`](crate::Log::close_old_segment) would close the active segment.
    /// Takes no lock and reads no file.
    pub fn is_closing_due(&self, now: TimestampMs) -> bool {
        let segments = self.segments.load();
        let Some(last) = segments.last() else { return false };
        let after_ms = self.close_after_ms.load(Relaxed);
        last.rows() > 0 && !last.is_closed() && now.0.saturating_sub(last.created.0) > after_ms
    }
}

impl<D: Disk> Log<D> {
    /// Returns the segment that takes the batch, and whether it is new.
    pub(crate) fn segment_for(
        &mut self,
        batch: &BatchHeader,
        raft_index: RaftIndex,
        now: TimestampMs,
    ) -> Result<(Arc<Segment<D>>, bool), LogError> {
        if let Some(active) = &self.active
            && !self.is_roll_due(active, batch, now)
            && self.reader.damage.within(active.base_offset, active.end_offset()).is_none()
        {
            return Ok((Arc::clone(active), false));
        }
        let segment = self.create_segment(batch.base_offset, raft_index, now)?;
        self.give_back_reserved();
        let mut list: SegmentList<D> = self.reader.segments.load().as_ref().clone();
        // An empty segment of a failed append has the same name and was replaced.
        list.retain(|old| old.base_offset < segment.base_offset);
        list.push(Arc::clone(&segment));
        self.reader.segments.store(Arc::new(list));
        self.active = Some(Arc::clone(&segment));
        self.reader.rolls.fetch_add(1, Relaxed);
        Ok((segment, true))
    }

    /// Kafka's rules (`LogSegment.shouldRoll`).
    fn is_roll_due(&self, active: &Segment<D>, batch: &BatchHeader, now: TimestampMs) -> bool {
        if active.rows() == 0 {
            // Created for a batch that was not appended. Usable for another batch, unless raft has used its
            // index.
            return active.first_raft_index != self.next_raft_index;
        }
        let segment_bytes = self.config.segment_bytes.min(SEGMENT_BYTES_MAX);
        let span = batch.last_offset().0 - active.base_offset.0;
        let age_ms = if active.first_timestamp().0 >= 0 {
            batch.max_timestamp.0.saturating_sub(active.first_timestamp().0)
        } else {
            now.since(active.created)
        };
        u64::from(active.bytes()) + batch.total_bytes() as u64 > segment_bytes
            || span > i64::from(i32::MAX)
            || age_ms > self.config.close_after_ms()
    }

    /// Closes the active segment if it has records and was started longer ago than [`LogConfig::segment_ms`].
    /// Retention and compaction can then reach it even if nothing more is appended. The next append starts a
    /// new segment. After a restart the segment is active again until this is called. Returns true if it was
    /// closed.
    ///
    /// The age counts from the start of the segment by this node's clock, because records may carry any
    /// timestamps.
    ///
    /// [`LogConfig::segment_ms`]: crate::LogConfig::segment_ms
    pub fn close_old_segment(&mut self, now: TimestampMs) -> bool {
        if self.poisoned.is_some() || !self.reader.is_closing_due(now) {
            return false;
        }
        self.give_back_reserved();
        self.active = None;
        if let Some(last) = self.reader.segments.load().last() {
            last.close_for_good();
        }
        self.reader.rolls.fetch_add(1, Relaxed);
        true
    }

    fn create_segment(
        &self,
        base_offset: Offset,
        first_raft_index: RaftIndex,
        now: TimestampMs,
    ) -> Result<Arc<Segment<D>>, LogError> {
        let segment = Arc::new(Segment::new(&self.reader.dir, base_offset, first_raft_index, now));
        match self.create_files(&segment) {
            Ok(files) => {
                segment.install(&Arc::new(files));
                self.reader.store.admit(&segment);
                Ok(segment)
            }
            Err(error) => {
                for kind in [Kind::Log, Kind::Index, Kind::Header] {
                    remove_if_there(self.reader.store.disk(), &segment.path(kind))?;
                }
                Err(error)
            }
        }
    }

    fn create_files(&self, segment: &Segment<D>) -> Result<SegmentFiles<D>, LogError> {
        let create = |kind| {
            let path = segment.path(kind);
            self.reader.store.disk().open(&path, OpenMode::Truncate).context("create", &path)
        };
        let header = SegmentHeader {
            base_offset: segment.base_offset,
            first_raft_index: segment.first_raft_index,
            created: segment.created,
            compacted: None,
        };
        let write = |file: &D::File, kind, bytes: &[u8]| {
            file.write_all_at(&[IoSlice::new(bytes)], 0).context("write", &segment.path(kind))
        };
        write(&create(Kind::Header)?, Kind::Header, &header.encode())?;
        let index = create(Kind::Index)?;
        write(&index, Kind::Index, &encode_head(segment.base_offset))?;
        Ok(SegmentFiles { log: create(Kind::Log)?, index })
    }

    /// Reserves blocks beyond the end if `bytes` more would use up the reserved ones. A failure is no error,
    /// because a disk too full for a whole step may still take the batch.
    pub(crate) fn reserve(&mut self, files: &SegmentFiles<D>, position: u32, bytes: u64) {
        let end = u64::from(position) + bytes;
        if self.config.preallocate_bytes == 0 || end <= self.reserved.end {
            return;
        }
        let segment_bytes = self.config.segment_bytes.min(SEGMENT_BYTES_MAX);
        let step = self.reserved.step.min(self.config.preallocate_bytes);
        let target = (end + step).min(segment_bytes).max(end);
        let from = self.reserved.end.max(u64::from(position));
        // After a failure, the next attempt waits for a step's worth of appends.
        self.reserved.end = match files.log.preallocate(from, target - from) {
            Ok(()) => target,
            Err(_) => end + step,
        };
        self.reserved.step = step.saturating_mul(2);
    }

    /// Frees blocks that were reserved for the active segment and not used. A failure only costs space.
    pub(crate) fn give_back_reserved(&mut self) {
        let reserved = std::mem::take(&mut self.reserved);
        if let Some(active) = &self.active
            && reserved.end > u64::from(active.bytes())
            && let Ok(files) = self.reader.files(active)
        {
            let _ = files.log.set_len(u64::from(active.bytes()));
        }
    }
}
