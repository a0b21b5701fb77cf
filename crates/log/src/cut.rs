//! The end of recovery: distinguishes damage from a torn tail, and truncates the latter.

use tailrace_types::{Offset, RaftIndex};

use crate::disk::{Disk, DiskFile, OpenMode, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::names::{self, Kind};
use crate::format::row::{ROW_BYTES, Row, row_position};
use crate::listing::Listing;
use crate::recover::{Bad, Recovering, Tail, next_row};
use crate::recovery::TornTail;
use crate::scan::{BatchScanner, Scanned};
use crate::segment::{LenOf, Segment, SegmentFiles};
use crate::trim::remove_segment_files;

/// Old rows per read.
const ROWS_AT_ONCE: u64 = 1024;

impl<D: Disk> Recovering<'_, D> {
    /// Returns the evidence, if any, that the bad bytes had been synced: a later row or segment shows it.
    pub(crate) fn proof_of_damage(
        &self,
        segment: &Segment<D>,
        files: &SegmentFiles<D>,
        bad: &Bad,
        listing: &Listing,
    ) -> Result<Option<String>, LogError> {
        if let Some((later, _)) = self.compacted.range(segment.base_offset..).next() {
            return Ok(Some(format!("segment {later} has been compacted, so it was synced")));
        }
        if let Some(proof) = proof_in_rows(segment, files, bad.position)? {
            return Ok(Some(proof));
        }
        let after = self.synced_segment_after(segment.base_offset, listing)?;
        Ok(after.map(|base| format!("segment {base}, which follows, had been synced")))
    }

    /// Like [`Recovering::proof_of_damage`], for a `.log` that ends before its rows do. Those rows were
    /// written together with batches that are now missing.
    pub(crate) fn proof_of_loss(
        &self,
        tail: &Tail<D>,
        segment: &Segment<D>,
        files: &SegmentFiles<D>,
        end: &Bad,
        listing: &Listing,
    ) -> Result<Option<String>, LogError> {
        if let Some(proof) = proof_in_rows(segment, files, end.position)? {
            return Ok(Some(proof));
        }
        match next_row(tail, segment, files, end.position)? {
            Some(_) => self.proof_of_damage(segment, files, end, listing),
            None => Ok(None),
        }
    }

    /// Returns a segment after `base` with evidence that something in it was synced. Then everything before
    /// it was synced too.
    pub(crate) fn synced_segment_after(
        &self,
        base: Offset,
        listing: &Listing,
    ) -> Result<Option<Offset>, LogError> {
        for &later in listing.segments.iter().filter(|later| **later > base) {
            let path = names::path(self.dir, later, Kind::Index);
            let index = match self.store.disk().open(&path, OpenMode::Read) {
                Ok(index) => index,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(LogError::io("open", &path, error)),
            };
            let newest = newest_row(&index, later, 0).context("read", &path)?;
            if newest.is_some_and(|row| row.synced_bytes > 0) {
                return Ok(Some(later));
            }
        }
        Ok(None)
    }

    /// Truncates the log at `bad` in `segment`, durably.
    pub(crate) fn cut(
        &mut self,
        segment: &Segment<D>,
        files: &SegmentFiles<D>,
        bad: &Bad,
        len: u64,
        listing: &Listing,
    ) -> Result<(), LogError> {
        let path = segment.path(Kind::Log);
        let follow = batches_follow(segment, files).context("read", &path)?;
        let (later_bytes, later_batches) = self.remove_after(segment.base_offset, listing)?;
        files.log.set_len(bad.position).context("shorten", &path)?;
        files.log.sync_all().context("sync", &path)?;
        self.recovery.truncated = Some(TornTail {
            file: path,
            position: bad.position,
            bytes: len - bad.position + later_bytes,
            reason: bad.reason.clone(),
            valid_batches_follow: follow || later_batches,
        });
        Ok(())
    }

    /// Truncates the log before the segment `base`, which does not continue it.
    pub(crate) fn cut_between(
        &mut self,
        tail: &Tail<D>,
        base: Offset,
        bad: &Bad,
        listing: &Listing,
    ) -> Result<(), LogError> {
        let file = names::path(self.dir, base, Kind::Log);
        let before = Offset(base.0 - 1);
        if base < tail.next_offset || self.compacted.range(base..).next().is_some() {
            return Err(LogError::damaged(&file, 0, bad.reason.clone()));
        }
        if let Some(synced) = self.synced_segment_after(before, listing)? {
            let reason = format!("{}; segment {synced} had been synced", bad.reason);
            return Err(LogError::damaged(&file, 0, reason));
        }
        let (bytes, valid_batches_follow) = self.remove_after(before, listing)?;
        let reason = bad.reason.clone();
        self.recovery.truncated = Some(TornTail { file, position: 0, bytes, reason, valid_batches_follow });
        Ok(())
    }

    /// Removes the segments after `base`. Returns their total bytes, and whether one of them started with a
    /// good batch.
    fn remove_after(&self, base: Offset, listing: &Listing) -> Result<(u64, bool), LogError> {
        let disk = self.store.disk();
        let (mut bytes, mut good) = (0, false);
        for &later in listing.segments.iter().rev().filter(|later| **later > base) {
            let segment = Segment::<D>::new(self.dir, later, RaftIndex(0), self.now);
            let path = segment.path(Kind::Log);
            let log = disk.open(&path, OpenMode::Read).context("open", &path)?;
            let len = log.len_of(&path)?;
            bytes += len;
            let first = BatchScanner::new(&log, 0, len).next().map(|s| matches!(s, Scanned::Batch { .. }));
            good |= first.context("read", &path)?;
            remove_segment_files(disk, &segment)?;
        }
        Ok((bytes, good))
    }
}

