//! JetStream's API over a socket. Answers are those of nats-server 2.15.2 but for what docs/jetstream.md
//! lists; `interop/jetstream` has the same conversations with both.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asker;
mod consumers;
mod durable;
mod hostile;
mod kafka;
mod messages;
mod monitoring;
mod nodes;
mod publish;
mod purge;
mod push;
mod rights;
mod streams;

pub(crate) use asker::{Answered, Asker, ON};
