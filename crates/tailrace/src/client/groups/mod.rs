//! Consumer groups: a list of them, their members, and their offsets.
//!
//! There are three kinds, each with requests of its own: classic groups, consumer groups with server-side
//! assignment (KIP-848), and share groups (KIP-932). Streams groups are listed, and their offsets are handled
//! like those of a classic group.

mod assignment;
mod describe;
mod list;
mod offsets;

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use describe::{describe_group, find_group};
pub(crate) use list::list_groups;
pub(crate) use offsets::{
    Position, commit_offsets, committed_offsets, delete_group, delete_offsets, delete_share_offsets,
    set_share_offsets, share_offsets,
};

/// The kind of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupKind {
    Classic,
    Consumer,
    Share,
    Streams,
    /// A kind that this version of tailrace does not know.
    Other(String),
}

impl GroupKind {
    /// Parses the name in a response. Servers that send no kind have classic groups only.
    fn named(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "" | "classic" => Self::Classic,
            "consumer" => Self::Consumer,
            "share" => Self::Share,
            "streams" => Self::Streams,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
            Self::Streams => "streams",
            Self::Other(name) => name,
        })
    }
}

/// A group in a list.
#[derive(Clone, Debug)]
pub(crate) struct ListedGroup {
    pub(crate) id: String,
    pub(crate) kind: GroupKind,
    /// Empty if the server does not send it.
    pub(crate) state: String,
    /// `consumer` for groups of consumers; empty for groups that only have offsets.
    pub(crate) protocol_type: String,
}

/// Partitions by topic.
pub(crate) type Assignment = BTreeMap<String, Vec<i32>>;

/// A group with its members.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) id: String,
    pub(crate) kind: GroupKind,
    pub(crate) state: String,
    /// The assignor; empty if there is none.
    pub(crate) assignor: String,
    /// The node that coordinates the group.
    pub(crate) coordinator: i32,
    /// The group's epoch, if the server assigns: grows with every change of members and topics.
    pub(crate) epoch: Option<i32>,
    /// The epoch that the assignment belongs to.
    pub(crate) assignment_epoch: Option<i32>,
    /// Sorted by id.
    pub(crate) members: Vec<Member>,
}

impl Group {
    /// Reports whether offsets can be changed from outside: the group has no members.
    pub(crate) fn is_idle(&self) -> bool {
        self.members.is_empty() && matches!(self.state.as_str(), "Empty" | "Dead")
    }

    /// The member that reads a partition now.
    pub(crate) fn reader(&self, topic: &str, partition: i32) -> Option<&Member> {
        self.members
            .iter()
            .find(|member| member.assignment.get(topic).is_some_and(|assigned| assigned.contains(&partition)))
    }
}

/// A member of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    pub(crate) id: String,
    /// The instance id of a static member.
    pub(crate) instance: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) client_id: String,
    pub(crate) host: String,
    /// The member's epoch, if the server assigns.
    pub(crate) epoch: Option<i32>,
    /// Topics that it subscribes to by name.
    pub(crate) topics: Vec<String>,
    /// The pattern that it subscribes to.
    pub(crate) pattern: Option<String>,
    pub(crate) assignment: Assignment,
    /// The target assignment, if the server assigns.
    pub(crate) target: Option<Assignment>,
}
