//! Idempotent producers: duplicates, gaps, fences, wrap-around, expiry, snapshots. The rules are KIP-98's.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what went wrong")]

use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::{
    BATCHES_REMEMBERED, PRODUCERS_MAX, ProducerError, Producers, SequenceCheck, SnapshotError,
};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

const NOW: TimestampMs = TimestampMs(1_000_000);

fn batch(id: i64, epoch: i16, sequence: i32, records: i32) -> BatchHeader {
    let options = BatchOptions {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options);
    for _ in 0..records {
        builder.push(NOW, None, Some(b"v"), &[]).unwrap();
    }
    BatchHeader::parse(&builder.build()).unwrap()
}

/// Appends to the table like a partition: checks, stamps, remembers.
fn append(table: &mut Producers, end: &mut i64, batch: BatchHeader) -> Result<SequenceCheck, ProducerError> {
    let verdict = table.check(&batch)?;
    if verdict == SequenceCheck::Append {
        let stamped = BatchHeader { base_offset: Offset(*end), ..batch };
        *end = stamped.next_offset().get();
        table.remember(&stamped, NOW);
    }
    Ok(verdict)
}

fn original(verdict: Result<SequenceCheck, ProducerError>) -> i64 {
    match verdict {
        Ok(SequenceCheck::Duplicate(original)) => original.base_offset.get(),
        other => panic!("expected a duplicate, found {other:?}"),
    }
}

#[test]
fn the_last_five_batches_are_recognised_and_answered_with_their_offsets() {
    let (mut table, mut end) = (Producers::default(), 0);
    for n in 0..6 {
        assert_eq!(append(&mut table, &mut end, batch(7, 0, n * 10, 10)), Ok(SequenceCheck::Append));
    }
    for n in 1..6 {
        assert_eq!(original(append(&mut table, &mut end, batch(7, 0, n * 10, 10))), i64::from(n) * 10);
    }
    assert_eq!(table.iter().next().unwrap().1.batches.len(), BATCHES_REMEMBERED);
    let forgotten = append(&mut table, &mut end, batch(7, 0, 0, 10));
    assert!(
        matches!(forgotten, Err(ProducerError::OutOfOrder { expected: 60, found: 0, .. })),
        "{forgotten:?}"
    );
}

#[test]
fn a_gap_and_an_overlap_are_refused_and_change_nothing() {
    let (mut table, mut end) = (Producers::default(), 0);
    append(&mut table, &mut end, batch(7, 0, 0, 10)).unwrap();
    let before = table.clone();
    for sequence in [5, 11, 20] {
        let refused = append(&mut table, &mut end, batch(7, 0, sequence, 3));
        assert!(matches!(refused, Err(ProducerError::OutOfOrder { expected: 10, .. })), "{refused:?}");
    }
    assert_eq!(table, before);
}

#[test]
fn an_unknown_producer_may_begin_anywhere() {
    let (mut table, mut end) = (Producers::default(), 0);
    assert_eq!(append(&mut table, &mut end, batch(7, 0, 41, 1)), Ok(SequenceCheck::Append));
    assert_eq!(append(&mut table, &mut end, batch(7, 0, 42, 1)), Ok(SequenceCheck::Append));
}

#[test]
fn a_raised_epoch_begins_at_zero_and_fences_the_old_one() {
    let (mut table, mut end) = (Producers::default(), 0);
    append(&mut table, &mut end, batch(7, 3, 0, 1)).unwrap();
    assert!(matches!(
        append(&mut table, &mut end, batch(7, 4, 1, 1)),
        Err(ProducerError::OutOfOrder { expected: 0, .. })
    ));
    append(&mut table, &mut end, batch(7, 4, 0, 1)).unwrap();
    assert!(matches!(append(&mut table, &mut end, batch(7, 3, 1, 1)), Err(ProducerError::StaleEpoch { .. })));
}

#[test]
fn sequences_wrap_to_zero() {
    let (mut table, mut end) = (Producers::default(), 0);
    append(&mut table, &mut end, batch(7, 0, i32::MAX - 1, 2)).unwrap();
    assert_eq!(append(&mut table, &mut end, batch(7, 0, 0, 1)), Ok(SequenceCheck::Append));

    let (mut table, mut end) = (Producers::default(), 0);
    append(&mut table, &mut end, batch(8, 0, i32::MAX - 1, 4)).unwrap();
    assert_eq!(append(&mut table, &mut end, batch(8, 0, 2, 1)), Ok(SequenceCheck::Append));
}

#[test]
fn batches_without_a_producer_id_are_not_remembered() {
    let (mut table, mut end) = (Producers::default(), 0);
    append(&mut table, &mut end, batch(-1, -1, -1, 1)).unwrap();
    append(&mut table, &mut end, batch(-1, -1, -1, 1)).unwrap();
    assert!(table.is_empty());
    assert_eq!(end, 2);
}

#[test]
fn silent_producers_are_forgotten() {
    let (mut table, mut end) = (Producers::default(), 0);
    append(&mut table, &mut end, batch(7, 0, 0, 1)).unwrap();
    table.expire(TimestampMs(NOW.0 + 99), 100);
    assert_eq!(table.len(), 1);
    table.expire(TimestampMs(NOW.0 + 100), 100);
    assert!(table.is_empty());
}

#[test]
fn the_table_is_bounded_and_drops_the_most_silent() {
    let mut table = Producers::default();
    let most_silent = 3;
    for id in 0..=i64::try_from(PRODUCERS_MAX).unwrap() {
        let last_append = if id == most_silent { NOW.0 - 1 } else { NOW.0 + id };
        table.remember(&batch(id, 0, 0, 1), TimestampMs(last_append));
    }
    assert_eq!(table.len(), PRODUCERS_MAX);
    assert!(table.get(ProducerId(most_silent)).is_none());
}

#[test]
fn a_snapshot_brings_the_table_back_and_damage_is_noticed() {
    let (mut table, mut end) = (Producers::default(), 0);
    for n in 0..7 {
        append(&mut table, &mut end, batch(7, 0, n, 1)).unwrap();
        append(&mut table, &mut end, batch(8, 2, n * 3, 3)).unwrap();
    }
    let bytes = table.snapshot();
    assert_eq!(Producers::from_snapshot(&bytes), Ok(table));
    for cut in 0..bytes.len() {
        assert_eq!(Producers::from_snapshot(&bytes[..cut]), Err(SnapshotError::Truncated), "cut at {cut}");
    }
    let mut newer = bytes.to_vec();
    newer[1] = 9;
    assert_eq!(Producers::from_snapshot(&newer), Err(SnapshotError::Version { found: 9 }));
}
