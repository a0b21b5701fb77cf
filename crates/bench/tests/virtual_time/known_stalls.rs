//! A system with known stalls must be measured as such, and a load that waits for answers must be shown to
//! hide them.

use tailrace_bench::engine::{Interval, Load, LoadOptions, Mode};
use tailrace_bench::requester::{Expects, PayloadBack};
use tailrace_bench::schedule::{Rate, Schedule};

use crate::simulated::{Behaviour, MS, VirtualClock, agree, one_stall, run, run_on, run_watched, seconds};

fn constant(per_second: u64) -> Schedule {
    Schedule::constant(Rate::per_second(per_second).unwrap()).unwrap()
}

/// 100 requests per second, answered after 1 ms; from second 100 to 200 there are no answers.
fn ctrl_z(load: Load) -> (LoadOptions, Behaviour) {
    let mut options = LoadOptions::new(load);
    options.warm_up_ns = 0;
    options.duration_ns = seconds(200);
    options.timeout_ns = seconds(1000);
    let stall = seconds(100)..seconds(200);
    (options, Behaviour { stalls: Vec::from([stall]), ..Behaviour::default() })
}

#[test]
fn ctrl_z_comes_out_as_computed_by_hand() {
    for in_flight_max in [16_384, 100] {
        let (mut options, behaviour) = ctrl_z(Load::Open(constant(100)));
        options.in_flight_max = in_flight_max;
        let outcome = run(&options, &behaviour, 1);
        let latency = &outcome.total.receipt.success;
        assert_eq!(latency.count(), 20_000);
        // With 100 in flight the backlog of 10,000 drains at 100 per ms: that takes at most another 100 ms.
        let slack = if in_flight_max == 100 { 100 * MS } else { MS };
        assert!(agree(latency.at_quantile_ns(0.5), MS, 0), "p50 {}", latency.at_quantile_ns(0.5));
        for (quantile, expected) in [(0.75, seconds(50)), (0.9999, seconds(100)), (1.0, seconds(100))] {
            let found = latency.at_quantile_ns(quantile);
            assert!(agree(found, expected, slack), "{quantile}: {found} instead of {expected}");
        }
        assert!(agree(latency.mean_ns() as u64, seconds(25), slack), "mean {}", latency.mean_ns());
        assert!(outcome.verdict.is_valid(), "{:?}", outcome.verdict);
        assert_eq!((outcome.total.counts.due, outcome.total.counts.sent), (20_000, 20_000));
        assert_eq!((outcome.total.counts.lost, outcome.total.counts.unsent), (0, 0));
    }
}

#[test]
fn a_closed_loop_hides_it_and_the_correction_finds_it_again() {
    let (options, behaviour) = ctrl_z(Load::Closed(constant(100)));
    let outcome = run(&options, &behaviour, 1);
    assert_eq!(outcome.mode, Mode::ClosedLoop);
    let raw = &outcome.total.receipt.success;
    // 100 s of 200 s were lost, and all requests but one look good: p99.99 is 1 ms.
    assert!(raw.count() <= 10_001, "{}", raw.count());
    assert!(agree(raw.at_quantile_ns(0.9999), MS, 0), "p99.99 {}", raw.at_quantile_ns(0.9999));
    assert!(agree(raw.max_ns(), seconds(100), MS));
    let corrected = outcome.corrected(raw).unwrap();
    // Half of all, less the one request that met the stall.
    assert!(agree(corrected.at_quantile_ns(0.499), MS, 0));
    assert!(agree(corrected.at_quantile_ns(0.75), seconds(50), 20 * MS));
    assert!(agree(corrected.at_quantile_ns(0.9999), seconds(100), 20 * MS));
}

#[test]
fn seconds_without_an_end_are_told_with_what_waits() {
    // No message ends from second 2 to 4. Messages due in the warm-up, the first second, do not count.
    for in_flight_max in [16_384, 5] {
        let mut options = LoadOptions::new(Load::Open(constant(100)));
        (options.warm_up_ns, options.duration_ns) = (seconds(1), seconds(5));
        options.in_flight_max = in_flight_max;
        let behaviour = Behaviour { stalls: one_stall(seconds(2), seconds(4)), ..Behaviour::default() };
        let mut seen = Vec::new();
        let mut observer = |interval: &Interval<'_>| {
            let recorder = interval.recorder;
            seen.push((interval.begin_ns, recorder.receipt.count(), recorder.oldest_waiting_ns));
        };
        run_watched(VirtualClock::default(), &options, &behaviour, 1, &mut observer);
        let waiting: Vec<u64> = seen.iter().map(|(.., waiting)| *waiting).collect();
        assert_eq!(waiting[..6], [0, 0, seconds(1), seconds(2), 0, 0], "{seen:?}");
        assert!(seen[2].1 <= 1 && seen[3].1 == 0 && seen[4].1 > 290, "{seen:?}");
    }
}

