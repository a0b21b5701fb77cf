//! Transactions in the table of producers: opening, ending, fencing, memory limits, snapshots. The rules are
//! those of KIP-98, KIP-890 and KIP-1228.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what went wrong")]

use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions, EndTransactionMarker, TimestampType};
use tailrace_replication::{
    ABORTED_TRANSACTIONS_MAX, PRODUCERS_MAX, ProducerError, Producers, SequenceCheck, SnapshotError,
    TransactionMarker,
};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

const NOW: TimestampMs = TimestampMs(1_000_000);

/// A table and the end of its log.
#[derive(Default)]
struct Partition {
    table: Producers,
    end: i64,
}

/// A batch of one record. A sequence of -1 marks a coordinator's batch.
fn batch(id: i64, epoch: i16, sequence: i32, transactional: bool) -> BatchHeader {
    let options = BatchOptions {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        transactional,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options);
    builder.push(NOW, None, Some(b"v"), &[]).unwrap();
    builder.build_with_header().0
}

impl Partition {
    fn append(&mut self, batch: BatchHeader) -> Result<SequenceCheck, ProducerError> {
        let verdict = self.table.check(&batch)?;
        self.table.remember(&BatchHeader { base_offset: Offset(self.end), ..batch }, NOW);
        self.end += 1;
        Ok(verdict)
    }

    fn end(&mut self, marker: TransactionMarker) -> Result<(), ProducerError> {
        self.table.check_marker(&marker)?;
        let (committed, coordinator_epoch) = (marker.committed, marker.coordinator_epoch);
        let written = EndTransactionMarker { committed, coordinator_epoch };
        let (header, _) =
            written.build(marker.producer_id, marker.producer_epoch, NOW, TimestampType::CreateTime);
        self.table.remember_marker(&BatchHeader { base_offset: Offset(self.end), ..header }, written, NOW);
        self.end += 1;
        Ok(())
    }

    fn undecided(&self) -> Option<i64> {
        self.table.first_undecided().map(Offset::get)
    }
}

/// Number of transactions without a marker.
fn open(table: &Producers) -> usize {
    table.iter().filter(|(_, state)| state.current_transaction.is_some()).count()
}

fn marker(id: i64, epoch: i16, committed: bool) -> TransactionMarker {
    TransactionMarker {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        coordinator_epoch: 0,
        committed,
        epochs_are_bumped: false,
    }
}

#[test]
fn a_transaction_is_undecided_until_its_marker_is_committed() {
    let mut p = Partition::default();
    p.append(batch(1, 0, 0, true)).unwrap();
    p.append(batch(2, 0, 0, true)).unwrap();
    p.append(batch(1, 0, 1, true)).unwrap();
    assert!(p.table.has_transaction(ProducerId(1), ProducerEpoch(0)));
    assert!(!p.table.has_transaction(ProducerId(1), ProducerEpoch(1)));
    p.end(marker(1, 0, true)).unwrap();
    assert_eq!((p.undecided(), open(&p.table)), (Some(0), 1));
    // The marker is at offset 3.
    p.table.commit(Offset(3));
    assert_eq!(p.undecided(), Some(0));
    p.table.commit(Offset(4));
    assert_eq!(p.undecided(), Some(1));
    p.end(marker(2, 0, false)).unwrap();
    p.table.commit(Offset(5));
    assert_eq!(p.undecided(), None);
    let aborted: Vec<_> = p.table.aborted().iter().collect();
    assert_eq!((aborted[0].first_offset, aborted[0].last_offset), (Offset(1), Offset(4)));
    assert_eq!((aborted.len(), aborted[0].last_stable_offset), (1, Offset(5)));
}

#[test]
fn nothing_may_be_written_outside_of_an_open_transaction() {
    let mut p = Partition::default();
    p.append(batch(1, 0, 0, true)).unwrap();
    let refused = p.append(batch(1, 0, 1, false));
    assert_eq!(refused, Err(ProducerError::NotTransactional { producer: ProducerId(1), since: Offset(0) }));
    p.end(marker(1, 0, true)).unwrap();
    assert_eq!(p.append(batch(1, 0, 1, false)), Ok(SequenceCheck::Append));
}

/// With transaction version 2 the marker raises the epoch. A batch in flight at that time belongs to no later
/// transaction.
#[test]
fn a_marker_with_a_raised_epoch_fences_what_is_late() {
    let mut p = Partition::default();
    p.append(batch(1, 4, 0, true)).unwrap();
    p.end(marker(1, 5, true)).unwrap();
    assert!(matches!(p.append(batch(1, 4, 1, true)), Err(ProducerError::StaleEpoch { .. })));
    // The next transaction starts at sequence 0.
    assert!(matches!(
        p.append(batch(1, 5, 1, true)),
        Err(ProducerError::OutOfOrder { expected: 0, found: 1, .. })
    ));
    p.append(batch(1, 5, 0, true)).unwrap();
}

