//! Requests of the classic protocol, and their answers.

use std::sync::Arc;

use bytes::Bytes;

use crate::groups::error::GroupError;
use crate::groups::member::{ClientIdentity, NamedBytes};
use crate::groups::state::GroupState;

/// A request of the classic protocol.
#[derive(Debug)]
pub enum ClassicEvent {
    /// A member wants to belong to the next generation (JoinGroup).
    Join(JoinRequest),
    /// A member wants its assignment; the leader brings everybody's (SyncGroup).
    Sync(SyncRequest),
    /// A member is alive.
    Heartbeat(MemberReference),
    /// Members go, or an administrator removes them. Answered in the same order.
    Leave(Vec<LeavingMember>),
}

/// An answer to one.
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
    /// Where the member comes from.
    pub client: ClientIdentity,
    /// Its id, empty if it has none yet.
    pub member: Arc<str>,
    /// A fresh, unique id that it gets if it has none.
    pub fresh_member: Arc<str>,
    /// Its static identity (KIP-345).
    pub instance: Option<Arc<str>>,
    /// How long it may be silent, in milliseconds.
    pub session_timeout_ms: i32,
    /// How long it may take to join again when the group is rebalanced, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// What kind of thing the members are: `consumer`, `connect`.
    pub protocol_type: String,
    /// The assignment strategies that it knows, the one it likes best first, each with its subscription.
    pub protocols: Vec<NamedBytes>,
    /// What its client can do.
    pub abilities: JoinAbilities,
}

/// What versions of JoinGroup differ in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinAbilities {
    /// It joins a second time with the id that it is given (version 4, KIP-394).
    pub comes_back_with_id: bool,
    /// A leader that comes back can be told not to assign anew (version 9, KIP-814).
    pub skips_assignment: bool,
}

/// What a member learns when the group has come together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joined {
    /// Its generation.
    pub generation: i32,
    /// What kind of thing the members are.
    pub protocol_type: Option<Arc<str>>,
    /// The strategy that all know.
    pub protocol: Option<Arc<str>>,
    /// Who assigns.
    pub leader: Arc<str>,
    /// The member's own id.
    pub member: Arc<str>,
    /// True if the leader shall leave the assignment as it is.
    pub skip_assignment: bool,
    /// All members, for the leader alone.
    pub members: Vec<JoinedMember>,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedMember {
    /// Its id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// Its subscription in the group's protocol.
    pub subscription: Bytes,
}

/// Who asks, in which generation.
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
    /// Who asks.
    pub by: MemberReference,
    /// The protocol type that the member expects, if it says so.
    pub protocol_type: Option<String>,
    /// The protocol that the member expects, if it says so.
    pub protocol: Option<String>,
    /// From the leader: each member's assignment.
    pub assignments: Vec<(Arc<str>, Bytes)>,
}

/// A member's assignment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Synced {
    /// What kind of thing the members are.
    pub protocol_type: Option<Arc<str>>,
    /// The group's protocol.
    pub protocol: Option<Arc<str>>,
    /// In that protocol.
    pub assignment: Bytes,
}

/// Who leaves.
#[derive(Clone, Debug)]
pub struct LeavingMember {
    /// The member's id; may be empty if there is an instance id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
}

/// A group as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassicDescription {
    /// What it is doing.
    pub state: GroupState,
    /// What kind of thing the members are, empty if there never were any.
    pub protocol_type: String,
    /// Its protocol, empty while there is none.
    pub protocol: String,
    /// Its members, by id.
    pub members: Vec<ClassicMemberDescription>,
}

/// A member as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassicMemberDescription {
    /// Its id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// Where it comes from.
    pub client: ClientIdentity,
    /// Its subscription, empty unless the group is stable.
    pub subscription: Bytes,
    /// The assignment that it was given last.
    pub assignment: Bytes,
}

impl ClassicReply {
    /// The refusal of a request of the same kind.
    pub(super) fn refusal(event: &ClassicEvent, error: GroupError) -> Self {
        match event {
            ClassicEvent::Join(_) => Self::Join(Err(error)),
            ClassicEvent::Sync(_) => Self::Sync(Err(error)),
            ClassicEvent::Heartbeat(_) => Self::Heartbeat(Err(error)),
            ClassicEvent::Leave(_) => Self::Leave(Err(error)),
        }
    }
}

/// What a classic group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClassicTimer {
    /// Members to join.
    Join,
    /// Members to ask for their assignment.
    Sync,
    /// A sign of life of a member.
    Session(Arc<str>),
}
