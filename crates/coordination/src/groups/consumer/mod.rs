//! Consumer groups (KIP-848): members send heartbeats, and the coordinator assigns partitions. Members move
//! to their assignment one by one, so that no member has to stop for the others.
//!
//! `event.rs` has the events, `group.rs` the state and its records, `turn.rs` the common steps of decisions,
//! `reconcile.rs` the way of a member from its current assignment to its target. `step.rs` dispatches the
//! coordinator's events to a group. `heartbeat.rs` handles the only request of the protocol,
//! `classic_members.rs` those of members that still use JoinGroup, `convert.rs` the conversion of groups from
//! one kind to the other.
//!
//! Everything is written, so that members do not notice a restart: they get a new session and continue.

mod classic_members;
mod convert;
mod describe;
mod embedded;
mod event;
mod expression;
mod group;
mod heartbeat;
mod member;
mod offsets;
mod reconcile;
mod replay;
mod settings;
mod step;
mod turn;

pub(crate) use event::ConsumerTimer;
pub use event::{
    ConsumerDescription, ConsumerEvent, ConsumerHeartbeat, ConsumerMemberDescription, ConsumerReply,
    SeenTopics,
};
pub(crate) use group::ConsumerGroup;
pub(crate) use member::partitions_of_record;
