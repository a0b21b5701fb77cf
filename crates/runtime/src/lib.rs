//! The real world around a node: tokio, disks, sockets, clocks, random numbers, memory. It implements
//! [`World`](tailrace_env::World).
//!
//! Nothing here knows about topics, nodes or protocols.
//!
//! # Traps
//!
//! * cachestat(2) counts pages that are still being read from the disk as cached. Only a non-blocking read
//!   tells the two apart.
//! * The accept backlog of a listener is long (4,096). If a storm of connections overflows it, SYN cookies
//!   leave NATS clients half connected for good, because they wait for the server to speak first.
//! * glibc keeps the 64 KiB buffers of slow consumers in their arenas forever. `memory.rs` asks for them back
//!   afterwards. By default glibc maps and unmaps every allocation above 128 KiB separately. That cost a
//!   quarter of the CPU of three nodes under full load, because the kernel clears each page again. We now
//!   keep allocations of up to 4 MiB, and 8 MiB at the end of each arena.

pub mod disk;
pub mod memory;
mod net;
pub mod residency;
mod tasks;
mod world;

pub use tasks::build_runtime;
pub use world::{install, world};
