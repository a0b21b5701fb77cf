//! From settings to one running process: a node, its fronts, and their listeners. The only place that knows all of them.
//!
//! [`start`] opens a data folder and its listeners; [`Server::stop`] ends them with everything acknowledged on disk.

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
