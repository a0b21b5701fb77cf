//! Short runs against real systems: every message must come back exactly once and unharmed.
//!
//! The echo servers are our own. The others are tried if `TAILRACE_BENCH_NATS`, `_TAILRACE_NATS`, `_REDIS`,
//! `_RABBITMQ`, `_MQTT`, `_STOMP`, `_NSQ`, `_KAFKA` and `_TAILRACE_KAFKA` name a server. The test of
//! PostgreSQL starts it if it is installed. The libraries of brokerless systems are tried if
//! `TAILRACE_BENCH_PYTHON` names a Python with pynng and pyzmq. A system that is missing is not tried, and
//! its test says so and passes. Those that `TAILRACE_BENCH_REQUIRED` names (`redis,postgres,python`) must be
//! available. `interop/bench-systems.sh` starts the servers and sets all of this.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod brokerless;
mod nsq_conversations;
mod own_servers;
#[path = "../peers/mod.rs"]
mod peers;
mod promises;
mod refusals;
mod servers;
mod target;
mod wrong_targets;
