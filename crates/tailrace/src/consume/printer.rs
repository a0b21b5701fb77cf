//! Decodes fetched records and writes them to standard output, on a thread of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use tailrace_cli::failure::{Failure, complain};
use tailrace_records::{BatchError, BatchHeader, DecodedBatch, split_batches};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::aborted::AbortedFilter;
use super::fetcher::{Chunk, Damage, damaged};
use super::format::{Format, RecordOrigin};
use super::json;
use super::range::Range;

/// Bytes that are buffered for one write.
const BUFFER_BYTES: usize = 256 << 10;
/// Most bytes that the records of one batch may expand to.
pub(crate) const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// The output style of records.
#[derive(Debug)]
pub(super) enum Style {
    Format(Format),
    Json,
}

/// Rules for which records to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrintRules {
    /// Most records to write.
    pub(super) count: Option<u64>,
    pub(super) read_committed: bool,
    /// Damaged batches are reported and skipped.
    pub(super) skips_damaged: bool,
}

/// How far the printer got.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) records: u64,
    /// Bytes written to standard output.
    pub(super) bytes: u64,
    /// By partition, the first offset that was not processed.
    pub(super) next: BTreeMap<i32, i64>,
    /// Damaged batches that were skipped.
    pub(super) skipped: u64,
}

/// Writes records; see the module.
pub(super) struct Printer {
    topic: String,
    style: Style,
    /// Records still to write.
    left: u64,
    rules: PrintRules,
    printed: Printed,
    buffer: Vec<u8>,
    /// A `File`, because the standard library's `Stdout` searches for line ends to flush at, which costs time
    /// per byte and gains nothing here.
    out: File,
}

impl Printer {
    pub(super) fn new(topic: String, style: Style, rules: PrintRules) -> io::Result<Self> {
        Ok(Self {
            topic,
            style,
            left: rules.count.unwrap_or(u64::MAX),
            rules,
            printed: Printed::default(),
            buffer: Vec::with_capacity(BUFFER_BYTES + (4 << 10)),
            out: io::stdout().as_fd().try_clone_to_owned()?.into(),
        })
    }

    /// Writes until the fetches end or the count is reached. Flushes as soon as no more fetches are queued.
    ///
    /// # Errors
    /// Standard output fails, or a batch is damaged. The records before it are written.
    pub(super) fn run(mut self, chunks: mpsc::Receiver<Chunk>) -> Result<Printed, Failure> {
        let printed = self.print_all(chunks);
        self.flush()?;
        printed.map(|()| self.printed)
    }

    fn print_all(&mut self, mut chunks: mpsc::Receiver<Chunk>) -> Result<(), Failure> {
        while self.left > 0 {
            let chunk = match chunks.try_recv() {
                Ok(chunk) => chunk,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    self.flush()?;
                    match chunks.blocking_recv() {
                        Some(chunk) => chunk,
                        None => break,
                    }
                }
            };
            self.print(chunk)?;
        }
        Ok(())
    }

    fn print(&mut self, chunk: Chunk) -> Result<(), Failure> {
        let mut filter = AbortedFilter::new(chunk.aborted);
        let (range, partition) = (chunk.range, chunk.partition);
        for batch in split_batches(&chunk.batches) {
            let (header, bytes) =
                batch.map_err(|error| damaged(&self.topic, partition, range.from, &error))?;
            let shown = filter.shows(&header);
            if !header.attributes.is_control() && (shown || !self.rules.read_committed) {
                match self.print_batch(partition, range, bytes) {
                    Ok(()) => {}
                    Err(Stopped::By(failure)) => return Err(failure),
                    Err(Stopped::Damage(error)) => self.skip(partition, &header, &error)?,
                }
            }
            if self.left == 0 {
                return Ok(());
            }
            self.printed.next.insert(partition, header.next_offset().0);
        }
        match chunk.damage {
            Some(Damage { what, offsets: Some((from, end)) }) => {
                self.leave_out(&what, from, end - 1)?;
                self.printed.next.insert(partition, end);
                Ok(())
            }
            Some(Damage { what, offsets: None }) => Err(what.into()),
            None => Ok(()),
        }
    }

    /// Writes a batch. Writes none of it before its checksum has been verified.
    fn print_batch(&mut self, partition: i32, range: Range, bytes: &[u8]) -> Result<(), Stopped> {
        let batch = DecodedBatch::new(bytes, DECOMPRESSED_BYTES_MAX)?;
        for record in batch.records() {
            let record = record?;
            let offset = record.offset.0;
            if offset < range.from || range.until.is_some_and(|until| offset >= until) {
                continue;
            }
            let place = RecordOrigin { topic: &self.topic, partition };
            match &self.style {
                Style::Format(format) => format.write(place, &record, &mut self.buffer),
                Style::Json => {
                    json::write_record(place, &record, &mut self.buffer);
                    self.buffer.push(b'\n');
                }
            }
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
            }
            self.printed.records += 1;
            self.left -= 1;
            if self.left == 0 {
                self.printed.next.insert(partition, offset + 1);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reports a damaged batch, and skips it or fails.
    fn skip(&mut self, partition: i32, header: &BatchHeader, error: &BatchError) -> Result<(), Failure> {
        let text = damaged(&self.topic, partition, header.base_offset.0, error);
        self.leave_out(&text, header.base_offset.0, header.last_offset().0)
    }

    fn leave_out(&mut self, what: &str, first: i64, last: i64) -> Result<(), Failure> {
        if !self.rules.skips_damaged {
            return Err(format!("{what}; --skip-damaged continues after offset {last}").into());
        }
        self.flush()?;
        self.printed.skipped += 1;
        complain(&format!("{what}; left out: offsets {first} to {last}"));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.out.write_all(&self.buffer)?;
        self.printed.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Why a batch was not written to its end.
enum Stopped {
    Damage(BatchError),
    By(Failure),
}

impl From<BatchError> for Stopped {
    fn from(error: BatchError) -> Self {
        Self::Damage(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::By(failure)
    }
}
