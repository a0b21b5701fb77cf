//! The state that a replica keeps for each of its tasks.
//!
//! The replica owns all of this state, and the files next to this folder act on it. So nothing here refers to
//! the replica.

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

/// Entries that were written and have to become durable before other replicas may learn of them.
pub(crate) struct Written {
    pub(crate) number: u64,
    pub(crate) end: LogEnd,
    pub(crate) messages: Vec<Message>,
}

/// The paced learners, each with the ticks since its last message, if that is unanswered.
pub(crate) type Pacing = BTreeMap<u64, Option<usize>>;
