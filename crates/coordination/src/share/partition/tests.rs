use std::sync::Arc;

use tailrace_types::{Offset, TimestampMs};

use super::*;
use crate::share::state::{DeliveryState, StateBatch};

const TERMS: GroupTerms = GroupTerms {
    record_locks_max: 100,
    delivery_count_limit: 5,
    lock_duration_ms: 1000,
    renewal_allowed: true,
};

fn batches(lengths: &[i64]) -> Vec<FetchedBatch> {
    let mut next = 0;
    let batch = |&length| {
        let first = next;
        next += length;
        FetchedBatch { first: Offset(first), last: Offset(next - 1), visible: true }
    };
    lengths.iter().map(batch).collect()
}

fn acquire_terms(member: &str, records_max: u64, batch_size: u64, mode: AcquireMode) -> AcquireTerms {
    AcquireTerms { member: Arc::from(member), records_max, batch_size, mode }
}

/// Reads at the partition's next offset, and acquires. Returns the first offset, last offset and delivery
/// count of each batch.
fn acquire(
    partition: &mut SharePartition,
    terms: &AcquireTerms,
    log: &[FetchedBatch],
    now: i64,
) -> Vec<(i64, i64, i16)> {
    let Some(from) = partition.next_fetch(&TERMS) else { return Vec::new() };
    let rest: Vec<_> = log.iter().copied().filter(|batch| batch.last >= from).collect();
    let fetched = Fetched { from, batches: &rest };
    let acquired = partition.acquire(terms, &TERMS, fetched, TimestampMs(now));
    acquired.iter().map(|batch| (batch.first.0, batch.last.0, batch.delivery_count)).collect()
}

fn acknowledge(
    partition: &mut SharePartition,
    member: &str,
    first: i64,
    kinds: &[AcknowledgeKind],
    now: i64,
) -> Result<bool, AcknowledgeError> {
    let last = Offset(first + kinds.len() as i64 - 1);
    let batch = Acknowledgement { first: Offset(first), last, kinds: kinds.to_vec() };
    partition.acknowledge(member, &[batch], &TERMS, TimestampMs(now))
}

use AcknowledgeKind::{Accept, Gap, Reject, Release, Renew};

#[test]
fn the_two_modes_of_acquiring_are_those_of_kip_1206() {
    // The KIP's example: batches of five records, at most six records, batches of two.
    let log = batches(&[5, 5, 5]);
    let mut whole = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 6, 2, AcquireMode::BatchOptimized);
    assert_eq!(acquire(&mut whole, &terms, &log, 0), [(0, 4, 1), (5, 9, 1)]);
    let mut strict = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 6, 2, AcquireMode::RecordLimit);
    assert_eq!(acquire(&mut strict, &terms, &log, 0), [(0, 5, 1)]);
    assert_eq!(acquire(&mut strict, &terms, &log, 0), [(6, 11, 1)]);
}

#[test]
fn acquired_batches_are_joined_until_they_are_large_enough() {
    let log = batches(&[1, 1, 1, 1, 1]);
    let mut partition = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 100, 2, AcquireMode::BatchOptimized);
    assert_eq!(acquire(&mut partition, &terms, &log, 0), [(0, 1, 1), (2, 3, 1), (4, 4, 1)]);
}

#[test]
fn each_acknowledgement_does_what_it_says() {
    let log = batches(&[6]);
    let mut partition = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 10, 1, AcquireMode::BatchOptimized);
    assert_eq!(acquire(&mut partition, &terms, &log, 0), [(0, 5, 1)]);
    let kinds = [Accept, Accept, Release, Reject, Gap, Renew];
    assert_eq!(acknowledge(&mut partition, "m", 0, &kinds, 500), Ok(true));
    assert_eq!((partition.start(), partition.end()), (Offset(2), Offset(6)));
    assert_eq!((partition.in_flight(), partition.delivery_complete_count()), (2, 2));
    assert_eq!(acquire(&mut partition, &terms, &log, 600), [(2, 2, 2)], "only what was released");
    // The renewed lock expires at 1500. The others would have expired at 1000.
    assert_eq!(acknowledge(&mut partition, "m", 5, &[Accept], 1499), Ok(false));
    assert_eq!(acknowledge(&mut partition, "m", 2, &[Accept], 1499), Ok(false));
    assert_eq!(partition.start(), Offset(6));
}

