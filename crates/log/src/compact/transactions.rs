//! What compaction has to know of transactions, from the markers in the log itself.
//!
//! Records of aborted transactions are removed. A marker is kept as long as records of its transaction are there, since
//! readers need it, and then for `delete.retention.ms`, as a tombstone is (KIP-534): as Kafka's `CleanedTransactionMetadata`
//! has it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tailrace_records::{BatchHeader, HEADER_BYTES, RawRecords};
use tailrace_types::{Offset, ProducerId};

use super::Pace;
use super::source::Source;
use crate::disk::Disk;
use crate::error::LogError;
use crate::reader::LogReader;
use crate::segment::Segment;

/// What a control batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Abort,
    Commit,
    /// Of another kind, or not understood: kept for ever.
    Other,
    /// Compaction has taken its record: only the producer's epoch counts.
    Empty,
}

/// Reads the marker of a control batch. Control batches are never compressed. The record's key is a version and a type,
/// two `i16`.
pub(crate) fn marker(header: &BatchHeader, bytes: &[u8]) -> Marker {
    if header.record_count == 0 {
        return Marker::Empty;
    }
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let first = RawRecords::new(header.record_count, body).next();
    match first.and_then(Result::ok).and_then(|record| record.key) {
        Some([_, _, 0, 0, ..]) => Marker::Abort,
        Some([_, _, 0, 1, ..]) => Marker::Commit,
        _ => Marker::Other,
    }
}

/// The aborted transactions of a log, by producer: offsets of the marker before, and of the abort marker. About 16 bytes
/// each, for those whose markers are still there.
#[derive(Debug, Default)]
pub(crate) struct Aborted {
    by_producer: HashMap<ProducerId, Vec<(Offset, Offset)>>,
}

impl Aborted {
    /// Reads the markers in `segments` below `upto`, where all are decided.
    pub(crate) fn scan<D: Disk>(
        reader: &LogReader<D>,
        segments: &[Arc<Segment<D>>],
        upto: Offset,
        pace: &mut impl Pace,
    ) -> Result<Self, LogError> {
        let mut aborted = Self::default();
        let mut last_marker: HashMap<ProducerId, Offset> = HashMap::new();
        for segment in segments.iter().take_while(|s| s.base_offset < upto) {
            let mut source = Source::open(reader, segment, HEADER_BYTES)?;
            while let Some(row) = source.next_row()? {
                if row.base_offset >= upto {
                    break;
                }
                if !row.attributes.is_control() {
                    continue;
                }
                let (header, bytes) = source.batch(&row, pace)?;
                let marker = marker(&header, bytes);
                if matches!(marker, Marker::Other) {
                    continue;
                }
                let before = last_marker.insert(header.producer_id, header.base_offset);
                if marker == Marker::Abort {
                    let ranges = aborted.by_producer.entry(header.producer_id).or_default();
                    ranges.push((before.unwrap_or(Offset(-1)), header.base_offset));
                }
            }
        }
        Ok(aborted)
    }

    /// True if a data batch belongs to an aborted transaction.
    pub(crate) fn holds(&self, batch: &BatchHeader) -> bool {
        if !batch.attributes.is_transactional() {
            return false;
        }
        let Some(ranges) = self.by_producer.get(&batch.producer_id) else { return false };
        let at = ranges.partition_point(|range| range.1 < batch.base_offset);
        ranges.get(at).is_some_and(|range| range.0 < batch.base_offset)
    }
}

/// Producers with a batch of an open transaction among the batches seen so far.
#[derive(Debug, Default)]
pub(crate) struct SeenData(HashSet<ProducerId>);

impl SeenData {
    /// Takes note of a data batch that was in the log before this cleaning.
    pub(crate) fn data(&mut self, batch: &BatchHeader) {
        if batch.attributes.is_transactional() {
            self.0.insert(batch.producer_id);
        }
    }

    /// Takes note of a marker. True if nothing of its transaction was in the log any more, so that it may go.
    pub(crate) fn ends(&mut self, batch: &BatchHeader, marker: Marker) -> bool {
        match marker {
            Marker::Abort | Marker::Commit => !self.0.remove(&batch.producer_id),
            Marker::Empty => true,
            Marker::Other => false,
        }
    }
}
