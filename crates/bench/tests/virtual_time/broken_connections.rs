//! Connections that break and recover: an outage shows up with its full length, nothing is counted twice, and
//! no lane waits for another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tailrace_bench::clock::{Clock, MonotonicClock};
use tailrace_bench::engine::{self, Interval, Load, LoadOptions, Outcome, Reconnect};
use tailrace_bench::error::RequesterError;
use tailrace_bench::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};
use tailrace_bench::schedule::{Rate, Schedule};

use crate::simulated::{Behaviour, MS, agree, one_stall, run, seconds};

/// 1,000 messages per second for 10 s.
fn options() -> LoadOptions {
    let schedule = Schedule::constant(Rate::per_second(1000).unwrap()).unwrap();
    let mut options = LoadOptions::new(Load::Open(schedule));
    (options.warm_up_ns, options.duration_ns) = (0, seconds(10));
    options
}

/// The system is down from second 3 to 5.
fn outage() -> Behaviour {
    Behaviour { broken: one_stall(seconds(3), seconds(5)), ..Behaviour::default() }
}

/// When the connection was up again: after the outage, by at most the longest wait.
fn back_at_ns(outcome: &Outcome) -> u64 {
    let [found] = outcome.breaks.as_slice() else { panic!("{:?}", outcome.breaks) };
    assert_eq!((found.at_ns, found.cause.as_str()), (seconds(3), "simulated closed the connection"));
    let back_at_ns = found.back_at_ns.unwrap();
    assert!((seconds(5)..=seconds(7)).contains(&back_at_ns), "{back_at_ns}");
    back_at_ns
}

#[test]
fn an_outage_is_felt_as_long_as_it_was() {
    let outcome = run(&options(), &outage(), 1);
    let back_at_ns = back_at_ns(&outcome);
    let counts = outcome.total.counts;
    assert_eq!((counts.due, counts.sent, counts.unsent), (10_000, 10_000, 0));
    assert_eq!((counts.broken_connections, counts.reconnected), (1, 1));
    // The message in flight at the break never got its reply. It is an error, and not also a loss.
    assert_eq!((counts.received, counts.cut_off, counts.lost, counts.redelivered), (9_999, 1, 0, 0));
    assert_eq!((outcome.total.receipt.success.count(), outcome.total.receipt.error.count()), (9_999, 1));
    // Every message due meanwhile waited until the connection was back.
    let mut expected = tailrace_bench::recorder::Distribution::default();
    for due in (0..10_000).map(|n| n * MS).filter(|due| *due != seconds(3) - MS) {
        let waited = if (seconds(3)..back_at_ns).contains(&due) { back_at_ns - due } else { 0 };
        expected.record(waited + MS);
    }
    let found = &outcome.total.receipt.success;
    assert_eq!((found.histogram(), found.max_ns()), (expected.histogram(), back_at_ns - seconds(3) + MS));
    assert_eq!(outcome.total.lateness.max_ns(), 0);
    assert_eq!(outcome.total.held.max_ns(), back_at_ns - seconds(3));
    assert!(outcome.verdict.is_valid() && outcome.failures.is_empty(), "{outcome:?}");
}

#[test]
fn what_waits_too_long_is_an_error() {
    let options = LoadOptions { timeout_ns: seconds(1), ..options() };
    let outcome = run(&options, &outage(), 1);
    let back_at_ns = back_at_ns(&outcome);
    let counts = outcome.total.counts;
    // Messages due in the last second before it came back were sent.
    let given_up = (back_at_ns - seconds(1) - seconds(3)).div_ceil(MS);
    assert!(counts.unsent.abs_diff(given_up) <= 1, "{counts:?} {given_up}");
    assert_eq!((counts.due, counts.sent), (10_000, 10_000 - counts.unsent));
    let errors = &outcome.total.receipt.error;
    assert_eq!((errors.count(), outcome.total.receipt.timeout.count()), (counts.unsent + 1, 0));
    assert!(agree(errors.max_ns(), seconds(1), MS), "{}", errors.max_ns());
    assert!(agree(errors.at_quantile_ns(0.5), seconds(1), MS), "{}", errors.at_quantile_ns(0.5));
    assert!(agree(outcome.total.receipt.success.max_ns(), seconds(1) + MS, MS));
}

