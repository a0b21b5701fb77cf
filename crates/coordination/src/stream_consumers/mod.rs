//! Durable consumers of streams (JetStream): what survives the leader of a stream.
//!
//! The consumers themselves run beside the leader of their stream. This coordinator keeps their
//! configurations and states, which it does not look into, in one partition of `__jetstream_state`. All
//! consumers of a stream are in the same partition, and the leader of that partition need not lead the
//! stream.
//!
//! # Who may write
//! A leader of a stream *opens* its consumers, in its epoch, and gets a generation. From then on writes of
//! other generations are refused, and so are leaders of earlier epochs. The writes of a generation are
//! numbered: one that arrives twice, or late, changes nothing. The generation, the epoch and the number of
//! the last write are a record of their own, which comes last in each write. So a write of which only a part
//! got into the log counts as not done, and is done again.
//!
//! # The log
//! Each consumer has a snapshot, with its configuration, and an update, which has all that has changed since
//! that snapshot. An update is behind its snapshot in the log, so a new snapshot voids it.
//!
//! Deliberately not here: the state machine of a consumer, when it is saved, what its state means.

mod coordinator;
mod state;
#[cfg(test)]
mod tests;

pub use coordinator::{
    ConsumersAnswer, ConsumersCoordinator, ConsumersError, ConsumersEvent, ConsumersReply, ConsumersRequest,
    ConsumersWork,
};
pub use state::{ConsumerWrite, ConsumersPage, ConsumersWrite, KeptConsumer, WholeConsumer};
