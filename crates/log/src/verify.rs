//! Checks batches before they are returned: never, each time, or if they were not checked lately.

use std::sync::Arc;

use crate::batches::{check_batch, read_batch};
use crate::condemn::note_batch;
use crate::disk::{Disk, read_full_at};
use crate::error::LogError;
use crate::format::row::Row;
use crate::reader::LogReader;
use crate::rows::Rows;
use crate::segment::{Segment, SegmentFiles};
use crate::verified::VerifyReads;

/// The most bytes that one read checks, but at least one batch. The rest is left to the next read.
const CHECK_BYTES: u32 = 1 << 20;

/// Bytes of a `.log` per read for checking, or one batch.
const BLOCK_BYTES: u32 = 256 << 10;

impl<D: Disk> LogReader<D> {
    /// Forgets which bytes [`VerifyReads::First`] has checked in segments that were not read since the last
    /// call. They are checked again when they are read.
    pub fn forget_unread(&self) {
        self.segments.load().iter().for_each(|segment| segment.verified.forget_unless_read());
    }

    /// Checks the batches from row `number` to `last`, if required, up to the limit of one read. Returns the
    /// last row that may be returned to the reader. All rows before it are intact.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if the first is not what was written. It is out of service from then on.
    pub(crate) fn verify(
        &self,
        segment: &Arc<Segment<D>>,
        files: &SegmentFiles<D>,
        rows: &mut Rows<'_, D>,
        mut number: u32,
        last: Row,
    ) -> Result<Row, LogError> {
        let setting = self.store.verify_reads();
        if setting == VerifyReads::Never {
            return Ok(last);
        }
        let (mut block, mut good, mut left) = (Block::default(), None, CHECK_BYTES);
        loop {
            let row = rows.get_ahead(number)?;
            let known = segment.verified.end_from(row.position);
            if setting == VerifyReads::First && known >= row.end_position() {
                if known >= last.end_position() {
                    return Ok(last);
                }
                number = rows.first_between(number, rows.count, |row| row.end_position() > known)?;
                good = Some(rows.get(number - 1)?);
                continue;
            }
            if let Some(good) = good.filter(|_| left < row.batch_bytes) {
                return Ok(good);
            }
            let checked = block.check(segment, files, &row, last.end_position());
            if let Err(error) = note_batch(self, &row, checked) {
                return good.ok_or(error);
            }
            segment.verified.add(row.position, row.end_position());
            if row.end_position() >= last.end_position() {
                return Ok(row);
            }
            left = left.saturating_sub(row.batch_bytes);
            (good, number) = (Some(row), number + 1);
        }
    }
}

/// Bytes of a `.log` from one read.
#[derive(Default)]
struct Block {
    position: u32,
    bytes: Vec<u8>,
}

impl Block {
    /// Checks one batch. Also reads what follows it, below `upto`.
    fn check<D: Disk>(
        &mut self,
        segment: &Segment<D>,
        files: &SegmentFiles<D>,
        row: &Row,
        upto: u32,
    ) -> Result<(), LogError> {
        if row.end_position() - self.position > self.bytes.len() as u32 {
            let wanted = (upto - row.position).min(BLOCK_BYTES).max(row.batch_bytes);
            self.position = row.position;
            self.bytes.resize(wanted as usize, 0);
            let read = read_full_at(&files.log, &mut self.bytes, u64::from(row.position));
            if read.ok() != Some(self.bytes.len()) {
                // Whether this batch itself can be read must be tried separately.
                self.bytes.resize(row.batch_bytes as usize, 0);
                let read = read_batch(segment, files, row, &mut self.bytes);
                return read.inspect_err(|_| self.bytes.clear());
            }
        }
        let at = (row.position - self.position) as usize;
        check_batch(segment, row, &self.bytes[at..at + row.batch_bytes as usize])
    }
}
