//! A run that is stopped: messages due at that very moment are not failures, but messages that waited for the
//! system are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::PollFd;
use tailrace_bench::clock::{Clock, SECOND_NS};
use tailrace_bench::engine::{self, Interval, Load, LoadOptions, Outcome, VerdictKind};
use tailrace_bench::requester::Requester;
use tailrace_bench::schedule::{Rate, Schedule};

use crate::simulated::{Behaviour, MS, Simulated, VirtualClock, one_stall, seconds};

/// A clock on which Ctrl-C is pressed at a given time.
struct Interrupted {
    clock: Arc<VirtualClock>,
    at_ns: u64,
    stop: Arc<AtomicBool>,
}

impl Clock for Interrupted {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn wait(&self, until_ns: u64, watched: &mut [PollFd<'_>]) {
        self.clock.wait(until_ns, watched);
        self.stop.fetch_or(self.clock.now_ns() >= self.at_ns, Ordering::SeqCst);
    }
}

/// 100 messages per second, stopped at this time.
fn stopped_at(at_ns: u64, behaviour: &Behaviour, in_flight_max: usize) -> Outcome {
    let (virtual_clock, stop) = (Arc::new(VirtualClock::default()), Arc::new(AtomicBool::new(false)));
    let requester: Box<dyn Requester> = Box::new(Simulated::new(&virtual_clock, behaviour));
    let mut options =
        LoadOptions::new(Load::Open(Schedule::constant(Rate::per_second(100).unwrap()).unwrap()));
    (options.warm_up_ns, options.duration_ns, options.lead_ns) = (0, seconds(60), 0);
    options.in_flight_max = in_flight_max;
    let clock: Arc<dyn Clock> =
        Arc::new(Interrupted { clock: virtual_clock, at_ns, stop: Arc::clone(&stop) });
    engine::run(&options, vec![requester], &clock, &stop, &mut |_: &Interval<'_>| {}).unwrap().0
}

#[test]
fn what_was_due_at_that_moment_is_neither_a_failure_nor_a_latency() {
    let outcome = stopped_at(seconds(2), &Behaviour::default(), 100);
    let counts = outcome.total.counts;
    // 0 ms to 1,990 ms; the next one is due at the stop.
    assert_eq!((counts.due, counts.sent, counts.received), (200, 200, 200), "{counts:?}");
    assert_eq!((counts.unsent, counts.lost), (0, 0), "{counts:?}");
    let receipt = &outcome.total.receipt;
    assert_eq!((receipt.success.count(), receipt.count()), (200, 200));
    assert_eq!(receipt.success.max_ns(), MS);
    let verdict = &outcome.verdict;
    assert_eq!(verdict.kind(), VerdictKind::Interrupted);
    assert!(
        verdict.headline().starts_with("INTERRUPTED: it was stopped after 2.0 s of 60.0 s"),
        "{verdict:?}"
    );
}

/// Ctrl-C cannot hide a stall.
#[test]
fn what_waited_for_the_system_counts() {
    let behaviour = Behaviour { stalls: one_stall(SECOND_NS, seconds(30)), ..Behaviour::default() };
    let outcome = stopped_at(seconds(2), &behaviour, 10);
    let counts = outcome.total.counts;
    // Ten are in flight and never answered. Ninety more were due, and the one due at that moment waits behind
    // them.
    assert_eq!((counts.sent, counts.unsent, counts.due), (110, 91, 201), "{counts:?}");
    let waited = &outcome.total.receipt.timeout;
    assert_eq!(waited.count(), 101);
    assert!(waited.max_ns() >= SECOND_NS, "{}", waited.max_ns());
}
