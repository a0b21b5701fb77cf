//! The tokio shell around tailrace's deterministic core: listeners, connections, request handlers, flusher, HTTP.
//!
//! [`start`] opens a data folder and its listeners; [`Server::stop`] ends them with everything acknowledged on disk.
//! The road of a produced record: `listener` -> `connection` -> `kafka` (header) -> `kafka/produce` (checks) ->
//! `partitions/append` -> `tailrace-replication` -> `tailrace-log`, and back through the connection's ordered replies.
//! The road of a published NATS message is in `nats`.
//!
//! Deliberately not here: what may be appended (replication), what topics and settings there are (metadata, config), bytes on
//! disk (log) and on the wire (kafka-wire, records).

mod aside;
mod ask;
mod budget;
mod cleaner;
mod clock;
mod cluster;
mod collector;
mod controller;
mod coordinators;
mod dirty;
mod disk;
mod group_collector;
mod half_read;
mod http;
mod kafka;
mod memory;
mod metrics;
mod nats;
mod nats_on_http;
mod node;
mod outbox;
mod partitions;
mod peers;
mod random;
mod relay;
mod residency;
mod runtime;
mod scrubber;
mod share;
mod space;
mod start;
mod taps;
mod tls;
mod transport;

pub use cluster::{Addresses, ClusterError, JoinError};
pub use controller::log::MetadataError;
#[cfg(feature = "test-hooks")]
pub use disk::DiskWatcher;
pub use disk::{ServerDisk, ServerFile};
#[cfg(fuzzing)]
pub use peers::fuzzing;
pub use runtime::build_runtime;
pub use start::{Server, StartError, Startup, start};
pub use tls::TlsError;
