//! From settings to one running process: a node, its fronts, and their listeners. The only place that knows all of them.
//!
//! [`start`] opens a data folder and its listeners; [`Server::stop`] ends them with everything acknowledged on disk.
//!
//! # Traps
//!
//! * A crate's integration tests are a few binaries with a module per behaviour (`tests/kafka`, `nats`,
//!   `rdkafka`), since each binary links everything below it. A test that changes or measures its process
//!   (environment, limits, allocator) is a binary by itself.

mod nats_on_http;
mod panics;
mod start;
#[cfg(test)]
mod tests;

pub use panics::watch_panics;
pub use start::{Server, StartError, Startup, start};
pub use tailrace_node::NodeDisk;
pub use tailrace_node::cluster::Addresses;
