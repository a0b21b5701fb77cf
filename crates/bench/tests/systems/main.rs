//! Short runs against real systems: every message must come back, once and unharmed.
//!
//! The echo servers are our own. The others are tried where `TAILRACE_BENCH_NATS`, `_TAILRACE_NATS`, `_REDIS`, `_RABBITMQ`,
//! `_MQTT`, `_STOMP`, `_NSQ`, `_KAFKA` and `_TAILRACE_KAFKA` name a server. PostgreSQL is started by its test where it is installed; the
//! libraries of brokerless systems are tried where `TAILRACE_BENCH_PYTHON` names a Python that has pynng and pyzmq. What is
//! missing is not tried, and its test says so and passes, but for what `TAILRACE_BENCH_REQUIRED` names (`redis,postgres,python`):
//! that must be there. `interop/bench-systems.sh` starts the servers and sets all of this.
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
