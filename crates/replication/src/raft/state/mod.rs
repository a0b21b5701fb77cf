//! What a replica keeps for each of its tasks.
//!
//! The replica holds all of this, and the files beside this folder act on it. So nothing here knows of the replica.

#[cfg(feature = "deliberate-bugs")]
mod bug;
mod fetch;
mod hibernation;
mod mending;
mod offers;

use std::collections::BTreeMap;

use raft::eraftpb::Message;
use tailrace_types::LogEnd;

#[cfg(feature = "deliberate-bugs")]
pub use bug::DeliberateBug;
pub(super) use fetch::Fetch;
pub use hibernation::Lease;
pub(super) use hibernation::{Hibernation, SleepState};
pub(super) use mending::{Mending, RELUCTANCE, Repair, lost_range};
pub(super) use offers::{IDLE_TIMEOUTS, Offer, Offers};

/// What was written, and waits to be durable before others may know.
pub(crate) struct Written {
    pub(crate) number: u64,
    pub(crate) end: LogEnd,
    pub(crate) messages: Vec<Message>,
}

/// The learners that are paced, each with the ticks for which what it was sent has been unanswered.
pub(crate) type Pacing = BTreeMap<u64, Option<usize>>;
