//! One running node, without a client protocol: its partitions, its metadata, its place in a cluster, and what coordinates groups,
//! transactions and share groups.
//!
//! [`start`] opens a data folder; [`RunningNode::stop`] ends it with everything acknowledged on disk. Fronts bring clients to it
//! ([`Fronts`]); none is needed.
//!
//! `examples/embedded.rs` is a program around one: it makes a topic, appends, reads, hears of what is committed, and stops.
//!
//! It runs in the world that it finds (`tailrace_env`): a program that embeds it begins with `tailrace_runtime::install()`.
//!
//! State lies below, behaviour above: [`Node`] has the state of every room as a field, and the files that define it do not know the
//! node. What a room does lies in files above, which take the node.
//!
//! Deliberately not here: client protocols (kafka, nats, http), what may be appended (replication), what topics and settings there
//! are (metadata, config), bytes on disk (log).
//!
//! # Traps
//!
//! * A partition's sync state has four values so that one partition is never synced by two flusher threads at
//!   once: two syncs of one file serve fewer waiters each.
//! * No worker thread waits for a partition's lock: an append may hold it while it waits for such a thread. Who
//!   needs both takes the lock first, and without blocking.
//! * What follows an append (a sync, word to those who wait) happens where the append happened, so that a client
//!   that goes away meanwhile cannot leave it undone. For the same reason commands to the controller are spawned.
//! * The controller publishes the new image, then opens partitions, then answers, all under its lock: produce
//!   right after CreateTopics works. On every node the partitions are brought in line by the difference between
//!   table and image (`controller/effects.rs`), not record by record: so a snapshot of the metadata, or a change
//!   that was missed, needs no code of its own.
//! * A coordinator's appends name the epoch in which it was loaded: between losing leadership and winning it
//!   again, others may have written.
//! * A node tells others its address when it connects (`RequestKind::Status`): after a restart on another port the
//!   metadata would tell them only once there is a majority, which may need this node.
//! * A replica's folder may be gone while its id is known to others; `partitions/journal.rs` is written after the
//!   folder is durable and before the replica takes part. The other way round, a crash between the two would lose
//!   a replica that never was.
//! * A guard is drawn before a transaction's coordinator is asked, and a marker makes it worthless: a batch that
//!   was verified may arrive when its transaction has ended, and would open one that nobody ends.

pub mod ask;
mod caller;
mod cleaner;
pub mod cluster;
mod collector;
pub mod controller;
pub mod coordinators;
mod deadlines;
mod dirty;
mod disk;
mod face;
mod group_collector;
mod metrics;
mod node;
pub mod partitions;
pub mod relay;
mod retry;
mod scrubber;
pub mod share;
mod space;
mod start;
mod sync;
pub mod taps;
#[cfg(test)]
mod testing;

pub use caller::{Caller, Door};
pub use disk::NodeDisk;
pub use node::Node;
pub use start::{DataFolder, Fronts, RunningNode, StartError, Startup, start};