#[test]
fn open_loop_has_nothing_to_correct() {
    let (options, behaviour) = ctrl_z(Load::Open(constant(100)));
    let outcome = run(&options, &behaviour, 1);
    assert!(outcome.corrected(&outcome.total.receipt.success).is_none());
}

#[test]
fn full_throttle_is_labelled_and_bounded() {
    let (mut options, behaviour) = ctrl_z(Load::FullThrottle);
    options.in_flight_max = 10;
    options.duration_ns = seconds(1);
    let outcome = run(&options, &behaviour, 2);
    assert_eq!(outcome.mode, Mode::FullThrottle);
    // Ten in flight per connection and 1 ms each: 10,000 per second and connection.
    assert!((19_900..=20_020).contains(&outcome.total.counts.sent), "{:?}", outcome.total.counts);
    assert_eq!(outcome.total.lateness.count(), 0);
    assert_eq!(outcome.total.receipt.success.max_ns(), MS);
}

/// Many short stalls, on several connections, with acknowledgements and receipts, with a Poisson schedule:
/// every single latency is known.
#[test]
fn every_latency_is_known() {
    let schedule = Schedule::poisson(Rate::per_second(2000).unwrap(), 11).unwrap();
    let stalls: Vec<_> = (1..20).map(|n| n * seconds(1)..n * seconds(1) + n * 7 * MS).collect();
    let expects = Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) };
    let behaviour = Behaviour { stalls: stalls.clone(), expects, ..Behaviour::default() };
    let mut options = LoadOptions::new(Load::Open(schedule.clone()));
    options.warm_up_ns = seconds(2);
    options.duration_ns = seconds(18);
    let outcome = run(&options, &behaviour, 3);
    let mut expected = tailrace_bench::recorder::Distribution::default();
    for due in
        (0..3).flat_map(|connection| schedule.due_times(connection, 3).take_while(|due| *due < seconds(20)))
    {
        if due >= seconds(2) {
            let stall = stalls.iter().find(|stall| stall.contains(&due));
            expected.record(stall.map_or(0, |stall| stall.end - due) + MS);
        }
    }
    for found in [&outcome.total.receipt.success, &outcome.total.acknowledgement.success] {
        assert_eq!(found.histogram(), expected.histogram());
        assert_eq!(found.max_ns(), expected.max_ns());
    }
    assert_eq!(outcome.total.lateness.max_ns(), 0);
    assert_eq!(outcome.total.held.count(), 0);
}

#[test]
fn a_bound_in_flight_is_no_excuse() {
    // Room for 5 messages and 100 per second: the stall of one second fills it. The rest is held back but
    // counts.
    let behaviour = Behaviour { stalls: one_stall(seconds(1), seconds(2)), ..Behaviour::default() };
    let mut options = LoadOptions::new(Load::Open(constant(100)));
    (options.warm_up_ns, options.duration_ns) = (0, seconds(3));
    options.in_flight_max = 5;
    let bound = run(&options, &behaviour, 1);
    let full = run(&options_with(&options, 1000), &Behaviour { client_room: 5, ..behaviour }, 1);
    for outcome in [bound, full] {
        let latency = &outcome.total.receipt.success;
        assert_eq!(latency.count(), 300);
        assert!(agree(latency.max_ns(), seconds(1) + MS, 0));
        // 95 are sent after the stall, 5 per ms: up to 19 ms later than without a bound.
        assert!(agree(latency.at_quantile_ns(0.9), 700 * MS, 21 * MS), "{}", latency.at_quantile_ns(0.9));
        // The two that fell due meanwhile had to wait, too.
        assert_eq!(outcome.total.held.count(), 97);
        assert_eq!(outcome.total.lateness.max_ns(), 0);
        assert!(outcome.verdict.is_valid(), "{:?}", outcome.verdict);
    }
}

fn options_with(options: &LoadOptions, in_flight_max: usize) -> LoadOptions {
    LoadOptions { in_flight_max, ..options.clone() }
}

#[test]
fn a_generator_that_is_late_is_found_out() {
    // The generator's thread does not run for 20 of every 100 ms; the system is always on time.
    let pauses = (0..100).map(|n| n * 100 * MS + 50 * MS..n * 100 * MS + 70 * MS).collect();
    let clock = VirtualClock { pauses, ..VirtualClock::default() };
    let mut options = LoadOptions::new(Load::Open(constant(1000)));
    (options.warm_up_ns, options.duration_ns) = (0, seconds(10));
    let outcome = run_on(clock, &options, &Behaviour::default(), 1);
    assert!(!outcome.verdict.is_valid());
    assert!(agree(outcome.total.lateness.max_ns(), 20 * MS, MS), "{}", outcome.total.lateness.max_ns());
    // A fifth of all messages was late, so the tail is doubtful and the median is not.
    assert!(!outcome.verdict.doubtful_quantiles.contains(&0.5));
    assert!(outcome.verdict.doubtful_quantiles.contains(&0.99));
}
