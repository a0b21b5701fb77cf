//! Seeded fakes of the world that the shipped crates run in: development only.
//!
//! [`SimDisk`] is a disk in memory that forgets what was not synced, tears, fails and fills up, all from one seed.
//! [`group`] is one replicated partition under faults, [`storm`] are whole servers with clients of all kinds. What this crate deliberately
//! does not hold: copies or variants of shipped code. It drives the shipped crates.

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