#[test]
fn what_a_durable_system_delivers_afterwards_is_no_error() {
    let expects = Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) };
    let behaviour = Behaviour { expects, service_ns: 50 * MS, keeps_messages: true, ..outage() };
    let outcome = run(&options(), &behaviour, 1);
    let back_at_ns = back_at_ns(&outcome);
    let counts = outcome.total.counts;
    assert_eq!((counts.received, counts.redelivered, counts.cut_off, counts.lost), (10_000, 50, 0, 0));
    assert_eq!((counts.duplicates, counts.unknown), (0, 0));
    // Their acknowledgements are lost; their latency is recorded.
    let (receipt, acknowledgement) = (&outcome.total.receipt, &outcome.total.acknowledgement);
    assert_eq!((receipt.success.count(), receipt.error.count() + receipt.timeout.count()), (10_000, 0));
    assert_eq!((acknowledgement.success.count(), acknowledgement.error.count()), (9_950, 50));
    assert!(agree(receipt.success.max_ns(), back_at_ns - seconds(3) + 50 * MS, 0));
}

#[test]
fn what_nobody_delivers_is_an_error_once() {
    let expects = Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) };
    let behaviour = Behaviour { expects, service_ns: 50 * MS, ..outage() };
    let options = LoadOptions { timeout_ns: seconds(4), in_flight_max: 60, ..options() };
    let outcome = run(&options, &behaviour, 1);
    back_at_ns(&outcome);
    let counts = outcome.total.counts;
    assert_eq!((counts.received, counts.redelivered, counts.cut_off, counts.lost), (9_950, 0, 50, 0));
    let (receipt, acknowledgement) = (&outcome.total.receipt, &outcome.total.acknowledgement);
    assert_eq!((receipt.success.count(), receipt.error.count(), receipt.timeout.count()), (9_950, 50, 0));
    assert_eq!(acknowledgement.error.count(), 50);
    // They timed out, and were not in the way of others until then.
    assert!(agree(receipt.error.max_ns(), seconds(4), MS), "{}", receipt.error.max_ns());
}

#[test]
fn connections_that_break_again_and_again() {
    let broken = (1..10).map(|n| seconds(n)..seconds(n) + n * 10 * MS).collect();
    let outcome = run(&options(), &Behaviour { broken, ..Behaviour::default() }, 3);
    let counts = outcome.total.counts;
    assert_eq!((counts.broken_connections, counts.reconnected, outcome.breaks.len()), (27, 27, 27));
    assert_eq!((counts.due, counts.sent, counts.lost), (10_000, 10_000, 0));
    assert_eq!(counts.received + counts.cut_off, 10_000);
    assert!(outcome.breaks.is_sorted_by_key(|found| found.at_ns));
    // They do not come back at the same moment, and a run is reproducible.
    let first: Vec<_> = outcome.breaks[..3].iter().map(|found| found.back_at_ns).collect();
    assert!(first[0] != first[1] && first[1] != first[2], "{first:?}");
    let broken = (1..10).map(|n| seconds(n)..seconds(n) + n * 10 * MS).collect();
    let again = run(&options(), &Behaviour { broken, ..Behaviour::default() }, 3);
    assert_eq!(again.breaks, outcome.breaks);
    let seed = Some(Reconnect { seed: 2, ..Reconnect::default() });
    let broken = (1..10).map(|n| seconds(n)..seconds(n) + n * 10 * MS).collect();
    let other = LoadOptions { reconnect: seed, ..options() };
    assert_ne!(run(&other, &Behaviour { broken, ..Behaviour::default() }, 3).breaks, outcome.breaks);
}

