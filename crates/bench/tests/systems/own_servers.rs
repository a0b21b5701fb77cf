//! The harness's own servers, which are always available: tests of the harness itself, for any system.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tailrace_bench::clock::SECOND_NS;
use tailrace_bench::engine::Interval;
use tailrace_bench::proxy::Proxy;
use tailrace_bench::systems::{self, EchoProtocol, EchoServer, Target};

use crate::peers::tls_front::TlsFront;
use crate::promises::{comes_back, comes_back_with, proxy_options, shows_a_stall_with, survives_resets};
use crate::target::{options, options_of, run, run_observed, set_up_fails, settings, target};

#[test]
fn noop_and_echo() {
    // Side by side: each spends its time waiting for the next message to be due.
    std::thread::scope(|scope| {
        for (system, per_second) in [("noop", 5000), ("tcp-echo", 2000), ("http", 300)] {
            scope.spawn(move || comes_back(system, None, per_second));
        }
    });
}

#[test]
fn echo_servers_survive_resets() {
    std::thread::scope(|scope| {
        // HTTP has one request at a time per connection.
        for (system, protocol, per_second) in
            [("tcp-echo", EchoProtocol::Tcp, 500), ("http", EchoProtocol::Http, 50)]
        {
            scope.spawn(move || {
                let server = EchoServer::start(protocol).unwrap();
                survives_resets(target(system, None), server.address().to_string(), per_second, false);
            });
        }
    });
}

/// Sizes beyond what a socket, a TLS record, and the buffers of both take at once.
#[test]
fn tls_changes_nothing_but_the_bytes() {
    let server = EchoServer::start(EchoProtocol::Http).unwrap();
    let front = TlsFront::start(server.address().to_string());
    let ca = front.authority();
    let mut target = Target { connections: 2, ..target("http", Some(front.address.clone())) };
    target.settings = settings(&[("tls-ca", &ca)]);
    comes_back_with(&target, &[24, 16_384, 100_000, 3_000_000], 100);
    shows_a_stall_with(
        Target { settings: settings(&[("tls-ca", &ca), ("tls-name", "front.example")]), ..target.clone() },
        front.address.clone(),
    );
    target.settings = settings(&[("tls", "unchecked")]);
    comes_back_with(&target, &[128], 100);
    let other = TlsFront::start(server.address().to_string());
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    for (values, address, expected) in [
        (&[("tls-ca", other.authority())][..], &front.address, "invalid peer certificate"),
        (
            &[("tls-ca", ca.clone()), ("tls-name", "else.example".to_owned())],
            &front.address,
            "certificate not valid for name \"else.example\"",
        ),
        // The server echoes the TLS handshake.
        (&[("tls-ca", ca.clone())], &echo.address().to_string(), "TLS: "),
    ] {
        let values: Vec<_> = values.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let target = Target { address: Some(address.clone()), settings: settings(&values), ..target.clone() };
        let error = set_up_fails(&target);
        assert!(
            error.starts_with(&format!("cannot connect to {address}: ")) && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn connections_are_spread_over_addresses_and_go_on_to_the_next() {
    let servers = [(); 2].map(|()| EchoServer::start(EchoProtocol::Tcp).unwrap());
    let proxies =
        servers.each_ref().map(|server| Proxy::start(proxy_options(server.address().to_string())).unwrap());
    let list: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let target = Target { connections: 4, ..target("tcp-echo", Some(list.join(", "))) };
    let mut load = options_of(&target, 500, SECOND_NS);
    load.interval_ns = SECOND_NS / 20;
    let mut accepted = None;
    let outcome = run_observed(&target, &load, &Arc::default(), &mut |interval: &Interval<'_>| {
        if interval.total.counts.sent >= 100 && accepted.is_none() {
            accepted = Some(proxies.each_ref().map(Proxy::accepted));
            proxies[0].reset();
        }
    });
    // Two each in turn; those of the first one go to the second when they reconnect.
    assert_eq!(accepted, Some([2, 2]));
    assert_eq!(proxies.each_ref().map(Proxy::accepted), [2, 4], "{:?}", outcome.breaks);
    let counts = outcome.total.counts;
    assert_eq!((counts.broken_connections, counts.reconnected, counts.sent), (2, 2, 500), "{counts:?}");
    // Both break at once; which one is noticed first is random.
    let mut broken: Vec<u32> = outcome.breaks.iter().map(|found| found.connection).collect();
    broken.sort_unstable();
    assert_eq!(broken, [0, 2]);
    let brokerless = Target { settings: settings(&[("pattern", "request")]), ..target.clone() };
    let brokerless = Target { system: "nng".to_owned(), ..brokerless };
    let error = systems::open(&brokerless).err().unwrap().to_string();
    assert!(error.ends_with("cannot be combined with the system nng"), "{error}");
}

#[test]
fn a_frozen_system_shows_its_stall() {
    std::thread::scope(|scope| {
        for (system, protocol) in [("tcp-echo", EchoProtocol::Tcp), ("http", EchoProtocol::Http)] {
            scope.spawn(move || shows_a_freeze(system, protocol));
        }
    });
}

/// Waits until an echo server has sent this many answers.
fn until_answers(server: &EchoServer, answers: u64) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while server.answers() < answers {
        assert!(std::time::Instant::now() < deadline, "{} of {answers} answers", server.answers());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn shows_a_freeze(system: &str, protocol: EchoProtocol) {
    let server = EchoServer::start(protocol).unwrap();
    let mut target = target(system, Some(server.address().to_string()));
    // HTTP has one request at a time per connection; messages that wait behind it count all the same.
    target.connections = 2;
    let options = options(&target, 500);
    let freezer = std::thread::spawn(move || {
        // The first 100 are the warm-up: the whole stall is after it, and before the end.
        until_answers(&server, 200);
        server.freeze(true);
        // The measured stall.
        std::thread::sleep(Duration::from_millis(400));
        server.freeze(false);
        server
    });
    let outcome = run(&target, &options, &Arc::default());
    drop(freezer.join().unwrap());
    let latency = &outcome.total.receipt.success;
    assert_eq!(latency.count(), 500, "{system} {:?}", outcome.total.counts);
    // 400 of 1000 ms: 40 % of all latencies spread from 0 to 400 ms. The machine may add to that, never
    // subtract.
    assert!(latency.max_ns() >= 380_000_000, "{system} {}", latency.max_ns());
    assert!(latency.at_quantile_ns(0.8) >= 170_000_000, "{system} {}", latency.at_quantile_ns(0.8));
}

#[test]
fn stopping_keeps_what_was_measured() {
    let server = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let target = target("tcp-echo", Some(server.address().to_string()));
    let mut options = options(&target, 1000);
    options.duration_ns = 60 * SECOND_NS;
    let stop = Arc::new(AtomicBool::new(false));
    let stopper = Arc::clone(&stop);
    let stopping = std::thread::spawn(move || {
        until_answers(&server, 600);
        stopper.store(true, Ordering::Relaxed);
        server
    });
    let outcome = run(&target, &options, &stop);
    drop(stopping.join().unwrap());
    assert!(outcome.interrupted);
    assert!(outcome.total.receipt.count() > 50 && outcome.measured_ns < 30 * SECOND_NS);
}
