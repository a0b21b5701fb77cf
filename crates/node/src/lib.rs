//! One running node without a client protocol: its partitions, its metadata, its membership in a cluster, and
//! the coordinators of groups, transactions and share groups.
//!
//! [`start`] opens a data folder. [`RunningNode::stop`] stops the node with everything acknowledged on disk.
//! Fronts connect clients to it ([`Fronts`]), but the node needs none.
//!
//! `examples/embedded.rs` embeds a node in a program: it creates a topic, appends, reads, learns what is
//! committed, and stops. `tests/embedded.rs` runs it.
//!
//! A node runs in the world that is installed (`tailrace_env`). A program that embeds one first calls
//! `tailrace_runtime::install()`.
//!
//! State is below, behaviour above. [`Node`] has the state of every room as a field, and the files that
//! define that state do not know the node. The behaviour of a room is in files above, which take the node.
//!
//! Deliberately elsewhere: client protocols (kafka, nats, http), what may be appended (replication), which
//! topics and settings exist (metadata, config), bytes on disk (log).
//!
//! # Traps
//!
//! * A partition's sync state has four values, so that two flusher threads never sync one partition at once.
//!   Two concurrent syncs of one file would each serve fewer waiters.
//! * No worker thread waits for a partition's lock, because an append may hold the lock while it waits for
//!   such a thread. Code that needs both takes the lock first, and without blocking.
//! * What follows an append (a sync, waking waiters) happens where the append happened, so that a client that
//!   disconnects meanwhile cannot leave it undone. For the same reason commands to the controller are
//!   spawned.
//! * The controller publishes the new image, then opens partitions, then answers, all under its lock, so that
//!   a produce right after CreateTopics works. Every node brings its partitions in line by the difference
//!   between table and image (`controller/effects.rs`), not record by record. So a metadata snapshot, or a
//!   change that the node missed, needs no code of its own.
//! * A coordinator's appends name the epoch in which it was loaded: between losing leadership and winning it
//!   again, others may have written.
//! * A node tells others its address when it connects (`RequestKind::Status`). After a restart on another
//!   port, the metadata would tell them only once there is a majority, which may need this node.
//! * A replica's folder may be gone while other nodes know its id. `partitions/journal.rs` is written after
//!   the folder is durable and before the replica takes part. In the opposite order, a crash between the two
//!   steps would report the loss of a replica that never existed.
//! * A guard is issued before the coordinator of a transaction is asked, and a marker invalidates it. A
//!   verified batch may arrive after its transaction has ended, and would otherwise open a transaction that
//!   is never ended.

pub mod access;
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
mod rate;
pub mod relay;
mod retry;
mod scrubber;
pub mod share;
mod space;
mod start;
pub mod streams;
mod sync;
pub mod taps;
#[cfg(test)]
mod testing;

pub use caller::{Caller, Door};
pub use disk::NodeDisk;
pub use node::Node;
pub use start::{DataFolder, Fronts, RunningNode, StartError, Startup, start};
