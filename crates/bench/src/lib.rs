//! The instrument of `tailrace bench`: open-loop load, whole latency distributions, and clients for many
//! systems.
//!
//! It measures response time, from the moment a message was *due*, not service time from when it was sent. It
//! uses nothing of tailrace's server, so it judges every system in the same way. Except for [`verbs`], the
//! command line on top, it starts no systems and knows no options.

pub mod calibrate;
pub mod clock;
pub mod compare;
pub mod engine;
pub mod error;
pub mod payload;
pub mod proxy;
pub mod recorder;
pub mod remote;
pub mod report;
pub mod requester;
pub mod sampler;
pub mod scalability;
pub mod schedule;
pub mod systems;
pub mod verbs;
pub mod verdict;
pub mod version;
pub mod windowed;
