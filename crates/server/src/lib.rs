//! Turns settings into one running process: a node, its fronts, and their listeners. No other crate knows all
//! of them.
//!
//! [`start`] opens a data folder and the listeners. [`Server::stop`] shuts everything down and leaves every
//! acknowledged write on disk.
//!
//! # Traps
//!
//! * Each binary of integration tests links every crate below this one, so there are only a few of them, with
//!   one module per behaviour (`tests/kafka`, `nats`, `rdkafka`). A test that changes or measures its process
//!   (environment, limits, allocator) gets its own binary.

mod nats_on_http;
mod panics;
mod start;
#[cfg(test)]
mod tests;

pub use panics::watch_panics;
pub use start::{Server, StartError, Startup, start};
pub use tailrace_node::NodeDisk;
pub use tailrace_node::cluster::Addresses;
