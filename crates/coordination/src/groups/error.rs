//! Refusals of a group coordinator.

use std::sync::Arc;

/// A refusal. The caller maps each to a protocol error code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The group id is not valid.
    #[error("the group id {reason}")]
    InvalidGroupId {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The group does not exist, or is of another kind.
    #[error("there is no {kind}group '{group}'")]
    GroupNotFound {
        /// The requested id.
        group: Arc<str>,
        /// Empty, or the expected kind with a space after it.
        kind: &'static str,
    },
    /// A member of the consumer protocol cannot join the classic group, because it cannot be converted.
    #[error("the classic group '{group}' cannot become a consumer group: {reason}")]
    NotUpgradable {
        /// The group.
        group: Arc<str>,
        /// The reason.
        reason: &'static str,
    },
    /// The group has no such member.
    #[error("group '{group}' has no member '{member}'")]
    UnknownMember {
        /// The group.
        group: Arc<str>,
        /// The member's id, empty if none was given.
        member: Arc<str>,
    },
    /// The member has to join again with this id (KIP-394).
    #[error("the member has to join again with the id '{member}'")]
    MemberIdRequired {
        /// The fresh id.
        member: Arc<str>,
    },
    /// Another member has taken over the static identity (KIP-345).
    #[error("the instance id '{instance}' now belongs to another member")]
    FencedInstance {
        /// The static identity.
        instance: Arc<str>,
    },
    /// The static identity is in use by a live member.
    #[error("the instance id '{instance}' is still in use by member '{owner}'")]
    UnreleasedInstance {
        /// The static identity.
        instance: Arc<str>,
        /// The member that owns it.
        owner: Arc<str>,
    },
    /// The request is of another generation of the group.
    #[error("generation {found} is not the group's generation {expected}")]
    IllegalGeneration {
        /// The group's generation.
        expected: i32,
        /// The request's generation.
        found: i32,
    },
    /// The member's epoch is not the coordinator's. The member must join again.
    #[error("member epoch {found} is fenced, the member is in epoch {expected}")]
    FencedMemberEpoch {
        /// The member's epoch.
        expected: i32,
        /// The request's epoch.
        found: i32,
    },
    /// The request's epoch has passed. The member may retry with its current epoch.
    #[error("member epoch {found} is stale, the member is in epoch {expected}")]
    StaleMemberEpoch {
        /// The member's epoch.
        expected: i32,
        /// The request's epoch.
        found: i32,
    },
    /// A newer epoch of the producer has written, or its transaction has ended.
    #[error("the producer's epoch {found} is fenced by {current}")]
    FencedProducer {
        /// The newest known epoch.
        current: i16,
        /// The request's epoch.
        found: i16,
    },
    /// The group is being rebalanced.
    #[error("the group is being rebalanced")]
    RebalanceInProgress,
    /// The member's protocols are not compatible with those of the group.
    #[error("the member's protocols are not compatible with those of the group: {reason}")]
    InconsistentProtocol {
        /// The reason.
        reason: &'static str,
    },
    /// The session timeout is out of bounds.
    #[error("a session timeout of {found} ms is not between {min} and {max} ms")]
    InvalidSessionTimeout {
        /// The requested timeout, in milliseconds.
        found: i32,
        /// `group.min.session.timeout.ms`.
        min: i32,
        /// `group.max.session.timeout.ms`.
        max: i32,
    },
    /// The group is full.
    #[error("the group is full: it has {max} members")]
    GroupFull {
        /// The limit.
        max: usize,
    },
    /// The coordinator cannot decide now. The client looks it up again.
    #[error("the group is being deleted")]
    GroupDead,
    /// The group has members.
    #[error("group '{group}' is not empty")]
    NonEmptyGroup {
        /// The group.
        group: Arc<str>,
    },
    /// The share coordinators may still hold states of the group. The group is deleted when they are gone.
    #[error("group '{group}' has states that are not deleted yet")]
    StatesLeft {
        /// The group.
        group: Arc<str>,
    },
    /// The group's members read the topic.
    #[error("the group is subscribed to the topic")]
    SubscribedToTopic,
    /// The metadata text of a committed offset is too long.
    #[error("offset metadata of {found} bytes, more than {max}")]
    OffsetMetadataTooLarge {
        /// Its length: in UTF-16 code units, or in bytes if the limit of the old record layout applies.
        found: usize,
        /// `offset.metadata.max.bytes`.
        max: usize,
    },
    /// An open transaction has written the offset.
    #[error("the offset is part of an open transaction")]
    UnstableOffset,
    /// There is no such topic or partition.
    #[error("there is no such topic or partition")]
    UnknownTopicOrPartition,
    /// There is no topic with this id.
    #[error("there is no topic with this id")]
    UnknownTopicId,
    /// The group uses a protocol that the request's version does not support.
    #[error("the request's version does not support member epochs")]
    ClientTooOld,
    /// A limit of this coordinator was exceeded.
    #[error("{what}: {max} at most")]
    TooMany {
        /// The limited quantity, in words.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The request contradicts itself or is impossible.
    #[error("{reason}")]
    InvalidRequest {
        /// The reason.
        reason: String,
    },
    /// The member's assignor is not supported.
    #[error("{reason}")]
    UnsupportedAssignor {
        /// The reason, with the supported assignors.
        reason: String,
    },
    /// The regular expression is not valid.
    #[error("{reason}")]
    InvalidRegularExpression {
        /// The reason.
        reason: String,
    },
}
