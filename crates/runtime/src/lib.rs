//! The real world around a node: tokio, disks, sockets, clocks, random numbers, memory. It is a
//! [`World`](tailrace_env::World).
//!
//! Nothing here knows of topics, nodes or protocols.
//!
//! # Traps
//!
//! * cachestat(2) counts pages that are still on their way from the disk as cached: only a read without waiting
//!   tells them apart.
//! * A listener's queue is long (4,096): when a storm of connections overflows it, SYN cookies leave clients of
//!   NATS, who wait for the server to speak first, with half a connection for good.
//! * glibc keeps the 64 KiB buffers of slow consumers for their arenas, for ever: `memory.rs` asks for them back
//!   after the event. Pieces above 128 KiB it gets from the system one by one, which cost a quarter of the CPU of
//!   three nodes under full load (each page is cleared again): up to 4 MiB they are kept now, 8 MiB at the end of
//!   each arena.

pub mod disk;
pub mod memory;
mod net;
pub mod residency;
mod tasks;
mod world;

pub use tasks::build_runtime;
pub use world::{install, world};
