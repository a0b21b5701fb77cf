//! Why a share-partition cannot be read, or a session not continued. Fronts turn these into their protocol's codes.

use std::io;

use tailrace_coordination::share::ShareStateError;
use thiserror::Error;

use crate::coordinators::CoordinatorFailure;
use crate::partitions::ReadFailure;

/// Why the share coordinator did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateFailure {
    /// There is no coordinator that could answer.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorFailure),
    /// The coordinator refuses it.
    #[error(transparent)]
    Refused(#[from] ShareStateError),
}

/// Why records of a share-partition cannot be handed out now.
#[derive(Debug, Error)]
pub enum ShareFailure {
    /// There is no topic of this id, as far as this node knows.
    #[error("there is no such topic")]
    UnknownTopic,
    /// The topic has no such partition.
    #[error("there is no such partition")]
    UnknownPartition,
    /// Another node leads the partition, or what this node had in use of it counts no more: look again.
    #[error("this node does not lead the partition")]
    NotLeader,
    /// The partition is offline.
    #[error("the partition is offline")]
    Offline,
    /// The group has no state of the partition: nobody has joined it, as far as its coordinator knows.
    #[error("the group has no state of the partition")]
    NoState,
    /// The group's state of the partition can neither be read nor kept now.
    #[error(transparent)]
    State(#[from] StateFailure),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadFailure),
    /// A segment's batches cannot be looked at.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// The server's own fault: the task that looked has ended without an answer.
    #[error("the task that read the log has failed")]
    Internal,
}

/// Why a request does not continue a share session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SessionFailure {
    /// The member has none.
    #[error("the member has no share session")]
    NotFound,
    /// The request is not the next one of the session.
    #[error("the request is not the session's next one")]
    Epoch,
    /// There are too many sessions, or too many partitions in this one or in all of them.
    #[error("there are too many share sessions, or too many partitions in them")]
    LimitReached,
}
