//! Reads selected messages from the log of a partition on this node. Blocks on the disk.

use bytes::Bytes;
use tailrace_records::{BatchError, DecodedBatch, split_batches};
use tailrace_types::Offset;

use super::failure::StreamFailure;
use super::follow::is_hidden;
use super::translator::{MessageParts, Translator};
use super::types::StoredMessage;
use crate::caller::Caller;
use crate::partitions::{Isolation, PartitionHandle, ReadFailure, ReadTerms, Topic};

/// Bytes that are read at once if the next messages are close.
const CLOSE_BYTES: u64 = 256 * 1024;

/// Messages whose sequences are no further apart are close.
const CLOSE: u64 = 64;

/// What reading needs.
pub(super) struct Reading<'a> {
    pub(super) handle: &'a PartitionHandle,
    pub(super) topic: &'a Topic,
    pub(super) translator: &'a dyn Translator,
    pub(super) decompressed_bytes_max: usize,
}

impl Reading<'_> {
    /// Reads messages, whose sequences ascend. Those that are gone by now are left out.
    pub(super) fn messages(&self, sequences: &[u64]) -> Result<Vec<StoredMessage>, StreamFailure> {
        let (mut found, mut left) = (Vec::with_capacity(sequences.len()), sequences);
        while let [first, rest @ ..] = left {
            let is_close = rest.first().is_some_and(|next| next - first <= CLOSE);
            let upto = self.batches(*first, is_close, &mut left, &mut found)?;
            // Progress, even if nothing was there.
            left = &left[left.iter().take_while(|sequence| **sequence <= upto.max(*first)).count()..];
        }
        Ok(found)
    }

    /// Reads from `first` on. Takes those that it finds off `left`, and returns the last sequence that it has
    /// seen.
    fn batches(
        &self,
        first: u64,
        is_close: bool,
        left: &mut &[u64],
        found: &mut Vec<StoredMessage>,
    ) -> Result<u64, StreamFailure> {
        let from = Offset(i64::try_from(first - 1).unwrap_or(i64::MAX));
        let bytes_max = if is_close { CLOSE_BYTES } else { 1 };
        let terms = ReadTerms::new(from, Isolation::TxnCommitted, bytes_max);
        let outcome = match self.handle.read(Caller::internal(), &terms) {
            Ok(outcome) => outcome,
            // Deleted since it was selected.
            Err(ReadFailure::OutOfRange) => return Ok(first),
            Err(failure) => return Err(StreamFailure::Unreadable(failure.to_string())),
        };
        let Some(slice) = outcome.slice else { return Ok(first) };
        let bytes = slice.read().map_err(|error| StreamFailure::Unreadable(error.to_string()))?;
        let mut seen = first;
        for batch in split_batches(&bytes) {
            let (header, batch) = batch.map_err(unreadable)?;
            let last = header.last_offset().get().unsigned_abs() + 1;
            let wants = left.first().is_some_and(|sequence| *sequence <= last);
            if wants && !is_hidden(&header, &outcome.aborted) {
                self.batch(batch, left, found)?;
            }
            seen = seen.max(last);
        }
        Ok(seen)
    }

    fn batch(
        &self,
        batch: &[u8],
        left: &mut &[u64],
        found: &mut Vec<StoredMessage>,
    ) -> Result<(), StreamFailure> {
        let decoded = DecodedBatch::new(batch, self.decompressed_bytes_max).map_err(unreadable)?;
        let mut parts = MessageParts::default();
        for record in decoded.records() {
            let record = record.map_err(unreadable)?;
            let sequence = record.offset.get().unsigned_abs() + 1;
            while left.first().is_some_and(|wanted| *wanted < sequence) {
                *left = &left[1..];
            }
            match left.first() {
                None => return Ok(()),
                Some(wanted) if *wanted != sequence => continue,
                Some(_) => *left = &left[1..],
            }
            if self.translator.message(self.topic, &record, &mut parts) {
                found.push(StoredMessage {
                    sequence,
                    time_ms: record.timestamp.0,
                    subject: Bytes::copy_from_slice(&parts.subject),
                    headers: Bytes::copy_from_slice(&parts.headers),
                    payload: Bytes::copy_from_slice(record.value.unwrap_or_default()),
                });
            }
        }
        Ok(())
    }
}

fn unreadable(error: BatchError) -> StreamFailure {
    StreamFailure::Unreadable(error.to_string())
}
