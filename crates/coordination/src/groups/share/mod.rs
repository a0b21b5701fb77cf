//! Membership of share groups (KIP-932): who is in a group, and which partitions each member fetches from.
//!
//! Members may share partitions, so nothing has to be given back before others use it: a member simply has its target. A
//! partition is assigned once the share coordinator (`crate::share`) has a state for it; the group asks for that by its
//! [`ShareWork`] and is told by [`ShareEvent::StatesInitialized`]. A group goes once no share coordinator keeps anything for it.

mod describe;
mod event;
mod group;
mod heartbeat;
mod replay;
mod states;
mod step;

pub(crate) use event::ShareTimer;
pub use event::{
    OpenedStates, ShareDescription, ShareEvent, ShareHeartbeat, ShareMemberDescription, ShareReply, ShareWork,
};
pub(crate) use group::ShareGroup;
pub use states::StateDeletion;
