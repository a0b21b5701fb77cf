//! Servers and peers that the tests start or simulate themselves.

pub(crate) mod brokerless;
pub(crate) mod nsqd;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod script;
pub(crate) mod tls_front;

use std::net::TcpListener;
use std::process::Child;

/// Reports that something was not tried.
///
/// # Panics
/// `TAILRACE_BENCH_REQUIRED` names it, so its test must not pass.
pub(crate) fn not_tried(name: &str, reason: &str) {
    let required = std::env::var("TAILRACE_BENCH_REQUIRED").unwrap_or_default();
    assert!(!required.split(',').any(|wanted| wanted.trim() == name), "{name} is required: {reason}");
    eprintln!("not tried: {name}: {reason}");
}

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address of this machine on which nothing listens.
///
/// Local connections come from 127.0.0.1, so none of them can take the port of 127.0.0.2 meanwhile, or
/// connect to itself while nothing listens.
pub(crate) fn free_address() -> String {
    TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().to_string()
}
