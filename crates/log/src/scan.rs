//! Reads the batches of a `.log` one after the other and checks each. For recovery, rebuilding and inspection; never on
//! the produce or fetch path.

use std::io;

use tailrace_records::{BatchHeader, HEADER_BYTES, check};

use crate::damage::is_unreadable;
use crate::disk::{DiskFile, read_full_at};

/// Bytes read at once. Grows to the size of a batch that is larger.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes that tell how long a batch is.
const LENGTH_END: usize = 12;

/// Walks over a range of a `.log`.
pub(crate) struct BatchScanner<'f, F> {
    file: &'f F,
    /// Of the next batch.
    position: u64,
    end: u64,
    /// File bytes from `buf_position` on.
    buf: Vec<u8>,
    buf_position: u64,
    /// Bytes read from the file so far.
    pub(crate) bytes_read: u64,
    chunk_bytes: usize,
}

/// What lies at a position.
#[derive(Debug)]
pub(crate) enum Scanned<'b> {
    /// A batch whose length and CRC are right.
    Batch { header: BatchHeader, position: u64, bytes: &'b [u8] },
    /// The end of the range.
    End,
    /// No batch.
    Bad { position: u64, reason: String },
}

/// What [`BatchScanner::fill`] has found, before its checksum was looked at.
enum Filled {
    End,
    Bad(String),
    /// So many bytes.
    Batch(usize),
}

impl<'f, F: DiskFile> BatchScanner<'f, F> {
    /// Scans `position..end`; `end` is at most the length of the file.
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

    /// Reads no more than each batch needs.
    pub(crate) fn read_exactly(&mut self) {
        self.chunk_bytes = HEADER_BYTES;
    }

    pub(crate) fn next(&mut self) -> io::Result<Scanned<'_>> {
        let filled = self.fill()?;
        Ok(self.judge(filled))
    }

    /// The same; a batch that the device cannot give back is a bad one.
    pub(crate) fn next_or_unreadable(&mut self) -> io::Result<Scanned<'_>> {
        let filled = match self.fill() {
            Err(error) if is_unreadable(&error) => {
                // What was read ahead may be the bad part.
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

    /// Has the whole of the next batch in the buffer, if there is one.
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

    /// Goes on at `position`, which lies behind the present one.
    pub(crate) fn skip_to(&mut self, position: u64) {
        self.position = position;
        if position > self.buf_position + self.buf.len() as u64 {
            (self.buf, self.buf_position) = (Vec::new(), position);
        }
    }

    /// Where the next batch begins.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    fn at(&self) -> usize {
        (self.position - self.buf_position) as usize
    }

    /// Makes sure that `bytes` bytes from `position` on are in the buffer; the range has that many.
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