#[test]
fn nothing_counts_of_an_acknowledgement_with_a_fault() {
    let log = batches(&[4]);
    let mut partition = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 10, 1, AcquireMode::BatchOptimized);
    acquire(&mut partition, &terms, &log, 0);
    let refused = acknowledge(&mut partition, "other", 0, &[Accept], 1);
    assert_eq!(refused, Err(AcknowledgeError::NotAcquired { offset: Offset(0) }));
    let beyond = acknowledge(&mut partition, "m", 0, &[Accept; 5], 1);
    assert_eq!(beyond, Err(AcknowledgeError::Beyond { offset: Offset(4) }));
    let first = Acknowledgement { first: Offset(0), last: Offset(1), kinds: vec![Accept] };
    let overlapping = Acknowledgement { first: Offset(1), last: Offset(2), kinds: vec![Accept] };
    let refused = partition.acknowledge("m", &[first.clone(), overlapping], &TERMS, TimestampMs(1));
    assert!(matches!(refused, Err(AcknowledgeError::Malformed { .. })), "{refused:?}");
    for (last, kinds) in [(2, vec![]), (2, vec![Accept, Accept]), (-1, vec![Accept])] {
        let batch = Acknowledgement { first: Offset(0), last: Offset(last), kinds };
        let refused = partition.acknowledge("m", &[batch], &TERMS, TimestampMs(1));
        assert!(matches!(refused, Err(AcknowledgeError::Malformed { .. })), "{refused:?}");
    }
    for (first, last) in [(i64::MIN, i64::MAX), (-1, 2), (0, i64::MAX)] {
        let batch = Acknowledgement { first: Offset(first), last: Offset(last), kinds: vec![Accept, Accept] };
        let refused = partition.acknowledge("m", &[batch], &TERMS, TimestampMs(1));
        assert!(matches!(refused, Err(AcknowledgeError::Malformed { .. })), "{refused:?}");
    }
    let strict = GroupTerms { renewal_allowed: false, ..TERMS };
    let renewal = Acknowledgement { kinds: vec![Renew], ..first.clone() };
    let refused = partition.acknowledge("m", &[renewal], &strict, TimestampMs(1));
    assert_eq!(refused, Err(AcknowledgeError::RenewalForbidden));
    assert_eq!((partition.start(), partition.in_flight()), (Offset(0), 4));
    assert_eq!(partition.acknowledge("m", std::slice::from_ref(&first), &TERMS, TimestampMs(1)), Ok(false));
    // Everything before the start offset is final. A late duplicate is not an error.
    assert_eq!(partition.acknowledge("m", &[first], &TERMS, TimestampMs(1)), Ok(false));
}

#[test]
fn locks_end_and_deliveries_are_counted_until_the_limit() {
    let log = batches(&[8]);
    let mut partition = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 10, 1, AcquireMode::BatchOptimized);
    assert_eq!(acquire(&mut partition, &terms, &log, 0), [(0, 7, 1)]);
    assert_eq!(partition.deadline(), Some(TimestampMs(1000)));
    assert!(!partition.tick(TimestampMs(999), &TERMS));
    assert!(partition.tick(TimestampMs(1000), &TERMS));
    assert_eq!(partition.deadline(), None);
    assert_eq!(acquire(&mut partition, &terms, &log, 1000), [(0, 7, 2)]);
    assert!(partition.release_member("m", &TERMS));
    assert_eq!(acquire(&mut partition, &terms, &log, 1000), [(0, 7, 3)]);
    assert!(!partition.release_member("other", &TERMS));
    assert!(partition.release_member("m", &TERMS));
    // From the third delivery on (half of five) fewer records come at once. Before the last delivery each
    // comes alone.
    assert_eq!(acquire(&mut partition, &terms, &log, 1000), [(0, 3, 4)]);
    assert!(partition.release_member("m", &TERMS));
    assert_eq!(acquire(&mut partition, &terms, &log, 1000), [(0, 0, 5)]);
    assert!(partition.release_member("m", &TERMS));
    assert_eq!(partition.start(), Offset(1), "archived: it was delivered five times");
    assert_eq!(acquire(&mut partition, &terms, &log, 1000), [(1, 1, 5)]);
}

