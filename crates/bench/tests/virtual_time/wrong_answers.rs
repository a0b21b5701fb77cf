//! A system's errors are counted and reported, never ignored.

use std::sync::Arc;

use tailrace_bench::engine::{Load, LoadOptions, Outcome};
use tailrace_bench::error::BenchError;
use tailrace_bench::requester::{Expects, PayloadBack, Requester};
use tailrace_bench::schedule::{Rate, Schedule};

use crate::simulated::{Behaviour, MS, Simulated, VirtualClock, agree, one_stall, run, seconds};

fn options() -> LoadOptions {
    let schedule = Schedule::constant(Rate::per_second(1000).unwrap()).unwrap();
    let mut options = LoadOptions::new(Load::Open(schedule));
    (options.warm_up_ns, options.duration_ns) = (0, seconds(10));
    options.timeout_ns = seconds(1);
    options.drain_ns = seconds(5);
    options
}

fn outcome(behaviour: Behaviour) -> Outcome {
    run(&options(), &behaviour, 1)
}

#[test]
fn losses_time_out() {
    let outcome = outcome(Behaviour { lose_every: 100, ..Behaviour::default() });
    let counts = outcome.total.counts;
    assert_eq!((counts.due, counts.received, counts.lost), (10_000, 9900, 100));
    assert_eq!(outcome.total.receipt.timeout.count(), 100);
    assert!(agree(outcome.total.receipt.timeout.at_quantile_ns(0.5), seconds(1), MS));
    assert_eq!(outcome.total.receipt.success.max_ns(), MS);
}

#[test]
fn duplicates_are_counted_and_timed_once() {
    let outcome = outcome(Behaviour { repeat_every: 10, ..Behaviour::default() });
    assert_eq!(outcome.total.counts.duplicates, 1000);
    assert_eq!(outcome.total.counts.received, 10_000);
    assert_eq!(outcome.total.receipt.count(), 10_000);
}

#[test]
fn reorderings_are_counted() {
    let outcome = outcome(Behaviour { delay_every: (50, 5 * MS), ..Behaviour::default() });
    // The very last one has no successor that could overtake it.
    assert_eq!(outcome.total.counts.reordered, 199);
    assert_eq!(outcome.total.counts.received, 10_000);
}

#[test]
fn damaged_payloads_are_no_answers() {
    let outcome = outcome(Behaviour { damage_every: 1000, ..Behaviour::default() });
    assert_eq!((outcome.total.counts.corrupt, outcome.total.counts.lost), (10, 10));
    assert_eq!(outcome.total.receipt.timeout.count(), 10);
}

#[test]
fn refusals_are_errors_with_a_reason() {
    let expects = Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) };
    let outcome = outcome(Behaviour { refuse_every: 4, expects, ..Behaviour::default() });
    assert_eq!(outcome.total.acknowledgement.error.count(), 2500);
    assert_eq!(outcome.total.acknowledgement.success.count(), 7500);
    assert_eq!(outcome.refusals, ["refused on purpose"]);
}

#[test]
fn an_answer_after_the_timeout_stays_a_timeout() {
    let outcome = outcome(Behaviour { delay_every: (100, 2 * seconds(1)), ..Behaviour::default() });
    assert_eq!(outcome.total.receipt.timeout.count(), 100);
    assert_eq!(outcome.total.receipt.success.count(), 9900);
    // The run ends when the last one times out; it does not wait for messages that have.
    let counts = outcome.total.counts;
    assert_eq!(counts.received + counts.lost, 10_000);
    assert!((1..=11).contains(&counts.lost), "{counts:?}");
}

