//! Load from several machines: agents that drive connections, and a coordinator that starts them together and
//! adds up their measurements.
//!
//! Frames over TLS (`link`, `handshake`) carry messages in JSON. A connection keeps its number, and so its
//! due times, whichever agent drives it. Histograms are added, never averaged. [`offset`] estimates and
//! bounds the offset between the agents' clocks. If publisher and subscriber of a connection are on two
//! machines, that bound is a part of the result. Nothing here knows command lines or files of results.

mod agent;
mod assignment;
#[cfg(test)]
mod clock_tests;
mod conversation;
mod coordinator;
mod error;
mod frames;
mod handshake;
mod key;
mod link;
mod load;
mod messages;
pub mod offset;
mod outcome;
mod peer;
mod placement;
mod report;
mod session;
mod shifted;
mod work;

pub use agent::Agent;
pub(crate) use agent::AgentOptions;
pub use coordinator::Coordinator;
pub use error::RemoteError;
pub use key::Key;
pub(crate) use link::AnyCertificate;
pub(crate) use load::RemoteLoad;
pub use outcome::RemoteOutcome;
pub use placement::Placement;
pub use report::{AgentReport, ClockReport, RemoteReport};

/// The most agents of one run.
pub(crate) const AGENTS_MAX: usize = 256;
