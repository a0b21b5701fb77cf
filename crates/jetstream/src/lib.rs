//! JetStream without a network, a disk or a clock: what its API accepts and answers, and the state machines
//! of streams and consumers.
//!
//! Time, random values and what is in the log come from the caller. Functions return what is to be done.
//! The protocol is that of nats-server 2.15.2.

pub mod contents;
