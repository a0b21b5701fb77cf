//! Membership of share groups (KIP-932): the members of a group, and the partitions that each fetches from.
//!
//! Members may share partitions, so no member has to give partitions back before another can use them: a
//! member gets its target at once. A partition is assigned once the share coordinator (`crate::share`) has a
//! state for it. The group requests the state by its [`ShareWork`], and [`ShareEvent::StatesInitialized`]
//! confirms it. A group can be removed once no share coordinator holds states of it.

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
