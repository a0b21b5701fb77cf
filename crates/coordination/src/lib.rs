//! Coordinators of groups, transactions, share groups, and the durable consumers of streams.
//!
//! Everything here is deterministic and free of I/O: no clock, no randomness, no files, no threads. A
//! coordinator takes events, the time and the metadata, and returns [`coordinator::Effects`]. Kafka's error
//! codes are the caller's task; errors here are typed.

pub mod coordinator;
pub mod groups;
pub mod share;
pub mod stream_consumers;
pub mod transactions;
