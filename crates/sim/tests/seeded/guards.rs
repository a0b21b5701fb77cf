//! Guards of transactions that are being verified when another replica becomes the leader.

#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use bytes::Bytes;
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::{ProducerError, TransactionMarker, VerificationGuard};
use tailrace_types::{ProducerEpoch, ProducerId};

use crate::common::trio::{NOW, Trio};

const PRODUCER: ProducerId = ProducerId(7);
const EPOCH: ProducerEpoch = ProducerEpoch(0);

fn batch(base_sequence: i32) -> (BatchHeader, Bytes) {
    let options = BatchOptions {
        producer_id: PRODUCER,
        producer_epoch: EPOCH,
        base_sequence,
        transactional: true,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options);
    builder.push(NOW, None, Some(b"v"), &[]).unwrap();
    builder.build_with_header()
}

/// Returns the guard that is drawn before the coordinator is asked. The coordinator's answer may come much
/// later.
fn ask(trio: &mut Trio, leader: u64, sequence: i32) -> VerificationGuard {
    trio.at(leader).begin_verification(&batch(sequence).0, false, NOW)
}

fn append(trio: &mut Trio, leader: u64, sequence: i32, guard: VerificationGuard) -> Result<(), String> {
    let (header, bytes) = batch(sequence);
    let appended = trio.at(leader).append(&header, bytes, Some(guard), NOW);
    trio.talk(|_, _| false);
    appended.map(drop).map_err(|error| error.to_string())
}

fn end(trio: &mut Trio, leader: u64, committed: bool) {
    let marker = TransactionMarker {
        producer_id: PRODUCER,
        producer_epoch: EPOCH,
        coordinator_epoch: 0,
        committed,
        epochs_are_bumped: false,
    };
    trio.at(leader).append_marker(&marker, NOW).unwrap();
    trio.talk(|_, _| false);
}

/// Replica 1 asks about a batch, and another replica leads before the answer arrives. That leader starts a
/// transaction and ends it.
fn with_an_old_guard(sequence: i32, committed: bool) -> (Trio, VerificationGuard) {
    let mut trio = Trio::new();
    trio.lead(1);
    let old = ask(&mut trio, 1, sequence);
    trio.hand_over(2);
    let guard = ask(&mut trio, 2, 0);
    append(&mut trio, 2, 0, guard).unwrap();
    end(&mut trio, 2, committed);
    trio.hand_over(1);
    (trio, old)
}

#[test]
fn a_leader_that_comes_back_takes_the_next_transaction_of_a_producer_that_it_asked_about_before() {
    let (mut trio, _) = with_an_old_guard(0, true);
    let guard = ask(&mut trio, 1, 1);
    assert_eq!(append(&mut trio, 1, 1, guard), Ok(()));
}

#[test]
fn an_answer_that_comes_after_the_transaction_has_ended_elsewhere_is_worth_nothing() {
    let (mut trio, old) = with_an_old_guard(1, false);
    let refused = append(&mut trio, 1, 1, old);
    assert_eq!(refused, Err(ProducerError::Unverified { producer: PRODUCER }.to_string()));
    // A transaction that nobody ends would block readers from everything that follows.
    let reader = trio.at(1).reader();
    assert_eq!(reader.last_stable_offset(), reader.high_watermark().offset());
}
