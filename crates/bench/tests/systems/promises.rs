//! Requirements of every system, whatever its protocol.

use std::sync::Arc;
use std::time::Duration;

use tailrace_bench::clock::{MonotonicClock, SECOND_NS};
use tailrace_bench::engine::Interval;
use tailrace_bench::proxy::{Proxy, ProxyOptions, Trouble};
use tailrace_bench::systems::{self, Deed, LeftOver, Target};

use crate::target::{options, options_of, run, run_observed, target};

/// Every message comes back, exactly once and in order.
pub(crate) fn comes_back(system: &str, address: Option<String>, per_second: u64) {
    comes_back_with(&target(system, address), &[24, 128, 100_000], per_second);
}

pub(crate) fn comes_back_with(target: &Target, sizes: &[usize], per_second: u64) {
    for &payload_bytes in sizes {
        let target = Target { payload_bytes, ..target.clone() };
        let system = &target.system;
        let per_second = if payload_bytes > 1000 { 30 } else { per_second };
        let outcome = run(&target, &options(&target, per_second), &Arc::default());
        let counts = outcome.total.counts;
        assert_eq!((counts.due, counts.sent), (per_second, per_second), "{system} {:?}", outcome.failures);
        let wrong = [
            counts.lost,
            counts.duplicates,
            counts.corrupt,
            counts.foreign,
            counts.unknown,
            counts.reordered,
        ];
        assert_eq!(wrong, [0; 6], "{system} {counts:?}");
        for outcomes in [&outcome.total.acknowledgement, &outcome.total.receipt] {
            assert!([0, per_second].contains(&outcomes.success.count()), "{system} {counts:?}");
            assert_eq!(outcomes.error.count() + outcomes.timeout.count(), 0);
        }
        assert!(outcome.total.acknowledgement.count() + outcome.total.receipt.count() > 0);
    }
}

/// A stall on the way back shows up with its full length, whatever the protocol.
///
/// Not for Kafka: its clients go to the address that the server advertises, and bypass the proxy.
pub(crate) fn shows_a_stall(system: &str, upstream: String) {
    shows_a_stall_with(target(system, None), upstream);
}

pub(crate) fn shows_a_stall_with(target: Target, upstream: String) {
    let options = proxy_options(upstream);
    shows_a_stall_behind(ProxyOptions { to_client: stalled(), ..options }, target);
}

pub(crate) fn stalled() -> Trouble {
    let stall = Duration::from_millis(900)..Duration::from_millis(1300);
    Trouble { stalls: std::iter::once(stall).collect(), ..Trouble::default() }
}

pub(crate) fn proxy_options(upstream: String) -> ProxyOptions {
    ProxyOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        upstream,
        to_server: Trouble::default(),
        to_client: Trouble::default(),
        resets: Vec::new(),
        seed: 1,
    }
}

pub(crate) fn shows_a_stall_behind(proxy: ProxyOptions, target: Target) {
    let proxy = Proxy::start(proxy).unwrap();
    let target = Target { address: Some(proxy.address().to_string()), connections: 1, ..target };
    let system = &target.system;
    let mut options = options(&target, 500);
    options.duration_ns = 2 * SECOND_NS;
    let outcome = run(&target, &options, &Arc::default());
    for outcomes in [&outcome.total.acknowledgement, &outcome.total.receipt] {
        let latency = &outcomes.success;
        if latency.count() == 0 {
            continue;
        }
        // 400 of 2000 ms: 20 % spread from 0 to 400 ms. The machine may add to that, never subtract.
        assert_eq!(latency.count(), 1000, "{system} {:?}", outcome.total.counts);
        assert!(latency.max_ns() >= 390_000_000, "{system} {}", latency.max_ns());
        assert!(latency.at_quantile_ns(0.9) >= 180_000_000, "{system} {}", latency.at_quantile_ns(0.9));
    }
}

