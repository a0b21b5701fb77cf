//! Checks whether the markers of transactions are still in place. Compaction removes them some time after the
//! last record of their transaction, and an older table of transactions must not be used without this check.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailrace_types::Offset;

use crate::disk::{Disk, OpenMode, read_file, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::{self, Checkpoint};
use crate::format::names::{self, Kind};
use crate::format::row::{ROW_BYTES, Row, row_position};
use crate::format::snapshot;
use crate::listing::Listing;
use crate::log::Log;
use crate::sections::Sections;
use crate::segment::Segment;

/// Rows per read: one page.
const WINDOW_ROWS: u32 = 64;

impl<D: Disk> Log<D> {
    /// Returns those of `offsets` (ascending, of former markers) at which compaction has left no marker.
    /// Skips segments that are still as appended, because they have lost nothing. Reads index rows only:
    /// about one page per 64 batches passed, and some rows per marker if the markers are further apart than
    /// that. Rebuilds a damaged index. Markers that cannot be checked count as present, and a note in `notes`
    /// says so.
    ///
    /// # Errors
    /// The disk's errors.
    pub fn lost_markers(
        &mut self,
        offsets: &[Offset],
        notes: &mut Vec<String>,
    ) -> Result<Vec<Offset>, LogError> {
        let segments = self.reader.segments.load_full();
        let (mut lost, mut left) = (Vec::new(), offsets);
        for segment in segments.iter() {
            let here = take_within(&mut left, segment.base_offset..segment.end_offset(), &mut lost);
            if segment.generation == 0 || here.is_empty() {
                continue;
            }
            let found = match self.lost_of(segment, here) {
                Err(LogError::Damaged { .. }) => {
                    self.repair_index(segment.base_offset).and_then(|()| self.lost_of(segment, here))
                }
                found => found,
            };
            match found {
                Ok(found) => lost.extend(found),
                Err(error @ LogError::Damaged { .. }) => {
                    notes.push(format!("cannot look up the ends of {} transactions: {error}", here.len()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(lost)
    }

    fn lost_of(&self, segment: &Arc<Segment<D>>, offsets: &[Offset]) -> Result<Vec<Offset>, LogError> {
        let files = segment.files(&self.reader.store)?;
        lost_markers(segment.rows(), offsets, |first, count| {
            let mut bytes = vec![0; count as usize * ROW_BYTES];
            segment.read_rows(&files, first, &mut bytes)?;
            let rows = bytes.chunks_exact(ROW_BYTES).zip(first..);
            rows.map(|(row, number)| segment.decode_row(number, row)).collect()
        })
    }
}

/// Returns the snapshot that the next start will use, read from the folder: its file, its offset and its
/// sections. `None` if there is no snapshot or no readable checkpoint, in which case the log is read from the
/// start.
///
/// # Errors
/// The disk's errors.
pub fn newest_snapshot_in<D: Disk>(
    disk: &D,
    dir: &Path,
) -> Result<Option<(PathBuf, Offset, Sections)>, LogError> {
    let Some(checkpoint) = read_checkpoint(disk, dir)? else { return Ok(None) };
    let compacted = checkpoint.segments.iter().filter(|segment| segment.generation > 0);
    let compacted_end = compacted.map(|segment| segment.end_offset).max().unwrap_or_default();
    let first_kept = checkpoint.segments.first().map_or(checkpoint.end_offset, |segment| segment.base_offset);
    let from = compacted_end.max(first_kept);
    for offset in Listing::read(disk, dir)?.snapshots.into_iter().rev().take_while(|offset| *offset >= from) {
        let path = names::path(dir, offset, Kind::Snapshot);
        let file = read_file(disk, &path, snapshot::FILE_BYTES_MAX).context("read", &path)?;
        if let Some(Ok(sections)) = file.map(|file| snapshot::decode(&file.into(), offset)) {
            return Ok(Some((path, offset, sections)));
        }
    }
    Ok(None)
}

/// Like [`Log::lost_markers`], for a folder on disk. Markers under a missing or damaged index do not count as
/// lost.
///
/// # Errors
/// The disk's errors.
pub fn lost_markers_in<D: Disk>(disk: &D, dir: &Path, offsets: &[Offset]) -> Result<Vec<Offset>, LogError> {
    let (mut lost, mut left) = (Vec::new(), offsets);
    for segment in read_checkpoint(disk, dir)?.iter().flat_map(|checkpoint| &checkpoint.segments) {
        let here = take_within(&mut left, segment.base_offset..segment.end_offset, &mut lost);
        if segment.generation == 0 || here.is_empty() {
            continue;
        }
        let path = names::path_of(dir, segment.base_offset, segment.generation, Kind::Index);
        let index = match disk.open(&path, OpenMode::Read) {
            Ok(index) => index,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(LogError::io("open", &path, error)),
        };
        let found = lost_markers(segment.rows, here, |first, count| {
            let (position, mut bytes) = (row_position(first), vec![0; count as usize * ROW_BYTES]);
            read_full_at(&index, &mut bytes, position).context("read", &path)?;
            let rows = bytes.chunks_exact(ROW_BYTES).map(|row| Row::decode(row, segment.base_offset));
            rows.map(|row| row.ok_or_else(|| LogError::damaged(&path, position, "a row is damaged")))
                .collect()
        });
        match found {
            Ok(found) => lost.extend(found),
            Err(LogError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(lost)
}

fn read_checkpoint<D: Disk>(disk: &D, dir: &Path) -> Result<Option<Checkpoint>, LogError> {
    let path = dir.join(names::CHECKPOINT);
    let file = read_file(disk, &path, checkpoint::BYTES_MAX).context("read", &path)?;
    Ok(file.and_then(|bytes| Checkpoint::decode(&bytes).ok()))
}

/// Takes the offsets up to the end of a segment from `left`, which is ascending. Offsets in the hole before
/// the segment, left by a copy that replaced the log, are lost.
fn take_within<'o>(
    left: &mut &'o [Offset],
    segment: std::ops::Range<Offset>,
    lost: &mut Vec<Offset>,
) -> &'o [Offset] {
    let (before, rest) = left.split_at(left.partition_point(|offset| *offset < segment.start));
    let (here, rest) = rest.split_at(rest.partition_point(|offset| *offset < segment.end));
    lost.extend(before);
    *left = rest;
    here
}

/// Returns those of `offsets` (ascending) without a marker in the `count` rows. `read` takes the number of
/// the first row and how many rows to read.
pub(crate) fn lost_markers(
    count: u32,
    offsets: &[Offset],
    read: impl FnMut(u32, u32) -> Result<Vec<Row>, LogError>,
) -> Result<Vec<Offset>, LogError> {
    let mut search = Search { count, read, first: 0, window: Vec::new() };
    let mut lost = Vec::new();
    for &offset in offsets {
        let row = search.first_from(offset)?;
        // A marker whose record compaction has removed ends no transaction for a client.
        let is_there = row.is_some_and(|row| {
            row.base_offset == offset && row.attributes.is_control() && row.record_count > 0
        });
        if !is_there {
            lost.push(offset);
        }
    }
    Ok(lost)
}

/// Searches forward through the rows of an index, in growing steps where nothing is wanted.
struct Search<R> {
    count: u32,
    read: R,
    /// Number of the window's first row. All rows before it start below the wanted offset.
    first: u32,
    window: Vec<Row>,
}

impl<R: FnMut(u32, u32) -> Result<Vec<Row>, LogError>> Search<R> {
    /// Returns the first row that starts at `offset` or above. `offset` must not be below that of the
    /// previous call.
    fn first_from(&mut self, offset: Offset) -> Result<Option<Row>, LogError> {
        if self.window.last().is_none_or(|last| last.base_offset < offset) {
            self.advance(offset)?;
        }
        let at = self.window.partition_point(|row| row.base_offset < offset);
        Ok(self.window.get(at).copied())
    }

    fn advance(&mut self, offset: Offset) -> Result<(), LogError> {
        let mut low = self.first + self.window.len() as u32;
        let mut step = WINDOW_ROWS;
        while self.count - low >= step && self.begins_below(low + step - 1, offset)? {
            low += step;
            step = step.saturating_mul(2);
        }
        let mut high = self.count.min(low.saturating_add(step));
        while high - low > WINDOW_ROWS {
            let middle = low + (high - low) / 2;
            if self.begins_below(middle, offset)? {
                low = middle + 1;
            } else {
                high = middle + 1;
            }
        }
        let rows = WINDOW_ROWS.min(self.count - low);
        self.window = if rows == 0 { Vec::new() } else { (self.read)(low, rows)? };
        self.first = low;
        Ok(())
    }

    fn begins_below(&mut self, number: u32, offset: Offset) -> Result<bool, LogError> {
        Ok((self.read)(number, 1)?.first().is_some_and(|row| row.base_offset < offset))
    }
}

#[cfg(test)]
mod tests {
    use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
    use tailrace_types::{ProducerEpoch, ProducerId, RaftIndex, TimestampMs};

    use super::*;

    /// A batch of one record every ten offsets. Every third is a marker, and every ninth a marker without its
    /// record.
    fn rows(count: u32) -> Vec<Row> {
        let row = |number: u32| {
            let mut builder = BatchBuilder::new(BatchOptions {
                producer_id: ProducerId(1),
                producer_epoch: ProducerEpoch(0),
                transactional: true,
                control: number.is_multiple_of(3),
                ..BatchOptions::default()
            });
            builder.push(TimestampMs(1), Some(b"key"), None, &[]).unwrap();
            let mut header = BatchHeader::parse(&builder.build()).unwrap();
            header.base_offset = Offset(i64::from(number) * 10);
            if number.is_multiple_of(9) {
                header.record_count = 0;
            }
            crate::rebuild::row_of(&header, RaftIndex(1), 0, TimestampMs(0), 0)
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn markers_are_found_at_any_distance() {
        for count in [0, 1, 63, 64, 65, 1000, 5000] {
            let all = rows(count);
            for every in [1, 3, 7, 100, 900] {
                let offsets: Vec<_> = (0..i64::from(count) * 10 + 30).step_by(every).map(Offset).collect();
                let is_there = |offset: &Offset| {
                    let (number, rest) = (offset.0 / 10, offset.0 % 10);
                    rest == 0 && number < i64::from(count) && number % 3 == 0 && number % 9 != 0
                };
                let expected: Vec<_> = offsets.iter().filter(|o| !is_there(o)).copied().collect();
                let found = lost_markers(count, &offsets, |first, rows| {
                    assert!(rows > 0 && first + rows <= count, "{first} and {rows} of {count}");
                    Ok(all[first as usize..(first + rows) as usize].to_vec())
                });
                assert_eq!(found.unwrap(), expected, "{count} rows, every {every}");
            }
        }
    }

    #[test]
    fn few_of_many_cost_few_reads() {
        let all = rows(200_000);
        let mut reads = 0;
        let offsets = [Offset(30), Offset(999_960), Offset(1_999_950)];
        let lost = lost_markers(200_000, &offsets, |first, rows| {
            reads += 1;
            Ok(all[first as usize..(first + rows) as usize].to_vec())
        });
        assert_eq!(lost.unwrap(), []);
        assert!(reads < 80, "{reads} reads");
    }
}
