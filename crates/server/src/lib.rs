//! From settings to one running process: a node, its fronts, and their listeners. The only place that knows all of them.
//!
//! [`start`] opens a data folder and its listeners; [`Server::stop`] ends them with everything acknowledged on disk.
//!
//! # Traps
//!
//! * A crate's integration tests are a few binaries with a module per behaviour (`tests/kafka`, `nats`,
//!   `rdkafka`), since each binary links everything below it. A test that changes or measures its process
//!   (environment, limits, allocator) is a binary by itself. The watcher of the disk that tests of the server put
//!   before the kernel is behind the feature `test-hooks`, which only that package's own dev-dependency turns on.

mod nats_on_http;
mod start;
#[cfg(test)]
mod tests;

pub use start::{Server, StartError, Startup, start};
pub use tailrace_node::cluster::Addresses;
pub use tailrace_runtime::build_runtime;
#[cfg(feature = "test-hooks")]
pub use tailrace_runtime::disk::DiskWatcher;
pub use tailrace_runtime::disk::{ServerDisk, ServerFile};
