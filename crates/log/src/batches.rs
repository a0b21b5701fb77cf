//! Reads single batches of a segment, checked against their rows.

use std::path::Path;

use crate::damage::is_unreadable;
use crate::disk::{Disk, DiskFile, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::names::Kind;
use crate::format::row::Row;
use crate::segment::{Segment, SegmentFiles};

/// Reads the batch that `row` describes into `bytes`, which has the batch's length, and checks it.
pub(crate) fn read_batch<D: Disk>(
    segment: &Segment<D>,
    files: &SegmentFiles<D>,
    row: &Row,
    bytes: &mut [u8],
) -> Result<(), LogError> {
    read_batch_from(segment, &files.log, row, bytes)
}

/// Like [`read_batch`], from a `.log` that the caller has opened.
pub(crate) fn read_batch_from<D: Disk>(
    segment: &Segment<D>,
    log: &D::File,
    row: &Row,
    bytes: &mut [u8],
) -> Result<(), LogError> {
    let path = segment.path(Kind::Log);
    let position = u64::from(row.position);
    let read = read_batch_bytes(log, &path, bytes, position)?;
    check_batch(segment, row, &bytes[..read])
}

/// Checks the bytes that were read of the batch that `row` describes.
pub(crate) fn check_batch<D: Disk>(segment: &Segment<D>, row: &Row, bytes: &[u8]) -> Result<(), LogError> {
    let damaged =
        |reason: String| LogError::damaged(&segment.path(Kind::Log), u64::from(row.position), reason);
    let header = tailrace_records::check(bytes).map_err(|error| damaged(error.to_string()))?;
    if !row.describes(&header) {
        return Err(damaged("the batch is not the one its index row describes".to_owned()));
    }
    Ok(())
}

/// Reads bytes of the batch at `position`. Bytes that the device cannot return count as damage there.
pub(crate) fn read_batch_bytes<F: DiskFile>(
    file: &F,
    path: &Path,
    buf: &mut [u8],
    position: u64,
) -> Result<usize, LogError> {
    match read_full_at(file, buf, position) {
        Err(error) if is_unreadable(&error) => Err(LogError::damaged(path, position, error.to_string())),
        read => read.context("read", path),
    }
}