#[test]
fn a_late_marker_does_not_end_a_later_transaction() {
    let bumped = |epoch| TransactionMarker { epochs_are_bumped: true, ..marker(1, epoch, false) };
    let mut p = Partition::default();
    p.append(batch(1, 4, 0, true)).unwrap();
    assert!(matches!(p.end(bumped(4)), Err(ProducerError::StaleEpoch { .. })));
    p.end(bumped(5)).unwrap();
    // A retry of the marker by a coordinator that got no answer: no transaction is open.
    p.end(bumped(5)).unwrap();
    p.append(batch(1, 5, 0, true)).unwrap();
    assert!(matches!(p.end(bumped(5)), Err(ProducerError::StaleEpoch { .. })));
    assert!(matches!(p.end(bumped(4)), Err(ProducerError::StaleEpoch { .. })));
    assert_eq!(open(&p.table), 1);
    // Before version 2 a marker has the epoch of its transaction.
    p.end(marker(1, 5, true)).unwrap();
    assert_eq!((open(&p.table), p.table.aborted().len()), (0, 1));
}

#[test]
fn an_old_coordinator_is_fenced_off() {
    let by = |coordinator_epoch| TransactionMarker { coordinator_epoch, ..marker(1, 0, true) };
    let mut p = Partition::default();
    p.append(batch(1, 0, 0, true)).unwrap();
    p.end(by(7)).unwrap();
    p.append(batch(1, 0, 1, true)).unwrap();
    assert_eq!(
        p.end(by(6)),
        Err(ProducerError::CoordinatorFenced { producer: ProducerId(1), current: 7, found: 6 })
    );
    assert_eq!(open(&p.table), 1);
    p.end(by(7)).unwrap();
}

#[test]
fn markers_without_a_transaction_count_for_their_epochs_only() {
    let mut p = Partition::default();
    p.end(marker(1, 3, false)).unwrap();
    assert!(p.table.aborted().is_empty());
    assert!(matches!(p.append(batch(1, 2, 0, true)), Err(ProducerError::StaleEpoch { .. })));
    assert!(matches!(p.append(batch(1, 3, 5, true)), Err(ProducerError::OutOfOrder { expected: 0, .. })));
    p.append(batch(1, 3, 0, true)).unwrap();
}

#[test]
fn coordinators_write_without_sequences() {
    let mut p = Partition::default();
    for _ in 0..3 {
        assert_eq!(p.append(batch(1, 2, -1, true)), Ok(SequenceCheck::Append));
    }
    assert_eq!(p.undecided(), Some(0));
    assert!(matches!(p.append(batch(1, 1, -1, true)), Err(ProducerError::StaleEpoch { .. })));
    // The position of the last batch is remembered, because compaction keeps its header.
    let state = p.table.get(ProducerId(1)).unwrap();
    assert_eq!((state.last_sequence(), state.batches.back().unwrap().last_offset), (-1, Offset(2)));
}

#[test]
fn an_open_transaction_never_expires() {
    let mut p = Partition::default();
    p.append(batch(1, 0, 0, true)).unwrap();
    p.append(batch(2, 0, 0, false)).unwrap();
    p.table.expire(TimestampMs(i64::MAX), 1);
    assert_eq!(p.table.iter().map(|(id, _)| id.get()).collect::<Vec<_>>(), [1]);
    p.end(marker(1, 0, true)).unwrap();
    p.table.expire(TimestampMs(i64::MAX), 1);
    assert!(p.table.is_empty());
}

/// Compaction keeps headers of batches whose records are gone. The marker may be gone as well.
#[test]
fn an_emptied_batch_opens_no_transaction() {
    let mut p = Partition::default();
    p.table.remember(&BatchHeader { record_count: 0, ..batch(1, 0, 0, true) }, NOW);
    assert_eq!((p.undecided(), p.table.get(ProducerId(1)).unwrap().last_sequence()), (None, 0));
}

#[test]
fn the_table_is_bounded_though_open_transactions_stay() {
    let mut p = Partition::default();
    let most = i64::try_from(PRODUCERS_MAX).unwrap();
    for id in 0..most {
        p.append(batch(id, 0, 0, true)).unwrap();
    }
    let one_more = p.append(batch(most, 0, 0, true));
    assert_eq!(one_more, Err(ProducerError::TooManyTransactions { open: PRODUCERS_MAX, aborted: 0 }));
    // There is no room for the marker's producer, which does no harm.
    p.end(marker(most, 0, true)).unwrap();
    assert_eq!(p.table.len(), PRODUCERS_MAX);
    p.end(marker(77, 0, true)).unwrap();
    p.append(batch(most, 0, 0, true)).unwrap();
    assert!(p.table.get(ProducerId(77)).is_none(), "the only one without a transaction made room");
}

