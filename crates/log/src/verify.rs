//! Batches that are checked before they are handed out: never, each time, or when nobody has checked them lately.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::damage::note_batch;
use crate::disk::{Disk, read_full_at};
use crate::error::LogError;
use crate::format::row::Row;
use crate::indexed::{check_batch, read_batch};
use crate::reader::LogReader;
use crate::rows::Rows;
use crate::segment::{Segment, SegmentFiles};
use crate::store::lock;

/// Bytes that one read checks at most, but at least one batch. What lies behind is left to the next read.
const CHECK_BYTES: u32 = 1 << 20;

/// Bytes of a `.log` that are read at once to be checked, or one batch.
const BLOCK_BYTES: u32 = 256 << 10;

/// Spans kept of one segment. Where there are more, the shortest is checked again.
const SPANS_MAX: usize = 64;

/// Whether [`LogReader::read`] checks the batches that it hands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyReads {
    /// That is left to those who get them.
    #[default]
    Never,
    /// Those that were not checked since the log was opened, or since [`LogReader::forget_unread`] found their segment unread.
    First,
    /// All of them.
    Always,
}

/// The same for all logs of a store. It may change at any time.
#[derive(Debug, Default)]
pub(crate) struct VerifySetting(AtomicU8);

impl VerifySetting {
    pub(crate) fn set(&self, verify: VerifyReads) {
        self.0.store(verify as u8, Relaxed);
    }

    pub(crate) fn get(&self) -> VerifyReads {
        match self.0.load(Relaxed) {
            0 => VerifyReads::Never,
            1 => VerifyReads::First,
            _ => VerifyReads::Always,
        }
    }
}

/// Which bytes of a segment's `.log` were found to be in order.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// First byte and end of each, ascending, neither overlapping nor touching.
    spans: Mutex<Vec<(u32, u32)>>,
    was_read: AtomicBool,
}

impl Verified {
    /// The end of the span that holds `position`, or `position` itself.
    fn end_from(&self, position: u32) -> u32 {
        self.was_read.store(true, Relaxed);
        let spans = lock(&self.spans);
        let next = spans.partition_point(|span| span.1 <= position);
        spans.get(next).filter(|span| span.0 <= position).map_or(position, |span| span.1)
    }

    fn add(&self, from: u32, upto: u32) {
        let mut spans = lock(&self.spans);
        let first = spans.partition_point(|span| span.1 < from);
        let count = spans[first..].iter().take_while(|span| span.0 <= upto).count();
        let merged = spans[first..first + count]
            .iter()
            .fold((from, upto), |merged, span| (merged.0.min(span.0), merged.1.max(span.1)));
        spans.splice(first..first + count, [merged]);
        if spans.len() > SPANS_MAX
            && let Some(shortest) = (0..spans.len()).min_by_key(|at| spans[*at].1 - spans[*at].0)
        {
            spans.remove(shortest);
        }
    }

    /// Forgets everything, unless somebody has read since the last call.
    fn forget_unless_read(&self) {
        if !self.was_read.swap(false, Relaxed) {
            self.forget();
        }
    }

    /// Another file may have taken the place of the one that was checked.
    pub(crate) fn forget(&self) {
        *lock(&self.spans) = Vec::new();
    }
}

impl<D: Disk> LogReader<D> {
    /// Has what [`VerifyReads::First`] knows of segments forgotten that nobody has read since the last call: they are checked again when they
    /// are read.
    pub fn forget_unread(&self) {
        self.segments.load().iter().for_each(|segment| segment.verified.forget_unless_read());
    }

    /// Checks the batches from row `number` to `last`, if that is wanted, and as many as one read may. The last one that may be handed
    /// out: all before it are in order.
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

/// Bytes of a `.log` that were read at once.
#[derive(Default)]
struct Block {
    position: u32,
    bytes: Vec<u8>,
}

impl Block {
    /// Checks one batch; what lies behind it, below `upto`, is read along.
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
                // Whether this batch can be read is another question.
                self.bytes.resize(row.batch_bytes as usize, 0);
                let read = read_batch(segment, files, row, &mut self.bytes);
                return read.inspect_err(|_| self.bytes.clear());
            }
        }
        let at = (row.position - self.position) as usize;
        check_batch(segment, row, &self.bytes[at..at + row.batch_bytes as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_merged_where_they_touch_and_the_shortest_goes_when_there_are_too_many() {
        let verified = Verified::default();
        verified.add(100, 200);
        verified.add(300, 400);
        let ends = |positions: [u32; 6]| positions.map(|at| verified.end_from(at));
        assert_eq!(ends([0, 100, 199, 200, 300, 400]), [0, 200, 200, 200, 400, 400]);
        verified.add(200, 300);
        assert_eq!(ends([0, 100, 199, 200, 300, 400]), [0, 400, 400, 400, 400, 400]);
        verified.add(50, 500);
        assert_eq!(*lock(&verified.spans), [(50, 500)]);
        (1..=SPANS_MAX as u32).for_each(|number| verified.add(number * 1000, number * 1000 + number));
        assert_eq!(lock(&verified.spans).len(), SPANS_MAX);
        assert_eq!(verified.end_from(1000), 1000, "the shortest");
        assert_eq!(verified.end_from(2000), 2002);
    }

    #[test]
    fn what_is_read_stays_known_and_what_is_not_is_forgotten() {
        let verified = Verified::default();
        verified.add(0, 10);
        assert_eq!(verified.end_from(0), 10);
        verified.forget_unless_read();
        assert_eq!(*lock(&verified.spans), [(0, 10)]);
        verified.forget_unless_read();
        assert!(lock(&verified.spans).is_empty());
    }
}