/// No tick has happened since the lock expired.
#[test]
fn a_lock_that_has_ended_is_no_acquisition_also_if_no_tick_came_in_between() {
    let log = batches(&[2]);
    let terms = acquire_terms("m", 10, 1, AcquireMode::BatchOptimized);
    for kind in [Accept, Release, Reject, Renew, Gap] {
        let mut partition = SharePartition::new(Offset(0));
        assert_eq!(acquire(&mut partition, &terms, &log, 0), [(0, 1, 1)]);
        assert_eq!(acknowledge(&mut partition, "m", 0, &[Accept], 999), Ok(false));
        let late = acknowledge(&mut partition, "m", 1, &[kind], 1000);
        assert_eq!(late, Err(AcknowledgeError::NotAcquired { offset: Offset(1) }), "{kind:?}");
        let other = acquire_terms("other", 10, 1, AcquireMode::BatchOptimized);
        assert_eq!(acquire(&mut partition, &other, &log, 1000), [(1, 1, 2)], "{kind:?}");
    }
}

#[test]
fn what_is_not_visible_or_not_there_is_passed_over() {
    let batch = |first, last, visible| FetchedBatch { first: Offset(first), last: Offset(last), visible };
    // Offsets 3 to 5 were removed by compaction, 6 is a marker, 7 and 8 are aborted.
    let log =
        [batch(0, 2, true), batch(6, 6, false), batch(7, 8, false), batch(9, 9, true), batch(10, 10, false)];
    let mut partition = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 100, 100, AcquireMode::BatchOptimized);
    assert_eq!(acquire(&mut partition, &terms, &log, 0), [(0, 2, 1), (9, 9, 1)]);
    assert_eq!((partition.end(), partition.in_flight()), (Offset(11), 4));
    acknowledge(&mut partition, "m", 0, &[Accept; 3], 1).expect("they are acquired");
    assert_eq!(partition.start(), Offset(9));
    acknowledge(&mut partition, "m", 9, &[Accept], 1).expect("it is acquired");
    assert_eq!((partition.start(), partition.next_fetch(&TERMS)), (Offset(11), Some(Offset(11))));
}

#[test]
fn no_more_is_in_flight_than_the_group_may_have() {
    let terms = acquire_terms("m", 1000, 1, AcquireMode::RecordLimit);
    let log = batches(&[60, 60, 60]);
    let mut strict = SharePartition::new(Offset(0));
    acquire(&mut strict, &terms, &log, 0);
    assert_eq!((strict.in_flight(), strict.next_fetch(&TERMS)), (100, None));
    let mut whole = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 1000, 1, AcquireMode::BatchOptimized);
    acquire(&mut whole, &terms, &log, 0);
    assert_eq!((whole.in_flight(), whole.next_fetch(&TERMS)), (120, None), "to the end of the batch");
    acknowledge(&mut whole, "m", 50, &[Accept; 20], 1).expect("they are acquired");
    assert_eq!(whole.next_fetch(&TERMS), None, "a hundred are still in flight");
    acknowledge(&mut whole, "m", 70, &[Accept], 1).expect("it is acquired");
    assert_eq!(whole.next_fetch(&TERMS), Some(Offset(120)));
}

#[test]
fn memory_is_bounded_whatever_is_acknowledged() {
    let log: Vec<_> = (0..10_000)
        .map(|number| FetchedBatch { first: Offset(number), last: Offset(number), visible: true })
        .collect();
    let mut partition = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 50, 1, AcquireMode::RecordLimit);
    // The first record stays acquired. Of the others every second one is accepted, the rest rejected.
    while !acquire(&mut partition, &terms, &log, 0).is_empty() {
        for offset in partition.start().0 + 1..partition.end().0 {
            let kind = if offset % 2 == 0 { Accept } else { Reject };
            let _ = acknowledge(&mut partition, "m", offset, &[kind], 1);
        }
    }
    assert!(partition.runs.len() <= 300, "{} runs", partition.runs.len());
    acknowledge(&mut partition, "m", 0, &[Accept], 1).expect("it is acquired");
    assert_eq!(partition.start(), partition.end());
    assert!(partition.next_fetch(&TERMS).is_some());
}

