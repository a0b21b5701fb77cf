//! The state of transactions that compaction needs, read from the markers in the log itself.
//!
//! Records of aborted transactions are removed. A marker is kept as long as records of its transaction exist,
//! since readers need it, and then for `delete.retention.ms` like a tombstone (KIP-534). This is the rule of
//! Kafka's `CleanedTransactionMetadata`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tailrace_records::{BatchHeader, HEADER_BYTES, RawRecords, is_lost};
use tailrace_types::{Offset, ProducerId};

use super::pace::Pace;
use super::source::{Source, SourceBatch};
use crate::disk::Disk;
use crate::error::LogError;
use crate::reader::LogReader;
use crate::segment::Segment;

/// The content of a control batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Abort,
    Commit,
    /// Of another kind, or not decodable. Kept for ever.
    Other,
    /// Compaction has removed its record. Only the producer's epoch matters.
    Empty,
}

/// Reads the marker of a control batch, which is never compressed. The record's key is a version and a type,
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

/// The aborted transactions of a log, by producer: the offset of the previous marker and of the abort marker.
/// About 16 bytes each, for those whose markers still exist.
#[derive(Debug, Default)]
pub(crate) struct Aborted {
    by_producer: HashMap<ProducerId, Vec<(Offset, Offset)>>,
    /// The last lost batch. Any lost batch may have ended a transaction.
    last_lost: Option<Offset>,
    /// Offset ranges in which the outcome of a producer's transactions is unknown: from the previous marker
    /// to a lost batch.
    undecided: HashMap<ProducerId, Vec<(Offset, Offset)>>,
    /// The last marker of each producer. Filled only if batches are lost.
    last_marker: HashMap<ProducerId, Offset>,
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
                    if row.record_count == 0 && is_lost(&source.batch(&row, pace)?.header) {
                        aborted.last_lost = Some(row.base_offset);
                    }
                    continue;
                }
                let SourceBatch { header, bytes, .. } = source.batch(&row, pace)?;
                let marker = marker(&header, bytes);
                if matches!(marker, Marker::Other) {
                    continue;
                }
                let producer = header.producer_id;
                let before = last_marker.insert(producer, header.base_offset).unwrap_or(Offset(-1));
                let lost = aborted.last_lost.filter(|lost| *lost > before);
                if let Some(lost) = lost {
                    aborted.undecided.entry(producer).or_default().push((before, lost));
                }
                if marker == Marker::Abort {
                    let ranges = aborted.by_producer.entry(producer).or_default();
                    ranges.push((lost.unwrap_or(before), header.base_offset));
                }
            }
        }
        if aborted.last_lost.is_some() {
            aborted.last_marker = last_marker;
        }
        Ok(aborted)
    }

    /// Reports whether a data batch belongs to a transaction whose marker may be in a lost batch. Such a
    /// batch must neither be removed nor supersede an older record of its key.
    pub(crate) fn is_undecided(&self, batch: &BatchHeader) -> bool {
        let Some(last_lost) = self.last_lost.filter(|_| batch.attributes.is_transactional()) else {
            return false;
        };
        let last_marker = self.last_marker.get(&batch.producer_id).copied().unwrap_or(Offset(-1));
        if batch.base_offset > last_marker {
            return batch.base_offset < last_lost;
        }
        self.undecided.get(&batch.producer_id).is_some_and(|ranges| is_within(ranges, batch.base_offset))
    }

    /// Reports whether a data batch belongs to an aborted transaction.
    pub(crate) fn holds(&self, batch: &BatchHeader) -> bool {
        if !batch.attributes.is_transactional() {
            return false;
        }
        self.by_producer.get(&batch.producer_id).is_some_and(|ranges| is_within(ranges, batch.base_offset))
    }
}

/// True if `offset` is strictly between the two offsets of a pair. The pairs are ascending.
fn is_within(ranges: &[(Offset, Offset)], offset: Offset) -> bool {
    let at = ranges.partition_point(|range| range.1 < offset);
    ranges.get(at).is_some_and(|range| range.0 < offset)
}

/// Producers with an open transaction among the batches seen so far.
#[derive(Debug, Default)]
pub(crate) struct SeenData(HashSet<ProducerId>);

impl SeenData {
    /// Records a data batch that was in the log before this round.
    pub(crate) fn data(&mut self, batch: &BatchHeader) {
        if batch.attributes.is_transactional() {
            self.0.insert(batch.producer_id);
        }
    }

