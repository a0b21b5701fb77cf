//! Groups of consumers: which there are, who is in them, and where they stand.
//!
//! Three kinds are told apart, since each has requests of its own: classic groups, consumer groups that the server assigns
//! (KIP-848), and share groups (KIP-932). Streams groups are listed, and their offsets are those of a classic group.

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

/// What kind of group it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupKind {
    Classic,
    Consumer,
    Share,
    Streams,
    /// A kind that this tailrace does not know.
    Other(String),
}

impl GroupKind {
    /// From the name in an answer; servers that know no kinds have classic groups only.
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

/// A group as a list shows it.
#[derive(Clone, Debug)]
pub(crate) struct ListedGroup {
    pub(crate) id: String,
    pub(crate) kind: GroupKind,
    /// Empty on servers that do not tell.
    pub(crate) state: String,
    /// `consumer` for what consumers use; empty for groups that only have offsets.
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
    /// Who divides the partitions; empty where nobody does.
    pub(crate) assignor: String,
    /// The node that coordinates it.
    pub(crate) coordinator: i32,
    /// Of groups that the server assigns: grows with every change of members and topics.
    pub(crate) epoch: Option<i32>,
    /// The epoch that the assignment belongs to.
    pub(crate) assignment_epoch: Option<i32>,
    /// By id.
    pub(crate) members: Vec<Member>,
}

impl Group {
    /// True if offsets can be changed from outside: nobody is in it.
    pub(crate) fn is_idle(&self) -> bool {
        self.members.is_empty() && matches!(self.state.as_str(), "Empty" | "Dead")
    }

    /// Who reads a partition now.
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
    /// The name that a static member gave itself.
    pub(crate) instance: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) client_id: String,
    pub(crate) host: String,
    /// Of groups that the server assigns.
    pub(crate) epoch: Option<i32>,
    /// What it subscribed to by name.
    pub(crate) topics: Vec<String>,
    /// What it subscribed to by pattern.
    pub(crate) pattern: Option<String>,
    pub(crate) assignment: Assignment,
    /// What it shall have, where the server assigns.
    pub(crate) target: Option<Assignment>,
}
