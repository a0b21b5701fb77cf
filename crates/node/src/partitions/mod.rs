//! Partitions as the shell holds them: handles, the table of topics, appends, the flusher and upkeep.

pub mod append;
mod by_time;
mod epochs;
mod failure;
mod flusher;
mod handle;
mod inbox;
mod journal;
mod lost;
mod open;
mod read;
mod settings;
mod sleep;
mod stepper;
mod table;
#[cfg(test)]
mod tests;
mod ticker;
mod upkeep;
mod workers;

pub(crate) use append::{Appending, append_in_epoch, appending};
pub use append::{append, append_marker, append_verified, begin_verification, begin_verification_if_needed};
pub use by_time::Lookups;
pub use failure::{AppendFailure, LookupFailure};
pub(crate) use flusher::start_flusher;
pub(crate) use handle::Flusher;
pub(crate) use handle::PartitionContext;
pub(crate) use handle::{AppendWatch, Ending};
pub use handle::{Awaited, Core, PartitionHandle, WaitOutcome};
pub(crate) use journal::Journal;
pub(crate) use lost::replace_lost;
pub(crate) use open::{OpenError, Opener, with_index_built_again};
pub use read::{Bounds, EpochMismatch, Isolation, ReadFailure, ReadOutcome, ReadTerms};
pub(crate) use read::{Readable, readable};
pub(crate) use settings::{log_config, policy, replica_options};
pub(crate) use stepper::Stepper;
pub(crate) use table::PartitionSlot;
pub use table::{FollowsTopics, NotHere, Topic, TopicTable};
pub(crate) use ticker::tick;
pub use upkeep::advance_log_start;
pub(crate) use upkeep::close_all;
pub(crate) use upkeep::{keep_open, keep_up};
