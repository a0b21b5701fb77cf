//! Consumers, beside the table of their stream at its leader.
//!
//! - `types`: what nodes ask the leader, and what it answers. `asked` answers.
//! - `registry` has the consumers of all streams that this node leads; `beside` those of one stream: their
//!   state machines (`member`, `rules`, `view`), one lock, one set of deadlines. `keep` is the task of a
//!   stream that keeps these. `create` makes consumers.
//! - `pulls`: a pull has a box for what its client is to get. The client's node asks for it, again and again:
//!   no node pushes. A push consumer has one (`push`), from which a task sends (`sending`). `items` is what
//!   boxes contain, `reading` reads the messages.
//! - `events`: advisories, for those who listen to them.
//! - Durable consumers survive their leader. `unsaved` gathers what has changed; `saving` loads and saves,
//!   and asks the coordinator that keeps them in `__jetstream_state` for that (`kept`). Answers that promise
//!   something wait until it is saved. Others are in the leader's memory, and lost with it.
//!
//! Bounds: consumers of a stream, pulls of a node and messages without an acknowledgement of a consumer are
//! settings. A consumer with many messages in its boxes delivers no more until they are taken.

mod asked;
mod beside;
mod create;
mod events;
mod items;
mod keep;
mod kept;
mod member;
mod pulls;
mod push;
mod reading;
mod registry;
mod resume;
mod rules;
mod saving;
mod sending;
#[cfg(test)]
mod tests;
mod types;
mod unsaved;
mod view;
mod writer;

pub(super) use asked::answer_consumers;
pub(super) use keep::count;
pub(crate) use kept::{KeepFailure, ask_here as ask_coordinator_here};
pub(super) use registry::Registry;
pub(crate) use resume::resume as resume_consumers;
pub(crate) use saving::save_all as save_consumers;
pub use types::{
    AckAsk, Acked, ConsumerFacts, CreateConsumer, FlowAsk, Pulled, PulledItem, PulledMessage, Reached,
};
pub(crate) use types::{ConsumerAnswer, ConsumerAsk};
