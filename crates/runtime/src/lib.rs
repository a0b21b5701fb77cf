//! The real world around a node: tokio, disks, sockets, TLS, clocks, random numbers, memory, and the registry of metrics.
//!
//! Nothing here knows of topics, nodes or protocols.

pub mod aside;
pub mod budget;
pub mod clock;
pub mod disk;
mod listen;
pub mod memory;
pub mod metrics;
pub mod random;
pub mod residency;
mod tasks;
pub mod tls;
pub mod transport;

pub use listen::{ListenError, listen};
pub use tasks::{build_runtime, stopped, task};
