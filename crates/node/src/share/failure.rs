//! Why a share-partition cannot be read, or a session cannot continue. Fronts map these to their protocol's
//! codes.

use std::io;

use tailrace_coordination::share::ShareStateError;
use thiserror::Error;

use crate::coordinators::CoordinatorFailure;
use crate::partitions::ReadFailure;

/// Why the share coordinator did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateFailure {
    /// No coordinator could answer.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorFailure),
    /// The coordinator refuses the request.
    #[error(transparent)]
    Refused(#[from] ShareStateError),
}

/// Why records of a share-partition cannot be acquired now.
#[derive(Debug, Error)]
pub enum ShareFailure {
    /// This node knows no topic of this id.
    #[error("there is no such topic")]
    UnknownTopic,
    /// The topic has no such partition.
    #[error("there is no such partition")]
    UnknownPartition,
    /// Another node leads the partition, or this node's share-partition is no longer valid: look again.
    #[error("this node does not lead the partition")]
    NotLeader,
    /// The partition is offline.
    #[error("the partition is offline")]
    Offline,
    /// The group has no state of the partition: no member has joined it, as far as its coordinator knows.
    #[error("the group has no state of the partition")]
    NoState,
    /// The group's state of the partition can be neither read nor kept now.
    #[error(transparent)]
    State(#[from] StateFailure),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadFailure),
    /// The batches of a segment cannot be read.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// A bug in the server: the task that read the log ended without an answer.
    #[error("the task that read the log has failed")]
    Internal,
}

/// Why a request does not continue a share session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SessionFailure {
    /// The member has no session.
    #[error("the member has no share session")]
    NotFound,
    /// The request is not the next one of the session.
    #[error("the request is not the session's next one")]
    Epoch,
    /// There are too many sessions, or too many partitions in this one or in all of them.
    #[error("there are too many share sessions, or too many partitions in them")]
    LimitReached,
}
