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
//!
//! Everything is in the leader's memory, and lost with it. docs/jetstream.md says what that means for
//! clients.
//!
//! Bounds: consumers of a stream, pulls of a node and messages without an acknowledgement of a consumer are
//! settings. A consumer with many messages in its boxes delivers no more until they are taken.

mod asked;
mod beside;
mod create;
mod events;
mod items;
mod keep;
mod member;
mod pulls;
mod push;
mod reading;
mod registry;
mod rules;
mod sending;
#[cfg(test)]
mod tests;
mod types;
mod view;

pub(super) use asked::answer_consumers;
pub(super) use registry::Registry;
pub use types::{
    AckAsk, Acked, ConsumerFacts, CreateConsumer, FlowAsk, Pulled, PulledItem, PulledMessage, Reached,
};
pub(crate) use types::{ConsumerAnswer, ConsumerAsk};
