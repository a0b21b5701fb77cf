//! Seeded fakes of the world that the shipped crates run in. For development only.
//!
//! [`SimDisk`] is a disk in memory that forgets unsynced data, tears writes, fails and fills up, all from one
//! seed. [`group`] runs one replicated partition under faults. [`storm`] runs whole servers with clients of
//! all kinds. This crate deliberately contains no copies or variants of shipped code: it drives the shipped
//! crates.

pub mod checks;
mod computer;
mod disk;
pub mod group;
mod history;
mod mask;
mod network;
mod rng;
pub mod storm;
mod tables;
mod world;

pub use disk::{CrashMode, Effect, Op, OpKind, Rule, SimDisk, SimFile, Stats};
pub use mask::{Failure, Mask};
pub use rng::Rng;
pub use world::here;
