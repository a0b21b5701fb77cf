//! Reads the batches of a `.log` in order and checks each. For recovery, rebuilding and inspection, never on
//! the produce or fetch path.

use std::io;

use tailrace_records::{BatchHeader, HEADER_BYTES, check};

use crate::damage::is_unreadable;
use crate::disk::{DiskFile, read_full_at};

/// Bytes per read. Grows to the size of a larger batch.
const CHUNK_BYTES: usize = 256 << 10;
/// The leading bytes of a batch that include its length.
const LENGTH_END: usize = 12;

/// Scans a range of a `.log`.
pub(crate) struct BatchScanner<'f, F> {
    file: &'f F,
    /// Position of the next batch.
    position: u64,
    end: u64,
    /// File bytes from `buf_position` on.
    buf: Vec<u8>,
    buf_position: u64,
    /// Bytes read from the file so far.
    pub(crate) bytes_read: u64,
    chunk_bytes: usize,
}

/// The content at a position.
#[derive(Debug)]
pub(crate) enum Scanned<'b> {
    /// A batch with correct length and CRC.
    Batch { header: BatchHeader, position: u64, bytes: &'b [u8] },
    /// The end of the range.
    End,
    /// No valid batch.
    Bad { position: u64, reason: String },
}

/// The result of [`BatchScanner::fill`], before the checksum is verified.
enum Filled {
    End,
    Bad(String),
    /// A batch of this many bytes.
    Batch(usize),
}

impl<'f, F: DiskFile> BatchScanner<'f, F> {
    /// Scans `position..end`. `end` is at most the length of the file.
    pub(crate) fn new(file: &'f F, position: u64, end: u64) -> Self {
        Self {
            file,
            position,
            end,
            buf: Vec::new(),
            buf_position: position,
            bytes_read: 0,
            chunk_bytes: CHUNK_BYTES,
        }
    }

    /// Limits reads to what each batch needs.
    pub(crate) fn read_exactly(&mut self) {
        self.chunk_bytes = HEADER_BYTES;
    }

    pub(crate) fn next(&mut self) -> io::Result<Scanned<'_>> {
        let filled = self.fill()?;
        Ok(self.judge(filled))
    }

    /// Like [`BatchScanner::next`], but a batch that the device cannot return counts as bad.
    pub(crate) fn next_or_unreadable(&mut self) -> io::Result<Scanned<'_>> {
        let filled = match self.fill() {
            Err(error) if is_unreadable(&error) => {
                // The bad part may be in the readahead.
                (self.buf, self.buf_position) = (Vec::new(), self.position);
                let chunk_bytes = std::mem::replace(&mut self.chunk_bytes, HEADER_BYTES);
                let again = self.fill();
                self.chunk_bytes = chunk_bytes;
                match again {
                    Err(error) if is_unreadable(&error) => {
                        (self.buf, self.buf_position) = (Vec::new(), self.position);
                        Filled::Bad(error.to_string())
                    }
                    again => again?,
                }
            }
            filled => filled?,
        };
        Ok(self.judge(filled))
    }

    /// Loads the whole next batch into the buffer, if there is one.
    fn fill(&mut self) -> io::Result<Filled> {
        let left = self.end.saturating_sub(self.position);
        if left == 0 {
            return Ok(Filled::End);
        }
        if left < HEADER_BYTES as u64 {
            return Ok(Filled::Bad(format!("{left} bytes are left, too few for a batch")));
        }
        self.ensure(HEADER_BYTES)?;
        let at = self.at();
        let raw = &self.buf[at + 8..at + LENGTH_END];
        let length = i32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]);
        let total = LENGTH_END as i64 + i64::from(length);
        if total < HEADER_BYTES as i64 || total.cast_unsigned() > left {
            let reason = format!("batch length {length} does not fit the {left} bytes that are left");
            return Ok(Filled::Bad(reason));
        }
        let total = total.cast_unsigned() as usize;
        self.ensure(total)?;
        Ok(Filled::Batch(total))
    }

    fn judge(&mut self, filled: Filled) -> Scanned<'_> {
        let position = self.position;
        let total = match filled {
            Filled::End => return Scanned::End,
            Filled::Bad(reason) => return Scanned::Bad { position, reason },
            Filled::Batch(total) => total,
        };
        let at = self.at();
        let bytes = &self.buf[at..at + total];
        match check(bytes) {
            Ok(header) => {
                self.position += total as u64;
                Scanned::Batch { header, position, bytes }
            }
            Err(error) => Scanned::Bad { position, reason: error.to_string() },
        }
    }

    /// Continues at `position`, which is after the current one.
    pub(crate) fn skip_to(&mut self, position: u64) {
        self.position = position;
        if position > self.buf_position + self.buf.len() as u64 {
            (self.buf, self.buf_position) = (Vec::new(), position);
        }
    }

    /// Position of the next batch.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    fn at(&self) -> usize {
        (self.position - self.buf_position) as usize
    }

    /// Loads `bytes` bytes from the current position into the buffer. The range has that many.
    fn ensure(&mut self, bytes: usize) -> io::Result<()> {
        let at = self.at();
        if self.buf.len() >= at + bytes {
            return Ok(());
        }
        self.buf.drain(..at);
        self.buf_position = self.position;
        let have = self.buf.len();
        let left = (self.end - self.position) as usize;
        let want = bytes.max(self.chunk_bytes).min(left);
        self.buf.resize(want, 0);
        let read = read_full_at(self.file, &mut self.buf[have..], self.position + have as u64)?;
        self.bytes_read += read as u64;
        if have + read < want {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        Ok(())
    }
}
