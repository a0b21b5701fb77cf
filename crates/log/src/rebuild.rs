//! Builds a segment's index from its `.log` and the side file.

use std::io::IoSlice;

use tailrace_records::BatchHeader;
use tailrace_types::{Offset, RaftIndex, TimestampMs};

use crate::disk::{Disk, DiskFile, OpenMode, read_full_at, sync_parent};
use crate::entries::SideFile;
use crate::error::{IoContext, LogError};
use crate::format::names::{Kind, TEMPORARY_SUFFIX, with_suffix};
use crate::format::row::{ROW_BYTES, Row, encode_head, row_position};
use crate::scan::{BatchScanner, Scanned};
use crate::segment::{LenOf, Segment};

/// Rows are gathered up to this many bytes per write.
const WRITE_BYTES: usize = 64 << 10;

/// The row of a batch that lies at `position`.
pub(crate) fn row_of(
    batch: &BatchHeader,
    raft_index: RaftIndex,
    position: u32,
    running_max_before: TimestampMs,
    synced_bytes: u32,
) -> Row {
    // A batch that compaction left without records is never the answer to a question for a time.
    let max_timestamp = if batch.record_count == 0 { TimestampMs::NONE } else { batch.max_timestamp };
    Row {
        raft_index,
        leader_epoch: batch.leader_epoch,
        base_offset: batch.base_offset,
        last_offset_delta: batch.last_offset_delta.cast_unsigned(),
        record_count: batch.record_count.cast_unsigned(),
        position,
        batch_bytes: batch.total_bytes() as u32,
        max_timestamp,
        running_max_timestamp: max_timestamp.max(running_max_before),
        synced_bytes,
        attributes: batch.attributes,
        batch_crc: batch.crc,
    }
}

/// Writes rows one after the other, gathered.
pub(crate) struct RowWriter<'f, F> {
    file: &'f F,
    base: Offset,
    position: u64,
    buf: Vec<u8>,
}

impl<'f, F: DiskFile> RowWriter<'f, F> {
    pub(crate) fn new(file: &'f F, base: Offset, position: u64) -> Self {
        Self { file, base, position, buf: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: &Row) -> std::io::Result<()> {
        self.buf.extend_from_slice(&row.encode(self.base));
        if self.buf.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        if !self.buf.is_empty() {
            self.file.write_all_at(&[IoSlice::new(&self.buf)], self.position)?;
            self.position += self.buf.len() as u64;
            self.buf.clear();
        }
        Ok(())
    }
}

/// A batch that building an index found damaged.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// The row that it had, and keeps.
    pub(crate) row: Row,
    pub(crate) reason: String,
}

/// Replaces the index of `segment`, and opens it. A batch that is damaged keeps the row that it had, if that is whole; it is named.
///
/// # Errors
/// [`LogError::Damaged`] if neither the batch nor its row tells what lies at a place; the disk's.
pub(crate) fn rebuild_index<D: Disk>(
    disk: &D,
    segment: &Segment<D>,
    log: &D::File,
) -> Result<(D::File, Vec<Suspect>), LogError> {
    let path = segment.path(Kind::Index);
    let temporary = with_suffix(&path, TEMPORARY_SUFFIX);
    let old = disk.open(&path, OpenMode::Read).ok();
    let (side, _) = SideFile::load(disk, segment.dir())?;
    let file = disk.open(&temporary, OpenMode::Truncate).context("create", &temporary)?;
    file.write_all_at(&[IoSlice::new(&encode_head(segment.base_offset))], 0).context("write", &temporary)?;
    let rebuild = Rebuild { segment, log, side: &side, old: old.as_ref() };
    let suspects = rebuild.write_rows(&file)?;
    file.sync_all().context("sync", &temporary)?;
    disk.rename(&temporary, &path).context("rename", &temporary)?;
    sync_parent(disk, &path)?;
    Ok((file, suspects))
}

struct Rebuild<'a, D: Disk> {
    segment: &'a Segment<D>,
    log: &'a D::File,
    side: &'a SideFile,
    /// The index that is to be replaced.
    old: Option<&'a D::File>,
}

impl<D: Disk> Rebuild<'_, D> {
    fn write_rows(&self, file: &D::File) -> Result<Vec<Suspect>, LogError> {
        let segment = self.segment;
        let (log_path, index_path) = (segment.path(Kind::Log), segment.path(Kind::Index));
        let len = self.log.len_of(&log_path)?.min(u64::from(segment.bytes()));
        let mut scanner = BatchScanner::new(self.log, 0, len);
        let mut writer = RowWriter::new(file, segment.base_offset, row_position(0));
        let (mut next, mut running_max) = (segment.first_raft_index, TimestampMs::NONE);
        let mut suspects = Vec::new();
        for number in 0..segment.rows() {
            let (position, reason) = match scanner.next_or_unreadable().context("read", &log_path)? {
                Scanned::Batch { header, position, .. } => {
                    next = self.side.next_free(next);
                    let row = row_of(&header, next, position as u32, running_max, 0);
                    writer.push(&row).context("write", &index_path)?;
                    running_max = row.running_max_timestamp;
                    next = RaftIndex(row.raft_index.0 + 1);
                    continue;
                }
                Scanned::End => (len, "the file ends early".to_owned()),
                Scanned::Bad { position, reason } => (position, reason),
            };
            let kept = self.old_row(number).filter(|row| u64::from(row.position) == position);
            let row = kept.ok_or_else(|| LogError::damaged(&log_path, position, &*reason))?;
            writer.push(&row).context("write", &index_path)?;
            scanner.skip_to(u64::from(row.end_position()));
            (next, running_max) = (RaftIndex(row.raft_index.0 + 1), row.running_max_timestamp);
            suspects.push(Suspect { row, reason });
        }
        writer.flush().context("write", &index_path)?;
        if scanner.position() != u64::from(segment.bytes()) {
            let reason = format!("{} batches do not reach its end", segment.rows());
            return Err(LogError::damaged(&log_path, scanner.position(), reason));
        }
        Ok(suspects)
    }

    fn old_row(&self, number: u32) -> Option<Row> {
        let mut bytes = [0; ROW_BYTES];
        let read = read_full_at(self.old?, &mut bytes, row_position(number)).ok()?;
        Row::decode(&bytes[..read], self.segment.base_offset)
    }
}
