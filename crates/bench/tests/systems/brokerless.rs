//! Systems without a server between both ends.

use tailrace_bench::proxy::ProxyOptions;
use tailrace_bench::systems::{self, Target};

use crate::peers::brokerless::Peer;
use crate::peers::{self, free_address};
use crate::promises::{comes_back_with, proxy_options, shows_a_stall_behind, shows_a_stall_with, stalled};
use crate::target::{set_up_fails, settings, target};

pub(crate) const BROKERLESS: &[&str] = &["nng", "zeromq"];

/// Both ends are the harness's, with a proxy in between and without.
fn brokerless(system: &str) {
    for pattern in ["push-pull", "pub-sub", "request"] {
        let mut target = target(system, None);
        target.settings = settings(&[("pattern", pattern)]);
        comes_back_with(&target, &[24, 128, 100_000], 2000);
        if pattern != "request" {
            let listen = free_address();
            target.settings = settings(&[("pattern", pattern), ("listen", &listen)]);
            shows_a_stall_behind(ProxyOptions { to_server: stalled(), ..proxy_options(listen) }, target);
        }
    }
}

/// The system's own library at the other ends.
fn brokerless_library(system: &str) {
    for pattern in ["push-pull", "pub-sub", "request"] {
        let Some(peer) = Peer::start(system, pattern) else {
            peers::not_tried("python", "TAILRACE_BENCH_PYTHON names none");
            return;
        };
        let mut target = target(system, Some(peer.address.clone()));
        target.settings = settings(&[("pattern", pattern)]);
        if pattern == "request" {
            shows_a_stall_with(target.clone(), peer.address.clone());
        } else {
            target.connections = 1;
            target.settings = settings(&[("pattern", pattern), ("listen", &peer.listen)]);
        }
        comes_back_with(&target, &[24, 128, 100_000], 500);
    }
}

#[test]
fn nng() {
    brokerless("nng");
}

#[test]
fn nng_library() {
    brokerless_library("nng");
}

#[test]
fn zeromq() {
    brokerless("zeromq");
}

#[test]
fn zeromq_library() {
    brokerless_library("zeromq");
}

#[test]
fn ends_that_do_not_meet() {
    for system in BROKERLESS {
        for (address, set, expected) in [
            (None, ("pattern", "bus"), "pattern=bus is unknown: expected push-pull, pub-sub or request"),
            (None, ("listen", "127.0.0.1:1"), "listen=127.0.0.1:1 requires an address"),
            (Some("127.0.0.1:1"), ("pattern", "pub-sub"), "messages sent to 127.0.0.1:1 come back nowhere"),
            (Some("127.0.0.1:1"), ("listen", "127.0.0.1:2"), "is one port: expected 1 connection, not 3"),
        ] {
            let mut target = target(system, address.map(str::to_owned));
            target.settings = settings(&[set]);
            let error = systems::open(&target).err().unwrap().to_string();
            assert!(error.contains(expected), "{system}: {error}");
        }
        // An address that this machine does not have.
        let mut target = Target { connections: 1, ..target(system, Some("127.0.0.1:1".to_owned())) };
        target.settings = settings(&[("listen", "192.0.2.1:7")]);
        let error = set_up_fails(&target);
        assert!(error.starts_with("cannot listen on 192.0.2.1:7: "), "{system}: {error}");
    }
}
