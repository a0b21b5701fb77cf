//! Why a group's coordinator refuses something.

use std::sync::Arc;

/// A refusal, as a fact. The shell maps each to a protocol code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// No group can have this id.
    #[error("the group id {reason}")]
    InvalidGroupId {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no such group, or one of another kind.
    #[error("there is no {kind}group '{group}'")]
    GroupNotFound {
        /// The id asked for.
        group: Arc<str>,
        /// Empty, or the kind that was expected, with a space behind it.
        kind: &'static str,
    },
    /// A member of the consumer protocol cannot join the classic group, which would have to become a consumer group.
    #[error("the classic group '{group}' cannot become a consumer group: {reason}")]
    NotUpgradable {
        /// The group.
        group: Arc<str>,
        /// Why.
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
    /// The member shall come back with the id that is given to it here (KIP-394).
    #[error("the member has to join again with the id '{member}'")]
    MemberIdRequired {
        /// The fresh id.
        member: Arc<str>,
    },
    /// Another member has taken over the static identity (KIP-345).
    #[error("the instance id '{instance}' belongs to another member by now")]
    FencedInstance {
        /// The static identity.
        instance: Arc<str>,
    },
    /// The static identity is in use by a living member.
    #[error("the instance id '{instance}' is still in use by member '{owner}'")]
    UnreleasedInstance {
        /// The static identity.
        instance: Arc<str>,
        /// Who has it.
        owner: Arc<str>,
    },
    /// The request is of another generation of the group.
    #[error("generation {found} is not the group's generation {expected}")]
    IllegalGeneration {
        /// The group's.
        expected: i32,
        /// The request's.
        found: i32,
    },
    /// The member's epoch is not the one that the coordinator has; it must join again.
    #[error("member epoch {found} is fenced, the member is in epoch {expected}")]
    FencedMemberEpoch {
        /// The member's.
        expected: i32,
        /// The request's.
        found: i32,
    },
    /// The request was made in an epoch that has passed; the member may try again in its present one.
    #[error("member epoch {found} is stale, the member is in epoch {expected}")]
    StaleMemberEpoch {
        /// The member's.
        expected: i32,
        /// The request's.
        found: i32,
    },
    /// A newer generation of the producer has written, or its transaction has ended.
    #[error("the producer's epoch {found} is fenced off by {current}")]
    FencedProducer {
        /// The newest that is known.
        current: i16,
        /// The request's.
        found: i16,
    },
    /// The group is being rebalanced.
    #[error("the group is being rebalanced")]
    RebalanceInProgress,
    /// The member's protocols do not go with those of the group.
    #[error("the member's protocols do not go with those of the group: {reason}")]
    InconsistentProtocol {
        /// How.
        reason: &'static str,
    },
    /// A session timeout outside the limits.
    #[error("a session timeout of {found} ms is not between {min} and {max} ms")]
    InvalidSessionTimeout {
        /// The request's, in milliseconds.
        found: i32,
        /// `group.min.session.timeout.ms`.
        min: i32,
        /// `group.max.session.timeout.ms`.
        max: i32,
    },
    /// The group has as many members as it may have.
    #[error("the group has its {max} members and takes no more")]
    GroupFull {
        /// The limit.
        max: usize,
    },
    /// The coordinator is in no state to decide; the client looks for it again.
    #[error("the group is going away")]
    GroupDead,
    /// The group has members.
    #[error("group '{group}' is not empty")]
    NonEmptyGroup {
        /// The group.
        group: Arc<str>,
    },
    /// The share coordinators may keep states for the group: it goes when they are gone.
    #[error("group '{group}' has states that are not deleted yet")]
    StatesLeft {
        /// The group.
        group: Arc<str>,
    },
    /// The group's members read the topic.
    #[error("the group is subscribed to the topic")]
    SubscribedToTopic,
    /// Text that goes with a committed offset is too long.
    #[error("offset metadata of {found} bytes, more than {max}")]
    OffsetMetadataTooLarge {
        /// Its length in bytes.
        found: usize,
        /// `offset.metadata.max.bytes`.
        max: usize,
    },
    /// A transaction has written the offset and is not yet decided.
    #[error("the offset is part of an open transaction")]
    UnstableOffset,
    /// There is no such topic or partition.
    #[error("there is no such topic or partition")]
    UnknownTopicOrPartition,
    /// There is no topic with this id.
    #[error("there is no topic with this id")]
    UnknownTopicId,
    /// The group follows a protocol that the request's version does not know.
    #[error("the request is of a version that does not know of member epochs")]
    ClientTooOld,
    /// A bound of this coordinator.
    #[error("{what}: {max} at most")]
    TooMany {
        /// Of what, in words.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// The request contradicts itself or asks for what cannot be.
    #[error("{reason}")]
    InvalidRequest {
        /// How.
        reason: String,
    },
    /// None of the member's assignors is known here.
    #[error("{reason}")]
    UnsupportedAssignor {
        /// Which are.
        reason: String,
    },
    /// A regular expression that is none.
    #[error("{reason}")]
    InvalidRegularExpression {
        /// What is wrong with it.
        reason: String,
    },
}
