//! Classic groups: members join, their leader assigns, everybody syncs (Kafka's protocol of JoinGroup and SyncGroup).
//!
//! `event.rs` has what can happen, `group.rs` the state, `turn.rs` what follows from a change of it (rebalances, answers,
//! deadlines). `step.rs` is the coordinator's road through a group, and `join.rs`, `sync.rs`, `heartbeat.rs`, `leave.rs`
//! one request each. A group is written to the log when it is stable or empty; what happens in between lives in memory,
//! and after a restart members find themselves in the generation that was written last.

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
