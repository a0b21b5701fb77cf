//! Consumer groups (KIP-848): members send heartbeats, the coordinator assigns, and members are taken to their
//! assignment one by one, so that nobody has to stop for the others.
//!
//! `event.rs` has what can happen, `group.rs` the state and its records, `turn.rs` the steps that decisions are made of,
//! `reconcile.rs` how a member gets from what it has to what it shall have. `step.rs` is the coordinator's road through
//! a group; `heartbeat.rs` is the one request of the protocol, `classic_members.rs` those of members that still use
//! JoinGroup, `convert.rs` the change of a group from one kind to the other.
//!
//! Everything is written, so that members do not notice a restart: they get a new session and go on.

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
};
pub(crate) use group::ConsumerGroup;
pub(crate) use member::partitions_of_record;