/// A table with `count` aborted transactions, each of one record and a marker, and no producer.
fn with_aborted(count: usize) -> Producers {
    let mut bytes = vec![0, 2, 0, 0, 0, 0];
    bytes.extend(u32::try_from(count).unwrap().to_be_bytes());
    for first in (0..).step_by(2).take(count) {
        [1_i64, first, first + 1, first + 2].iter().for_each(|field| bytes.extend(field.to_be_bytes()));
    }
    Producers::from_snapshot(&bytes).unwrap()
}

#[test]
fn aborted_transactions_are_bounded_and_go_with_the_log_start() {
    let table = with_aborted(ABORTED_TRANSACTIONS_MAX - 1);
    let mut p = Partition { table, end: 2 * i64::try_from(ABORTED_TRANSACTIONS_MAX).unwrap() };
    p.append(batch(1, 0, 0, true)).unwrap();
    // An open transaction counts, because it may be aborted later.
    let full = ProducerError::TooManyTransactions { open: 1, aborted: ABORTED_TRANSACTIONS_MAX - 1 };
    assert_eq!(p.append(batch(2, 0, 0, true)), Err(full));
    p.append(batch(1, 0, 1, true)).unwrap();
    p.end(marker(1, 0, false)).unwrap();
    let full = ProducerError::TooManyTransactions { open: 0, aborted: ABORTED_TRANSACTIONS_MAX };
    assert_eq!(p.append(batch(2, 0, 0, true)), Err(full));
    assert_eq!(p.append(batch(2, 0, 0, false)), Ok(SequenceCheck::Append), "others go on");
    assert!(p.table.snapshot().len() <= tailrace_log::SNAPSHOT_BYTES_MAX);
    assert_eq!(Producers::from_snapshot(&p.table.snapshot()).unwrap().aborted(), p.table.aborted());
    // The marker at offset 1 is kept, then removed.
    assert!(!p.table.trim(Offset(1)));
    assert!(p.table.trim(Offset(2)));
    p.append(batch(1, 0, 2, true)).unwrap();
}

#[test]
fn a_snapshot_brings_transactions_back_and_damage_is_noticed() {
    let mut p = Partition::default();
    for id in 1..4 {
        p.append(batch(id, 0, 0, true)).unwrap();
    }
    p.end(marker(2, 1, false)).unwrap();
    p.append(batch(9, 0, -1, true)).unwrap();
    p.end(marker(3, 0, true)).unwrap();
    p.table.commit(Offset(p.end));
    let bytes = p.table.snapshot();
    let read = Producers::from_snapshot(&bytes).unwrap();
    assert_eq!(read, p.table);
    assert_eq!((read.first_undecided(), open(&read)), (Some(Offset(0)), 2));
    for cut in 0..bytes.len() {
        assert_eq!(Producers::from_snapshot(&bytes[..cut]), Err(SnapshotError::Truncated), "cut at {cut}");
    }
    let twice =
        [&bytes[..bytes.len() - 36], &[0, 0, 0, 2], &bytes[bytes.len() - 32..], &bytes[bytes.len() - 32..]];
    assert_eq!(Producers::from_snapshot(&twice.concat()), Err(SnapshotError::Disorder));
}

/// One producer with one batch, as releases before transactions wrote it.
#[test]
fn a_snapshot_of_version_1_is_read() {
    let mut bytes = vec![0, 1, 0, 0, 0, 1];
    bytes.extend(77_i64.to_be_bytes());
    bytes.extend(3_i16.to_be_bytes());
    bytes.extend(NOW.0.to_be_bytes());
    bytes.push(1);
    bytes.extend(10_i32.to_be_bytes());
    bytes.extend(19_i32.to_be_bytes());
    for field in [100_i64, 109, 5000] {
        bytes.extend(field.to_be_bytes());
    }
    let table = Producers::from_snapshot(&bytes).unwrap();
    let state = table.get(ProducerId(77)).unwrap();
    assert_eq!((state.epoch, state.last_append, state.last_sequence()), (ProducerEpoch(3), NOW, 19));
    assert_eq!((state.current_transaction, state.coordinator_epoch), (None, -1));
    assert_eq!(state.batches[0].last_offset, Offset(109));
    assert!(table.aborted().is_empty());
}
