//! Builds a segment's index anew from its `.log` and the side file.

use std::io::IoSlice;

use tailrace_records::BatchHeader;
use tailrace_types::{Offset, RaftIndex, TimestampMs};

use crate::disk::{Disk, DiskFile, OpenMode, sync_parent};
use crate::entries::SideFile;
use crate::error::{IoContext, LogError};
use crate::format::names::{Kind, TEMPORARY_SUFFIX, with_suffix};
use crate::format::row::{Row, encode_head};
use crate::scan::{BatchScanner, Scanned};
use crate::segment::Segment;

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

/// Replaces the index of `segment`, all of whose published bytes must be whole batches, and opens it.
pub(crate) fn rebuild_index<D: Disk>(
    disk: &D,
    segment: &Segment<D>,
    log: &D::File,
) -> Result<D::File, LogError> {
    let path = segment.path(Kind::Index);
    let temporary = with_suffix(&path, TEMPORARY_SUFFIX);
    let (side, _) = SideFile::load(disk, segment.dir())?;
    let file = disk.open(&temporary, OpenMode::Truncate).context("create", &temporary)?;
    file.write_all_at(&[IoSlice::new(&encode_head(segment.base_offset))], 0).context("write", &temporary)?;
    write_rows(segment, log, &side, &file)?;
    file.sync_all().context("sync", &temporary)?;
    disk.rename(&temporary, &path).context("rename", &temporary)?;
    sync_parent(disk, &path)?;
    Ok(file)
}

fn write_rows<D: Disk>(
    segment: &Segment<D>,
    log: &D::File,
    side: &SideFile,
    file: &D::File,
) -> Result<(), LogError> {
    let log_path = segment.path(Kind::Log);
    let index_path = segment.path(Kind::Index);
    let mut scanner = BatchScanner::new(log, 0, u64::from(segment.bytes()));
    let mut writer = RowWriter::new(file, segment.base_offset, crate::format::row::row_position(0));
    let (mut rows, mut next, mut running_max) = (0, segment.first_raft_index, TimestampMs::NONE);
    loop {
        match scanner.next().context("read", &log_path)? {
            Scanned::Batch { header, position, .. } => {
                next = side.next_free(next);
                let row = row_of(&header, next, position as u32, running_max, 0);
                writer.push(&row).context("write", &index_path)?;
                running_max = row.running_max_timestamp;
                next.0 += 1;
                rows += 1;
            }
            Scanned::End => break,
            Scanned::Bad { position, reason } => return Err(LogError::damaged(&log_path, position, reason)),
        }
    }
    writer.flush().context("write", &index_path)?;
    if rows != segment.rows() {
        let reason = format!("{rows} batches found, {} expected", segment.rows());
        return Err(LogError::damaged(&log_path, u64::from(segment.bytes()), reason));
    }
    Ok(())
}
