//! Coordinators: who belongs to a group and how far it has read, how far a transaction is, what a share group has had.
//!
//! Everything here is deterministic and free of I/O: no clock, no randomness, no files, no threads. A coordinator takes
//! events, the time and the metadata, and returns [`coordinator::Effects`]. Kafka's error codes are the shell's
//! business: errors here are typed facts.

pub mod coordinator;
pub mod groups;
pub mod share;
pub mod transactions;