#[test]
fn records_that_were_deleted_are_forgotten() {
    let log = batches(&[10, 10]);
    let mut partition = SharePartition::new(Offset(0));
    let terms = acquire_terms("m", 100, 1, AcquireMode::BatchOptimized);
    acquire(&mut partition, &terms, &log, 0);
    assert!(partition.log_start_moved(Offset(15)));
    assert!(!partition.log_start_moved(Offset(15)));
    assert_eq!((partition.start(), partition.in_flight()), (Offset(15), 5));
    acknowledge(&mut partition, "m", 0, &[Accept; 20], 1).expect("the rest is acquired");
    assert_eq!(partition.start(), Offset(20));
    assert!(partition.log_start_moved(Offset(100)));
    assert_eq!((partition.start(), partition.end()), (Offset(100), Offset(100)));
}

#[test]
fn what_is_kept_is_what_changed() {
    let log = batches(&[10]);
    let mut partition = SharePartition::new(Offset(0));
    let write = partition.take_unsaved().expect("the start offset");
    assert_eq!((write.start, write.batches), (Offset(0), vec![]));
    assert_eq!(partition.take_unsaved(), None);
    let terms = acquire_terms("m", 100, 1, AcquireMode::BatchOptimized);
    acquire(&mut partition, &terms, &log, 0);
    assert_eq!(partition.take_unsaved(), None, "who holds records is not kept");
    acknowledge(&mut partition, "m", 4, &[Accept, Release, Release], 1).expect("they are acquired");
    // Released records are acquired again before the release is stored.
    acquire(&mut partition, &terms, &log, 1);
    let write = partition.take_unsaved().expect("a change");
    let batch = |first, last, state, delivery_count| StateBatch {
        first: Offset(first),
        last: Offset(last),
        state,
        delivery_count,
    };
    assert_eq!(
        write.batches,
        [batch(4, 4, DeliveryState::Acknowledged, 1), batch(5, 6, DeliveryState::Available, 1)]
    );
    assert_eq!((write.start, write.delivery_complete_count), (Offset(0), 1));
    let restored = SharePartition::restore(write.start, &write.batches);
    assert_eq!((restored.start(), restored.end()), (Offset(0), Offset(7)));
    assert_eq!(restored.in_flight(), 6);
    assert!(!restored.has_unsaved());
}

#[test]
fn a_limit_that_was_lowered_holds_for_what_was_delivered_before() {
    let batch =
        StateBatch { first: Offset(0), last: Offset(0), state: DeliveryState::Available, delivery_count: 7 };
    let mut partition = SharePartition::restore(Offset(0), &[batch]);
    let terms = acquire_terms("m", 100, 1, AcquireMode::BatchOptimized);
    assert_eq!(acquire(&mut partition, &terms, &batches(&[1]), 0), []);
    assert_eq!(partition.start(), Offset(1));
}

#[test]
#[should_panic(expected = "a share-partition that begins at 7 and is fresh from 5 on")]
fn a_share_partition_does_not_begin_behind_what_is_fresh() {
    let mut partition = SharePartition::new(Offset(5));
    partition.start = 7;
    partition.release_member("m", &TERMS);
}

#[test]
#[should_panic(expected = "records from 7 on were read, but those from 5 on are fresh")]
fn records_are_acquired_in_their_order() {
    let terms = acquire_terms("m", 10, 10, AcquireMode::RecordLimit);
    let fetched = Fetched { from: Offset(7), batches: &[] };
    SharePartition::new(Offset(5)).acquire(&terms, &TERMS, fetched, TimestampMs(0));
}

/// Stored state may come from another node, so it is not an invariant.
#[test]
fn batches_that_cannot_be_are_passed_over() {
    let batch = |first, last, delivery_count| StateBatch {
        first: Offset(first),
        last: Offset(last),
        state: DeliveryState::Available,
        delivery_count,
    };
    let kept = [batch(0, 2, -7), batch(9, 3, 1), batch(5, i64::MAX, 1)];
    let mut partition = SharePartition::restore(Offset(0), &kept);
    assert_eq!((partition.start(), partition.end()), (Offset(0), Offset(3)));
    let terms = acquire_terms("m", 10, 10, AcquireMode::RecordLimit);
    assert_eq!(acquire(&mut partition, &terms, &batches(&[3]), 0), [(0, 2, 1)]);
}
