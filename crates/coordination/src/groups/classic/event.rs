//! Requests of the classic protocol, and their replies.

use std::sync::Arc;

use bytes::Bytes;

use crate::groups::error::GroupError;
use crate::groups::member::{ClientIdentity, NamedBytes};
use crate::groups::state::GroupState;

/// A request of the classic protocol.
#[derive(Debug)]
pub enum ClassicEvent {
    /// A member joins the next generation (JoinGroup).
    Join(JoinRequest),
    /// A member asks for its assignment. The leader brings the assignments of all members (SyncGroup).
    Sync(SyncRequest),
    /// A heartbeat of a member.
    Heartbeat(MemberReference),
    /// Members leave, or an administrator removes them. The reply has the same order.
    Leave(Vec<LeavingMember>),
}

/// A reply to a [`ClassicEvent`].
#[derive(Clone, Debug, PartialEq)]
pub enum ClassicReply {
    /// To [`ClassicEvent::Join`].
    Join(Result<Joined, GroupError>),
    /// To [`ClassicEvent::Sync`].
    Sync(Result<Synced, GroupError>),
    /// To [`ClassicEvent::Heartbeat`].
    Heartbeat(Result<(), GroupError>),
    /// To [`ClassicEvent::Leave`].
    Leave(Result<Vec<Result<(), GroupError>>, GroupError>),
}

/// A JoinGroup request.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// The member's client.
    pub client: ClientIdentity,
    /// Its id. Empty if it has none yet.
    pub member: Arc<str>,
    /// A fresh, unique id for a member without one.
    pub fresh_member: Arc<str>,
    /// Its static identity (KIP-345).
    pub instance: Option<Arc<str>>,
    /// Session timeout in milliseconds: how long the member may send nothing.
    pub session_timeout_ms: i32,
    /// Rebalance timeout in milliseconds: how long the member may take to join again.
    pub rebalance_timeout_ms: i32,
    /// The type of the members: `consumer`, `connect`.
    pub protocol_type: String,
    /// The member's assignment protocols, in order of preference, each with its subscription.
    pub protocols: Vec<NamedBytes>,
    /// Capabilities of its client.
    pub abilities: JoinAbilities,
}

/// Differences between versions of JoinGroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinAbilities {
    /// The client joins a second time with the id that it was given (version 4, KIP-394).
    pub comes_back_with_id: bool,
    /// A leader that rejoins can be told to skip the assignment (version 9, KIP-814).
    pub skips_assignment: bool,
}

/// The reply to a member when the join phase is complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joined {
    /// The generation.
    pub generation: i32,
    /// The type of the members.
    pub protocol_type: Option<Arc<str>>,
    /// The chosen assignment protocol.
    pub protocol: Option<Arc<str>>,
    /// The leader's id.
    pub leader: Arc<str>,
    /// The member's own id.
    pub member: Arc<str>,
    /// True if the leader must leave the assignment as it is.
    pub skip_assignment: bool,
    /// All members. Only the leader gets them.
    pub members: Vec<JoinedMember>,
}

/// A member, as the leader sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedMember {
    /// Its id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// Its subscription in the group's protocol.
    pub subscription: Bytes,
}

/// A member and the generation it knows.
#[derive(Clone, Debug)]
pub struct MemberReference {
    /// The member's id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// The generation that it knows.
    pub generation: i32,
}

/// A SyncGroup request.
#[derive(Clone, Debug)]
pub struct SyncRequest {
    /// The member.
    pub by: MemberReference,
    /// The protocol type that the member expects, if it sends one.
    pub protocol_type: Option<String>,
    /// The protocol that the member expects, if it sends one.
    pub protocol: Option<String>,
    /// From the leader: the assignment of each member.
    pub assignments: Vec<(Arc<str>, Bytes)>,
}

/// A member's assignment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Synced {
    /// The type of the members.
    pub protocol_type: Option<Arc<str>>,
    /// The group's protocol.
    pub protocol: Option<Arc<str>>,
    /// The assignment, in the group's protocol.
    pub assignment: Bytes,
}

/// A member that leaves.
#[derive(Clone, Debug)]
pub struct LeavingMember {
    /// The member's id. May be empty if there is an instance id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
}

/// A group, as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassicDescription {
    /// Its state.
    pub state: GroupState,
    /// The type of the members. Empty if there never were any.
    pub protocol_type: String,
    /// The group's assignment protocol. Empty while there is none.
    pub protocol: String,
    /// Its members, by id.
    pub members: Vec<ClassicMemberDescription>,
}

/// A member, as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassicMemberDescription {
    /// Its id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// The member's client.
    pub client: ClientIdentity,
    /// Its subscription. Empty unless the group is stable.
    pub subscription: Bytes,
    /// The last assignment that it was given.
    pub assignment: Bytes,
}

impl ClassicReply {
    /// Returns a refusal of this kind of request.
    pub(super) fn refusal(event: &ClassicEvent, error: GroupError) -> Self {
        match event {
            ClassicEvent::Join(_) => Self::Join(Err(error)),
            ClassicEvent::Sync(_) => Self::Sync(Err(error)),
            ClassicEvent::Heartbeat(_) => Self::Heartbeat(Err(error)),
            ClassicEvent::Leave(_) => Self::Leave(Err(error)),
        }
    }
}

/// A timer of a classic group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClassicTimer {
    /// The time for members to join.
    Join,
    /// The time for members to ask for their assignment.
    Sync,
    /// A member's session.
    Session(Arc<str>),
}
