//! Decodes what was fetched and writes it to standard output, on a thread of its own.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use tailrace_records::{BatchHeader, DecodedBatch, split_batches};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::aborted::AbortedFilter;
use super::fetcher::Chunk;
use super::format::{Format, Place};
use super::json;
use crate::failure::Failure;

/// Bytes that are collected for one write.
const BUFFER_BYTES: usize = 256 << 10;
/// Most bytes that the records of one batch may expand to.
pub(crate) const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// What a record looks like.
#[derive(Debug)]
pub(super) enum Style {
    Format(Format),
    Json,
}

/// See the module.
pub(super) struct Printer {
    topic: String,
    style: Style,
    /// Records still to write.
    left: u64,
    read_committed: bool,
    buffer: Vec<u8>,
    /// Standard output of the library searches for line ends, to flush there: a cost per byte, and for nothing here.
    out: File,
}

impl Printer {
    pub(super) fn new(
        topic: String,
        style: Style,
        count: Option<u64>,
        read_committed: bool,
    ) -> io::Result<Self> {
        Ok(Self {
            topic,
            style,
            left: count.unwrap_or(u64::MAX),
            read_committed,
            buffer: Vec::with_capacity(BUFFER_BYTES + (4 << 10)),
            out: io::stdout().as_fd().try_clone_to_owned()?.into(),
        })
    }

    /// Writes until the fetches end or enough is written. What is buffered goes out as soon as nothing more is at hand.
    pub(super) fn run(mut self, mut chunks: mpsc::Receiver<Chunk>) -> Result<(), Failure> {
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
        self.flush()
    }

    fn print(&mut self, chunk: Chunk) -> Result<(), Failure> {
        let mut filter = AbortedFilter::new(chunk.aborted);
        let range = chunk.range;
        for batch in split_batches(&chunk.batches) {
            let at = |header: Option<&BatchHeader>, error| {
                let offset = header.map_or(range.from, |header| header.base_offset.0);
                Failure::from(format!("{}-{} at offset {offset}: {error}", self.topic, chunk.partition))
            };
            let (header, bytes) = batch.map_err(|error| at(None, error))?;
            let shown = filter.shows(&header);
            if header.attributes.is_control() || (self.read_committed && !shown) {
                continue;
            }
            let batch =
                DecodedBatch::new(bytes, DECOMPRESSED_BYTES_MAX).map_err(|error| at(Some(&header), error))?;
            for record in batch.records() {
                let record = record.map_err(|error| at(Some(&header), error))?;
                let offset = record.offset.0;
                if offset < range.from || range.until.is_some_and(|until| offset >= until) {
                    continue;
                }
                let place = Place { topic: &self.topic, partition: chunk.partition };
                match &self.style {
                    Style::Format(format) => format.write(place, &record, &mut self.buffer),
                    Style::Json => {
                        json::write_record(place, &record, &mut self.buffer);
                        self.buffer.push(b'\n');
                    }
                }
                if self.buffer.len() >= BUFFER_BYTES {
                    write_out(&mut self.out, &mut self.buffer)?;
                }
                self.left -= 1;
                if self.left == 0 {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        write_out(&mut self.out, &mut self.buffer)
    }
}

fn write_out(out: &mut File, buffer: &mut Vec<u8>) -> Result<(), Failure> {
    out.write_all(buffer)?;
    buffer.clear();
    Ok(())
}