#[test]
fn one_that_never_comes_back_is_told() {
    let broken = one_stall(seconds(9), seconds(1000));
    let outcome = run(&options(), &Behaviour { broken, ..Behaviour::default() }, 1);
    let counts = outcome.total.counts;
    assert_eq!((counts.due, counts.sent, counts.unsent, counts.cut_off), (10_000, 9_000, 1_000, 1));
    assert_eq!(outcome.total.receipt.error.count(), 1_001);
    assert_eq!(outcome.breaks[0].back_at_ns, None);
    let [failure] = outcome.failures.as_slice() else { panic!("{:?}", outcome.failures) };
    assert!(failure.starts_with("simulated closed the connection; not back after "), "{failure}");
    assert!(failure.ends_with("cannot connect to simulated: connection refused"), "{failure}");
}

/// What the two connections know of each other: one echoes at once, and one is reconnecting.
#[derive(Default)]
struct Progress {
    echoed: AtomicU64,
    waited_for: Mutex<Option<bool>>,
    bell: Condvar,
}

/// Echoes at once. The first connection breaks at its tenth message, and is not up again before the other one
/// has gone on.
struct Echo {
    progress: Arc<Progress>,
    breaks: bool,
    taken: u64,
    is_set_up_again: bool,
    waiting: Vec<Vec<u8>>,
}

impl Requester for Echo {
    fn expects(&self) -> Expects {
        Expects { acknowledgement: false, payload: Some(PayloadBack::Reply) }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        let begun = self.progress.echoed.load(Ordering::SeqCst);
        let went_on = |_: &mut Option<bool>| self.progress.echoed.load(Ordering::SeqCst) < begun + 100;
        let guard = self.progress.waited_for.lock().unwrap();
        let patience = Duration::from_secs(20);
        let (mut guard, timeout) = self.progress.bell.wait_timeout_while(guard, patience, went_on).unwrap();
        *guard = Some(!timeout.timed_out());
        self.is_set_up_again = true;
        Ok(())
    }

    fn publish(&mut self, _sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        self.taken += 1;
        if self.breaks && self.taken > 10 && !self.is_set_up_again {
            return Err(RequesterError::Closed { address: "echo".to_owned() });
        }
        self.waiting.push(payload.to_vec());
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        for payload in self.waiting.drain(..) {
            sink.payload(clock.now_ns(), &payload);
            if !self.breaks {
                self.progress.echoed.fetch_add(1, Ordering::SeqCst);
                drop(self.progress.waited_for.lock().unwrap());
                self.progress.bell.notify_all();
            }
        }
        Ok(())
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::At(if self.waiting.is_empty() { u64::MAX } else { 0 })
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }
}

/// On the real clock: the sending thread must not be the connecting one.
#[test]
fn others_go_on_while_one_connects() {
    let progress = Arc::new(Progress::default());
    let requesters = [true, false].map(|breaks| {
        let progress = Arc::clone(&progress);
        Box::new(Echo { progress, breaks, taken: 0, is_set_up_again: false, waiting: Vec::new() })
            as Box<dyn Requester>
    });
    let schedule = Schedule::constant(Rate::per_second(500).unwrap()).unwrap();
    let mut options = LoadOptions::new(Load::Open(schedule));
    (options.warm_up_ns, options.duration_ns) = (0, 2 * seconds(1));
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::default());
    let stop = Arc::new(AtomicBool::new(false));
    let (outcome, requesters) =
        engine::run(&options, Vec::from(requesters), &clock, &stop, &mut |_: &Interval<'_>| {}).unwrap();
    assert_eq!(*progress.waited_for.lock().unwrap(), Some(true), "the other connection stood still");
    let counts = outcome.total.counts;
    assert_eq!((counts.broken_connections, counts.reconnected, requesters.len()), (1, 1, 2));
    assert_eq!((counts.received, counts.unsent, counts.lost), (1_000, 0, 0), "{counts:?}");
}
