//! One running node, without a client protocol: its partitions, its metadata, its place in a cluster, and what coordinates groups,
//! transactions and share groups.
//!
//! [`start`] opens a data folder; [`RunningNode::stop`] ends it with everything acknowledged on disk. Fronts bring clients to it
//! ([`Fronts`]); none is needed.
//!
//! Deliberately not here: client protocols (kafka, nats, http), what may be appended (replication), what topics and settings there
//! are (metadata, config), bytes on disk (log).

pub mod ask;
mod cleaner;
pub mod cluster;
mod collector;
pub mod controller;
pub mod coordinators;
mod dirty;
mod group_collector;
mod metrics;
mod node;
pub mod partitions;
pub mod relay;
mod scrubber;
pub mod share;
mod space;
mod start;
pub mod taps;
#[cfg(test)]
mod testing;

pub use node::Node;
pub use start::{DataFolder, Fronts, RunningNode, StartError, Startup, start};