/// Like [`Recovering::proof_of_damage`], by the rows of the segment that are not published yet.
fn proof_in_rows<D: Disk>(
    segment: &Segment<D>,
    files: &SegmentFiles<D>,
    position: u64,
) -> Result<Option<String>, LogError> {
    let newest = newest_row(&files.index, segment.base_offset, segment.rows());
    let newest = newest.context("read", &segment.path(Kind::Index))?;
    let synced = newest.map(|row| u64::from(row.synced_bytes)).filter(|synced| *synced > position);
    Ok(synced.map(|synced| format!("a later index row says that {synced} bytes were durable")))
}

/// Returns the last good row from number `first` on, left by an earlier process. Later rows know of more
/// syncs, so this one knows of all.
pub(crate) fn newest_row<F: DiskFile>(index: &F, base: Offset, first: u32) -> std::io::Result<Option<Row>> {
    let from = row_position(first);
    let mut rows = index.len()?.saturating_sub(from) / ROW_BYTES as u64;
    while rows > 0 {
        let count = rows.min(ROWS_AT_ONCE);
        rows -= count;
        let found = rows_at(index, base, from + rows * ROW_BYTES as u64, count)?;
        if let Some(row) = found.last() {
            return Ok(Some(*row));
        }
    }
    Ok(None)
}

/// Returns up to `count` rows from `position` on, without damaged ones.
fn rows_at<F: DiskFile>(index: &F, base: Offset, position: u64, count: u64) -> std::io::Result<Vec<Row>> {
    let mut buf = vec![0; count as usize * ROW_BYTES];
    let read = read_full_at(index, &mut buf, position)?;
    Ok(buf[..read].chunks_exact(ROW_BYTES).filter_map(|row| Row::decode(row, base)).collect())
}

/// True if one of the next old rows after the good ones leads to a good batch. Only for the report.
fn batches_follow<D: Disk>(segment: &Segment<D>, files: &SegmentFiles<D>) -> std::io::Result<bool> {
    let len = files.log.len()?;
    for row in rows_at(&files.index, segment.base_offset, row_position(segment.rows()), ROWS_AT_ONCE)? {
        if row.position < segment.bytes() {
            continue;
        }
        let end = u64::from(row.end_position()).min(len);
        let mut scanner = BatchScanner::new(&files.log, u64::from(row.position), end);
        if matches!(scanner.next(), Ok(Scanned::Batch { header, .. }) if row.describes(&header)) {
            return Ok(true);
        }
    }
    Ok(false)
}