    /// Records a marker. Returns true if no records of its transaction were left in the log, so that it may
    /// be removed.
    pub(crate) fn ends(&mut self, batch: &BatchHeader, marker: Marker) -> bool {
        match marker {
            Marker::Abort | Marker::Commit => !self.0.remove(&batch.producer_id),
            Marker::Empty => true,
            Marker::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tailrace_records::{BatchBuilder, BatchOptions, EndTransactionMarker, write_empty};
    use tailrace_types::{ProducerEpoch, TimestampMs};

    use super::*;

    const PRODUCER: ProducerId = ProducerId(9);

    fn data(offset: i64, transactional: bool) -> BatchHeader {
        let options = BatchOptions {
            base_offset: Offset(offset),
            producer_id: PRODUCER,
            producer_epoch: ProducerEpoch(0),
            base_sequence: 0,
            transactional,
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        builder.push(TimestampMs(1), None, Some(b"value"), &[]).expect("a record");
        builder.build_with_header().0
    }

    fn control(kind: u8) -> (BatchHeader, Vec<u8>) {
        let options = BatchOptions { producer_id: PRODUCER, control: true, ..BatchOptions::default() };
        let mut builder = BatchBuilder::new(options);
        builder.push(TimestampMs(1), Some(&[0, 0, 0, kind]), Some(&[0; 6]), &[]).expect("a record");
        let (header, bytes) = builder.build_with_header();
        (header, bytes.to_vec())
    }

    #[test]
    fn markers_are_told_apart() {
        for (kind, expected) in [(0, Marker::Abort), (1, Marker::Commit), (2, Marker::Other)] {
            let (header, bytes) = control(kind);
            assert_eq!(marker(&header, &bytes), expected);
        }
        let (header, _) = control(0);
        let mut bytes = Vec::new();
        let emptied = write_empty(&header, &mut bytes);
        assert_eq!(marker(&emptied, &bytes), Marker::Empty);
        let read = EndTransactionMarker::read(&control(1).1).expect("a marker");
        assert!(read.is_some_and(|marker| marker.committed), "the markers above are Kafka's");
    }

    #[test]
    fn a_transaction_lies_between_two_markers_and_contains_neither() {
        let aborted = Aborted {
            by_producer: [(PRODUCER, vec![(Offset(10), Offset(20)), (Offset(30), Offset(40))])].into(),
            ..Aborted::default()
        };
        // No batch with data has the offset of a marker.
        let offsets = (0..50).filter(|at| ![10, 20, 30, 40].contains(at));
        let held: Vec<i64> = offsets.filter(|at| aborted.holds(&data(*at, true))).collect();
        assert_eq!(held, (11..20).chain(31..40).collect::<Vec<i64>>());
        assert!(!aborted.holds(&data(15, false)));
        assert!(!aborted.holds(&BatchHeader { producer_id: ProducerId(8), ..data(15, true) }));
    }

    #[test]
    fn what_a_lost_batch_may_have_ended_is_undecided() {
        let lost = Aborted {
            last_lost: Some(Offset(50)),
            undecided: [(PRODUCER, vec![(Offset(10), Offset(20))])].into(),
            last_marker: [(PRODUCER, Offset(30))].into(),
            ..Aborted::default()
        };
        let offsets = (0..60).filter(|at| ![10, 20, 30].contains(at));
        let undecided: Vec<i64> = offsets.filter(|at| lost.is_undecided(&data(*at, true))).collect();
        assert_eq!(undecided, (11..20).chain(31..50).collect::<Vec<i64>>());
        assert!(!lost.is_undecided(&data(15, false)));
        assert!(!Aborted::default().is_undecided(&data(15, true)));
        let unmarked = Aborted { last_lost: Some(Offset(50)), ..Aborted::default() };
        assert!(unmarked.is_undecided(&data(0, true)) && !unmarked.is_undecided(&data(50, true)));
    }

    #[test]
    fn a_marker_may_go_once_nothing_of_its_transaction_is_left() {
        let (header, _) = control(1);
        let mut seen = SeenData::default();
        assert!(seen.ends(&header, Marker::Commit));
        seen.data(&data(1, false));
        assert!(seen.ends(&header, Marker::Abort));
        seen.data(&data(2, true));
        assert!(!seen.ends(&header, Marker::Other));
        assert!(seen.ends(&header, Marker::Empty));
        assert!(!seen.ends(&header, Marker::Abort));
        assert!(seen.ends(&header, Marker::Abort), "the next transaction has no records");
    }
}
