//! The first words on a connection between nodes.

use std::ops::RangeInclusive;

use tailrace_types::NodeId;

use super::error::levels_text;

/// Why one node does not want a connection with another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it speaks levels {} of the protocol, this node {}", levels_text(.theirs), levels_text(.ours))]
    Levels { theirs: RangeInclusive<u16>, ours: RangeInclusive<u16> },
    #[error("it belongs to cluster {theirs}, this node to {ours}")]
    OtherCluster { theirs: String, ours: String },
    #[error("it is this node itself")]
    Itself,
    #[error("it has this node's number, {0}: give one of them another node.id")]
    SameNode(NodeId),
    #[error("another node with number {0} is alive: give one of them another node.id")]
    DuplicateNode(NodeId),
    #[error("it is node {found}, not {expected}")]
    OtherNode { expected: NodeId, found: NodeId },
    #[error("one of the two has not joined a cluster yet")]
    NotJoined,
    #[error("it has too many connections")]
    TooMany,
    #[error("it stops")]
    Stopping,
}