/// Connections that are reset are reconnected, and messages due meanwhile are sent then. `keeps` marks a
/// system that later delivers messages that were in flight to a broken connection.
pub(crate) fn survives_resets(target: Target, upstream: String, per_second: u64, keeps: bool) {
    // With latency there is always a message in flight.
    let slow = Trouble { latency: Duration::from_millis(10), ..Trouble::default() };
    let options = ProxyOptions { to_server: slow.clone(), to_client: slow, ..proxy_options(upstream) };
    let proxy = Proxy::start(options).unwrap();
    let target = Target { address: Some(proxy.address().to_string()), connections: 2, ..target };
    let system = &target.system;
    let due = 2 * per_second;
    let mut load = options_of(&target, per_second, 2 * SECOND_NS);
    (load.timeout_ns, load.interval_ns) = (5 * SECOND_NS, SECOND_NS / 20);
    let mut resets = vec![due / 10, due * 4 / 10, due * 7 / 10];
    let outcome = run_observed(&target, &load, &Arc::default(), &mut |interval: &Interval<'_>| {
        if resets.first().is_some_and(|sent| interval.total.counts.sent >= *sent) {
            resets.remove(0);
            proxy.reset();
        }
    });
    let counts = outcome.total.counts;
    // Two connections; one that is still connecting is not broken by a reset.
    assert!((3..=6).contains(&counts.broken_connections), "{system} {counts:?} {:?}", outcome.breaks);
    assert_eq!(counts.broken_connections, counts.reconnected, "{system} {:?}", outcome.breaks);
    assert_eq!((counts.due, counts.sent, counts.unsent), (due, due, 0), "{system} {:?}", outcome.failures);
    let wrong = [counts.lost, counts.corrupt, counts.foreign, counts.unknown];
    assert_eq!(wrong, [0; 4], "{system} {counts:?}");
    assert!(keeps || counts.duplicates == 0, "{system} {counts:?}");
    // Only messages in flight when the connection broke may be missing.
    for outcomes in [&outcome.total.acknowledgement, &outcome.total.receipt] {
        assert!([0, due].contains(&outcomes.count()), "{system} {counts:?}");
        assert_eq!(outcomes.timeout.count(), 0, "{system}");
    }
    let receipt = &outcome.total.receipt;
    assert!(
        receipt.error.count() <= counts.cut_off && counts.received == receipt.success.count(),
        "{counts:?}"
    );
    assert!(counts.cut_off + counts.redelivered > 0, "{system} {counts:?}");
    // An outage shows up: the first attempt to reconnect is after 50 ms at the earliest.
    assert!(receipt.success.max_ns() >= 50_000_000, "{system}");
}

/// What a run created but never tore down is found and removed, and nothing else.
pub(crate) fn leaves_nothing(system: &str, address: &str, run: u16) {
    let target = Target { run, connections: 2, ..target(system, Some(address.to_owned())) };
    leaves_nothing_with(&target);
}

pub(crate) fn leaves_nothing_with(target: &Target) {
    let mut opened = systems::open(target).unwrap();
    systems::set_up(&mut opened.requesters, target, &MonotonicClock::default()).unwrap();
    // As if the run was killed: there is no teardown.
    drop(opened);
    let (_, first, last) = systems::made_by(target).unwrap();
    let of_this_run = |found: Vec<LeftOver>| -> Vec<String> {
        let mut names: Vec<_> = found.into_iter().map(|one| one.name).collect();
        names.retain(|name| [&first, &last].contains(&name));
        names.sort_unstable();
        names
    };
    let found = systems::left_over(target, Deed::List, &[]).unwrap();
    assert_eq!(of_this_run(found.clone()), [first.clone(), last.clone()], "{}", target.system);
    // Other tests have their own objects there.
    let mut only = found;
    only.retain(|one| one.name == first || one.name == last);
    let nothing = systems::left_over(target, Deed::Remove, &[]).unwrap();
    assert_eq!(nothing, []);
    let removed = systems::left_over(target, Deed::Remove, &only).unwrap();
    assert_eq!(of_this_run(removed), [first.clone(), last.clone()]);
    let left = systems::left_over(target, Deed::List, &[]).unwrap();
    assert_eq!(of_this_run(left), [""; 0], "{}", target.system);
}