#[test]
fn a_connection_that_stays_broken_fails_what_is_due() {
    let options = LoadOptions { reconnect: None, ..options() };
    let broken = one_stall(seconds(9), seconds(10));
    let outcome = run(&options, &Behaviour { broken, ..Behaviour::default() }, 1);
    assert_eq!(outcome.failures, ["simulated closed the connection"]);
    let counts = outcome.total.counts;
    assert_eq!((counts.due, counts.sent, counts.unsent, counts.broken_connections), (10_000, 9000, 1000, 1));
    // The message sent just before was still in flight.
    assert_eq!(outcome.total.receipt.count(), 10_000);
    assert!((1000..=1001).contains(&outcome.total.receipt.error.count()));
}

#[test]
fn a_number_of_messages_is_kept_exactly() {
    for connections in [1, 3, 7] {
        let mut options = options();
        options.messages_max = 1000;
        assert_eq!(run(&options, &Behaviour::default(), connections).total.counts.sent, 1000);
    }
}

#[test]
fn messages_that_end_within_the_warm_up_measure_nothing() {
    for (load, connections) in [(options().load, 3), (Load::FullThrottle, 2)] {
        let mut options = LoadOptions { load, messages_max: 50, ..options() };
        (options.warm_up_ns, options.duration_ns) = (seconds(1), seconds(1));
        let verdict = run(&options, &Behaviour::default(), connections).verdict;
        // That is not a failure, but nothing can be trusted.
        assert!(verdict.invalid.is_empty() && !verdict.is_valid(), "{verdict:?}");
        let reason = "the 50 messages were sent within the warm-up";
        assert_eq!(verdict.nothing_measured.as_deref(), Some(reason));
    }
    // One more is measured.
    let options = LoadOptions { messages_max: 1001, warm_up_ns: seconds(1), ..options() };
    let outcome = run(&options, &Behaviour::default(), 1);
    assert_eq!((outcome.total.counts.due, outcome.verdict.nothing_measured), (1, None));
}

#[test]
fn what_never_ends_is_given_up() {
    let mut options = options();
    (options.timeout_ns, options.in_flight_max) = (seconds(1000), 100);
    let forever = Behaviour { stalls: one_stall(seconds(5), seconds(5000)), ..Behaviour::default() };
    let outcome = run(&options, &forever, 1);
    let counts = outcome.total.counts;
    assert_eq!((counts.due, counts.sent, counts.unsent), (10_000, 5100, 4900));
    assert_eq!(outcome.total.receipt.timeout.count(), 5000);
    assert!(agree(outcome.total.receipt.timeout.max_ns(), seconds(10), 2 * MS));
    assert!(outcome.verdict.is_valid(), "{:?}", outcome.verdict);
}

#[test]
fn options_out_of_range_are_named() {
    let mut wrong = options();
    wrong.payload_bytes = 16;
    let text = wrong.check(1).unwrap_err().to_string();
    assert_eq!(text, "size is 16: expected 24 to 67108864 bytes");
    let mut wrong = options();
    wrong.in_flight_max = 1 << 30;
    assert!(matches!(wrong.check(100), Err(BenchError::Option { option: "in-flight", .. })));
    assert!(options().check(0).is_err() && options().check(70_000).is_err());
}

/// As in mosquitto with a message that its permissions forbid.
#[test]
fn an_acknowledged_message_that_is_not_delivered_is_told_from_silence() {
    let silent = one_stall(0, seconds(100));
    let lost = Behaviour { lose_every: 1, ..Behaviour::default() };
    let expects = Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) };
    for (behaviour, expected) in [
        (
            Behaviour { expects, ..lost.clone() },
            "the system did not answer within 3000 ms while delivering a message that it had acknowledged, before the run",
        ),
        (lost, "the system did not answer within 3000 ms while one message was tried before the run"),
        (
            Behaviour { expects, stalls: silent, ..Behaviour::default() },
            "the system did not answer within 3000 ms while one message was tried before the run",
        ),
    ] {
        let clock = Arc::new(VirtualClock::default());
        let mut requester = Simulated::new(&clock, &behaviour);
        let error = requester.request(1, &[7; 24], &*clock, seconds(3)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
