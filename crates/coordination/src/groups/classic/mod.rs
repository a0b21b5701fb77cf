//! Classic groups: members join, their leader assigns, all members sync (Kafka's protocol of JoinGroup and
//! SyncGroup).
//!
//! `event.rs` has the events, `group.rs` the state, `turn.rs` the consequences of a change (rebalances,
//! replies, deadlines). `step.rs` dispatches the coordinator's events to a group. `join.rs`, `sync.rs`,
//! `heartbeat.rs` and `leave.rs` handle one request each. A group is written to the log when it is stable or
//! empty. The states in between are kept in memory, and after a restart members are in the generation that
//! was written last.

mod convert;
mod event;
mod group;
mod heartbeat;
mod join;
mod leave;
mod member;
mod step;
mod subscription;
mod sync;
mod turn;

pub(in crate::groups) use convert::ClassicSeed;
pub(crate) use event::ClassicTimer;
pub use event::{
    ClassicDescription, ClassicEvent, ClassicMemberDescription, ClassicReply, JoinAbilities, JoinRequest,
    Joined, JoinedMember, LeavingMember, MemberReference, SyncRequest, Synced,
};
pub(in crate::groups) use group::{CONSUMER_PROTOCOL, ClassicGroup};
