//! Iteration over batch headers, to rebuild producer state and for lookups by time.

use std::sync::Arc;

use tailrace_records::BatchHeader;
use tailrace_types::Offset;

use crate::condemn::note_batch;
use crate::disk::Disk;
use crate::error::LogError;
use crate::format::row::Row;
use crate::reader::{LogReader, segment_of};
use crate::rows::Rows;

/// Iterates over batch headers in offset order, each with its index row, and skips damaged batches. Ends at
/// the log end as of its creation, or after the first error. Reads 61 bytes per batch, and the index a page
/// at a time.
pub struct HeaderIter<D: Disk> {
    reader: Arc<LogReader<D>>,
    next: Offset,
    end: Offset,
    /// Headers found and not yet returned, last first.
    ready: Vec<(Row, BatchHeader)>,
    failed: bool,
}

/// Headers read ahead: one index page.
const READ_AHEAD: u32 = 64;

impl<D: Disk> LogReader<D> {
    /// Returns the headers of the batches from the one that holds `from` up to the current log end.
    pub fn headers(self: &Arc<Self>, from: Offset) -> HeaderIter<D> {
        self.headers_kept(from.max(self.log_start()))
    }

    /// Like [`LogReader::headers`], including batches below the log start that were not removed yet.
    /// Consumers can no longer read these, but they tell what became of producers and their transactions.
    pub fn headers_kept(self: &Arc<Self>, from: Offset) -> HeaderIter<D> {
        let next = from.max(self.first_kept());
        HeaderIter {
            reader: Arc::clone(self),
            next,
            end: self.log_end().offset(),
            ready: Vec::new(),
            failed: false,
        }
    }

    /// Returns rows and headers of up to [`READ_AHEAD`] batches of one segment, from the one that holds
    /// `from`. Reads more if some are damaged.
    fn some_headers(&self, from: Offset, end: Offset) -> Result<Vec<(Row, BatchHeader)>, LogError> {
        self.retrying(|segments| {
            let mut found = Vec::new();
            for segment in &segments[segment_of(segments, from)..] {
                let files = self.files(segment)?;
                let mut rows = Rows::new(segment, &files);
                let first = rows.first_where(|row| row.next_offset() > from)?;
                for number in first..rows.count {
                    let row = rows.get_ahead(number)?;
                    if row.base_offset >= end || found.len() >= READ_AHEAD as usize {
                        return Ok(found);
                    }
                    if self.damage.within(row.base_offset, row.next_offset()).is_some() {
                        continue;
                    }
                    match note_batch(self, &row, self.read_header(segment, &files, &row)) {
                        Ok(header) => found.push((row, header)),
                        Err(error) if self.damage.within(row.base_offset, row.next_offset()).is_none() => {
                            return Err(error);
                        }
                        Err(_) => {}
                    }
                }
                if !found.is_empty() {
                    break;
                }
            }
            Ok(found)
        })
    }
}

impl<D: Disk> Iterator for HeaderIter<D> {
    type Item = Result<(Row, BatchHeader), LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() && !self.failed && self.next < self.end {
            match self.reader.some_headers(self.next, self.end) {
                Ok(found) => self.ready = found.into_iter().rev().collect(),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        let (row, header) = self.ready.pop()?;
        self.next = row.next_offset();
        Some(Ok((row, header)))
    }
}
