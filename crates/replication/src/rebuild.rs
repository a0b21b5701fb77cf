//! Rebuilds the table of producers at the log's end, from the newest snapshot and the batches behind it.

use std::sync::Arc;

use tailrace_log::{Disk, Log, LogError, LogReader, Recovery};
use tailrace_records::{BatchHeader, EndTransactionMarker, TimestampType, is_lost};
use tailrace_types::{Offset, TimestampMs};

use crate::policy::Policy;
use crate::producers::Producers;
use crate::unended::forget_unended;

/// The table of producers at the log's end.
pub(crate) struct RebuiltProducers {
    pub(crate) producers: Producers,
    /// The first offset of a damaged batch that the table is missing. Everything from there has to be read
    /// again once the batch is whole.
    pub(crate) partial_from: Option<Offset>,
}

/// Reads the headers of the batches behind the snapshot, and control batches in full, because their content
/// is not in the header. Transactions whose marker is at or above `committed` are not decided yet.
pub(crate) fn rebuild_producers<D: Disk>(
    log: &mut Log<D>,
    recovery: &mut Recovery,
    policy: Policy,
    committed: Offset,
    now: TimestampMs,
) -> Result<RebuiltProducers, LogError> {
    let reader = log.reader();
    let snapshot = recovery.snapshot.as_ref();
    // An unreadable snapshot is ignored, and the whole log is read instead. The same holds for a snapshot
    // that lists anything beyond its own offset.
    let known = snapshot.and_then(|(offset, sections)| {
        let producers = Producers::from_sections(sections)?.ok()?;
        producers.is_below(*offset).then_some((*offset, producers))
    });
    let (from, mut producers) = known.unwrap_or_default();
    producers.trim(log.log_start());
    forget_unended(log, &mut producers, &mut recovery.notes)?;
    let mut next = from;
    for row in reader.headers_kept(from) {
        let (_, header) = row?;
        if header.base_offset < from {
            continue;
        }
        if is_lost(&header) || reader.damaged_within(next, header.base_offset).is_some() {
            producers.pass_lost(header.base_offset);
        }
        next = header.next_offset();
        let appended = appended_at(&header, now);
        if !header.attributes.is_control() {
            producers.remember(&header, appended);
        } else if header.has_producer_id() {
            match read_marker(&reader, &header)? {
                Ok(Some(marker)) => producers.remember_marker(&header, marker, appended),
                Ok(None) if header.record_count == 0 => producers.remember_epoch(&header, appended),
                Ok(None) => {}
                Err(note) => {
                    producers.pass_lost(next);
                    recovery.notes.push(note);
                }
            }
        }
    }
    let end = log.log_end().offset();
    if reader.damaged_within(next, end).is_some() {
        producers.pass_lost(end);
    }
    // Damage below the log start is never mended.
    let above = from.max(log.log_start());
    let mut damaged = reader.damaged().into_iter().filter(|range| !range.is_lost && range.end_offset > above);
    let partial_from = damaged.next().map(|range| range.base_offset.max(from));
    producers.commit(committed);
    producers.trim(log.log_start());
    producers.expire(now, policy.producer_expiration_ms);
    Ok(RebuiltProducers { producers, partial_from })
}

/// Returns the marker of a control batch, or a message for the operator if it cannot be decoded.
fn read_marker<D: Disk>(
    reader: &Arc<LogReader<D>>,
    header: &BatchHeader,
) -> Result<Result<Option<EndTransactionMarker>, String>, LogError> {
    let at = header.base_offset;
    let note =
        |error: &dyn std::fmt::Display| format!("the control batch at offset {at} is skipped: {error}");
    // Also below the log start, where no other read succeeds.
    match reader.read_checked(at, header.next_offset(), 0) {
        Ok(bytes) if bytes.is_empty() => Ok(Ok(None)),
        Ok(bytes) => Ok(EndTransactionMarker::read(&bytes).map_err(|error| note(&error))),
        Err(error @ LogError::Damaged { .. }) => Ok(Err(note(&error))),
        Err(error) => Err(error),
    }
}

/// Returns when a batch was appended, if a leader has stamped it. A producer's own timestamp may be that of
/// an old event, so such a batch counts as appended now. Forgetting a producer late costs some memory.
/// Forgetting it early would store a repeated batch twice.
pub(crate) fn appended_at(header: &BatchHeader, now: TimestampMs) -> TimestampMs {
    let attributes = header.attributes;
    let is_stamped = attributes.is_control() || attributes.timestamp_type() == TimestampType::LogAppendTime;
    let stamped = header.max_timestamp.min(now);
    if is_stamped && stamped.0 >= 0 { stamped } else { now }
}

/// Records a batch that another replica has accepted.
#[cfg(feature = "raft")]
pub(crate) fn note_batch(producers: &mut Producers, header: &BatchHeader, bytes: &[u8], now: TimestampMs) {
    if !header.attributes.is_control() {
        producers.remember(header, now);
    } else if header.has_producer_id() {
        match EndTransactionMarker::read(bytes) {
            Ok(Some(marker)) => producers.remember_marker(header, marker, now),
            Ok(None) if header.record_count == 0 => producers.remember_epoch(header, now),
            Ok(None) | Err(_) => {}
        }
    }
}
