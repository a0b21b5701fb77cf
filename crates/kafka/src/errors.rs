//! Where facts become protocol error codes. No wildcard arms: a new error demands a decision.

use tailrace_coordination::groups::GroupError;
use tailrace_coordination::share::{AcknowledgeError, ShareStateError};
use tailrace_coordination::transactions::TransactionError;
use tailrace_kafka_wire::ErrorCode;
use tailrace_log::LogError;
use tailrace_metadata::{ControlError, ControlErrorKind};
use tailrace_records::BatchError;
use tailrace_replication::{AppendError, ProducerError};
use tailrace_types::LeaderEpoch;

use tailrace_node::ask::NotEntered;
use tailrace_node::controller::CommandError;
use tailrace_node::coordinators::CoordinatorFailure;
use tailrace_node::partitions::{AppendFailure, EpochMismatch, LookupFailure, NotHere, ReadFailure};
use tailrace_node::share::state::StateFailure;
use tailrace_node::share::{AcknowledgeFailure, DeletionFailure, SessionFailure, ShareFailure};

/// What Kafka 4.3 answers to a producer of such a batch. Where Kafka has no answer (an exception that reaches the client
/// as UNKNOWN_SERVER_ERROR), the code that names the defect.
pub(crate) fn batch_code(error: &BatchError) -> ErrorCode {
    match error {
        BatchError::Length { .. }
        | BatchError::UnknownMagic { .. }
        | BatchError::Checksum { .. }
        | BatchError::UnknownCompression { .. }
        | BatchError::Decompression { .. } => ErrorCode::CorruptMessage,
        BatchError::Incomplete { .. }
        | BatchError::OldMagic { .. }
        | BatchError::SecondBatch { .. }
        | BatchError::BaseOffset { .. }
        | BatchError::Count { .. }
        | BatchError::Control
        | BatchError::Sequence { .. }
        | BatchError::Record { .. }
        | BatchError::TrailingBytes { .. }
        | BatchError::InvalidRecords(_) => ErrorCode::InvalidRecord,
        BatchError::TooLarge { .. } | BatchError::ExpandsTooLarge { .. } | BatchError::Full { .. } => {
            ErrorCode::MessageTooLarge
        }
        BatchError::InvalidTimestamps(_) => ErrorCode::InvalidTimestamp,
    }
}

/// What Kafka answers where a group's coordinator refuses. No wildcard arm: a new refusal demands a decision.
pub(crate) fn group_code(error: &GroupError) -> ErrorCode {
    match error {
        GroupError::InvalidGroupId { .. } => ErrorCode::InvalidGroupId,
        GroupError::GroupNotFound { .. } | GroupError::NotUpgradable { .. } => ErrorCode::GroupIdNotFound,
        GroupError::UnknownMember { .. } => ErrorCode::UnknownMemberId,
        GroupError::MemberIdRequired { .. } => ErrorCode::MemberIdRequired,
        GroupError::FencedInstance { .. } => ErrorCode::FencedInstanceId,
        GroupError::UnreleasedInstance { .. } => ErrorCode::UnreleasedInstanceId,
        GroupError::IllegalGeneration { .. } => ErrorCode::IllegalGeneration,
        GroupError::FencedMemberEpoch { .. } => ErrorCode::FencedMemberEpoch,
        GroupError::StaleMemberEpoch { .. } => ErrorCode::StaleMemberEpoch,
        GroupError::FencedProducer { .. } => ErrorCode::InvalidProducerEpoch,
        GroupError::RebalanceInProgress => ErrorCode::RebalanceInProgress,
        GroupError::InconsistentProtocol { .. } => ErrorCode::InconsistentGroupProtocol,
        GroupError::InvalidSessionTimeout { .. } => ErrorCode::InvalidSessionTimeout,
        GroupError::GroupFull { .. } => ErrorCode::GroupMaxSizeReached,
        GroupError::GroupDead => ErrorCode::CoordinatorNotAvailable,
        GroupError::NonEmptyGroup { .. } => ErrorCode::NonEmptyGroup,
        // Clients try again.
        GroupError::StatesLeft { .. } => ErrorCode::CoordinatorLoadInProgress,
        GroupError::SubscribedToTopic => ErrorCode::GroupSubscribedToTopic,
        GroupError::OffsetMetadataTooLarge { .. } => ErrorCode::OffsetMetadataTooLarge,
        GroupError::UnstableOffset => ErrorCode::UnstableOffsetCommit,
        GroupError::UnknownTopicOrPartition => ErrorCode::UnknownTopicOrPartition,
        GroupError::UnknownTopicId => ErrorCode::UnknownTopicId,
        GroupError::ClientTooOld => ErrorCode::UnsupportedVersion,
        GroupError::TooMany { .. } => ErrorCode::PolicyViolation,
        GroupError::InvalidRequest { .. } => ErrorCode::InvalidRequest,
        GroupError::UnsupportedAssignor { .. } => ErrorCode::UnsupportedAssignor,
        GroupError::InvalidRegularExpression { .. } => ErrorCode::InvalidRegularExpression,
    }
}

pub(crate) fn absent_code(absent: NotHere<'_>) -> ErrorCode {
    match absent {
        NotHere::NoSuchPartition => ErrorCode::UnknownTopicOrPartition,
        NotHere::Elsewhere => ErrorCode::NotLeaderOrFollower,
        NotHere::Offline(_) => ErrorCode::KafkaStorageError,
    }
}

fn append_code(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Producer(error) => producer_code(error),
        AppendError::Halted { .. } | AppendError::Full => ErrorCode::KafkaStorageError,
        AppendError::Log(error) => log_code(error),
    }
}

fn producer_code(error: &ProducerError) -> ErrorCode {
    match error {
        ProducerError::StaleEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        ProducerError::OutOfOrder { .. } => ErrorCode::OutOfOrderSequenceNumber,
        ProducerError::NotTransactional { .. } | ProducerError::Unverified { .. } => {
            ErrorCode::InvalidTxnState
        }
        ProducerError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        // Kafka has no such limit.
        ProducerError::TooManyTransactions { .. } => ErrorCode::PolicyViolation,
    }
}

/// What Kafka's coordinator of transactions answers. PRODUCER_FENCED is for newer versions of the requests: see
/// `kafka/transactions.rs`.
pub(crate) fn transaction_code(error: &TransactionError) -> ErrorCode {
    match error {
        TransactionError::TransactionalId { .. } => ErrorCode::InvalidRequest,
        TransactionError::Timeout { .. } => ErrorCode::InvalidTransactionTimeout,
        TransactionError::UnknownTransactionalId => ErrorCode::TransactionalIdNotFound,
        TransactionError::ProducerIdMapping => ErrorCode::InvalidProducerIdMapping,
        TransactionError::Fenced => ErrorCode::ProducerFenced,
        TransactionError::Concurrent => ErrorCode::ConcurrentTransactions,
        TransactionError::State { .. } => ErrorCode::InvalidTxnState,
        // Kafka has no such limits.
        TransactionError::TooManyPartitions { .. } | TransactionError::TooManyTransactionalIds { .. } => {
            ErrorCode::PolicyViolation
        }
    }
}

/// What is written into a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// By Produce.
    Records,
    /// By TxnOffsetCommit.
    Offsets,
}

/// Why a coordinator does not say that partitions are in a transaction, told to one who writes there. Older clients would not try again at
/// some codes that mean just that. Kafka answers them with codes upon which they do: who produces looks for replicas, who commits offsets
/// for a coordinator.
pub(crate) fn not_entered_code(failure: &NotEntered, writes: Writes, adds_partition: bool) -> ErrorCode {
    let again = match writes {
        Writes::Records => ErrorCode::NotEnoughReplicas,
        Writes::Offsets => ErrorCode::CoordinatorNotAvailable,
    };
    match failure {
        NotEntered::Refused(TransactionError::Fenced) => ErrorCode::InvalidProducerEpoch,
        NotEntered::Refused(TransactionError::Concurrent) if !adds_partition => again,
        NotEntered::Refused(error) => transaction_code(error),
        NotEntered::Coordinator(failure) => match failure {
            CoordinatorFailure::Unavailable(_)
            | CoordinatorFailure::Stopping
            | CoordinatorFailure::Reloaded
            | CoordinatorFailure::Elsewhere
            | CoordinatorFailure::Late => again,
        },
        NotEntered::UnknownPartition(_) => ErrorCode::UnknownTopicOrPartition,
    }
}

pub(crate) fn log_code(error: &LogError) -> ErrorCode {
    match error {
        LogError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        LogError::TooLarge { .. } => ErrorCode::RecordListTooLarge,
        LogError::NoSpace { .. }
        | LogError::Io { .. }
        | LogError::Poisoned { .. }
        | LogError::Damaged { .. }
        | LogError::BeingExchanged
        | LogError::NotAtHand
        | LogError::NewerFormat { .. }
        | LogError::IdentityMismatch { .. } => ErrorCode::KafkaStorageError,
        LogError::NotContinuous { .. }
        | LogError::BatchBytes { .. }
        | LogError::ExpandsTooLarge { .. }
        | LogError::CompactionStopped { .. }
        | LogError::KeyMapTooSmall { .. } => ErrorCode::UnknownServerError,
    }
}

/// Why nothing was read.
pub(crate) fn read_code(failure: &ReadFailure) -> ErrorCode {
    match failure {
        ReadFailure::NotLeader => ErrorCode::NotLeaderOrFollower,
        ReadFailure::Epoch(mismatch) => epoch_code(*mismatch),
        ReadFailure::OutOfRange => ErrorCode::OffsetOutOfRange,
        ReadFailure::BeingExchanged | ReadFailure::NotAtHand | ReadFailure::Damaged(_) => {
            ErrorCode::KafkaStorageError
        }
        ReadFailure::Log(error) => log_code(error),
        ReadFailure::Panicked => ErrorCode::UnknownServerError,
    }
}

/// Why no offset was found for a time.
pub(crate) fn lookup_code(failure: &LookupFailure) -> ErrorCode {
    match failure {
        LookupFailure::Log(error) => log_code(error),
        LookupFailure::Panicked => ErrorCode::UnknownServerError,
    }
}

/// The epoch that a client believes in; negative if it does in none.
pub(crate) fn claimed_epoch(claimed: i32) -> Option<LeaderEpoch> {
    (claimed >= 0).then_some(LeaderEpoch(claimed))
}

/// It is not the partition's.
pub(crate) fn epoch_code(mismatch: EpochMismatch) -> ErrorCode {
    match mismatch {
        EpochMismatch::Fenced => ErrorCode::FencedLeaderEpoch,
        EpochMismatch::Unknown => ErrorCode::UnknownLeaderEpoch,
    }
}

/// Why records were not appended or deleted, and other changes of one partition not made.
pub(crate) fn failure_code(failure: &AppendFailure) -> ErrorCode {
    match failure {
        AppendFailure::Gone | AppendFailure::NotLeader => ErrorCode::NotLeaderOrFollower,
        AppendFailure::TooFewReplicas => ErrorCode::NotEnoughReplicas,
        AppendFailure::Refused(error) => append_code(error),
    }
}

/// What clients are told: they look for the coordinator again and retry.
pub(crate) fn coordinator_code(failure: &CoordinatorFailure) -> ErrorCode {
    match failure {
        CoordinatorFailure::Unavailable(_) | CoordinatorFailure::Stopping => {
            ErrorCode::CoordinatorNotAvailable
        }
        CoordinatorFailure::Reloaded | CoordinatorFailure::Elsewhere => ErrorCode::NotCoordinator,
        CoordinatorFailure::Late => ErrorCode::RequestTimedOut,
    }
}

/// What members of share groups are told that want records.
pub(crate) fn share_code(failure: &ShareFailure) -> ErrorCode {
    match failure {
        ShareFailure::UnknownTopic => ErrorCode::UnknownTopicId,
        ShareFailure::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        ShareFailure::NotLeader => ErrorCode::NotLeaderOrFollower,
        ShareFailure::Offline | ShareFailure::Disk(_) => ErrorCode::KafkaStorageError,
        ShareFailure::NoState | ShareFailure::Internal => ErrorCode::UnknownServerError,
        ShareFailure::State(failure) => share_state_code(failure),
        ShareFailure::Read(failure) => read_code(failure),
    }
}

pub(crate) fn session_code(failure: SessionFailure) -> ErrorCode {
    match failure {
        SessionFailure::NotFound => ErrorCode::ShareSessionNotFound,
        SessionFailure::Epoch => ErrorCode::InvalidShareSessionEpoch,
        SessionFailure::LimitReached => ErrorCode::ShareSessionLimitReached,
    }
}

/// What administrators of share groups are told; members see [`share_state_code`].
pub(crate) fn share_admin_code(failure: &StateFailure) -> ErrorCode {
    match failure {
        StateFailure::Coordinator(failure) => coordinator_code(failure),
        StateFailure::Refused(_) => share_state_code(failure),
    }
}

/// Why states of a share group were not deleted.
pub(crate) fn deletion_code(failure: &DeletionFailure) -> ErrorCode {
    match failure {
        DeletionFailure::Coordinator(failure) => coordinator_code(failure),
        DeletionFailure::Refused(error) => group_code(error),
        DeletionFailure::State(failure) => share_admin_code(failure),
    }
}

/// What members of share groups are told, who know nothing of the share coordinator: the Java client takes codes of
/// coordinators in a ShareFetch for a broker's mistake, and these for a reason to try again.
pub(crate) fn share_state_code(failure: &StateFailure) -> ErrorCode {
    match failure {
        StateFailure::Coordinator(_) => ErrorCode::KafkaStorageError,
        StateFailure::Refused(error) => match error {
            ShareStateError::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
            ShareStateError::NotInitialized
            | ShareStateError::FencedStateEpoch { .. }
            | ShareStateError::FencedGeneration { .. }
            | ShareStateError::FencedLeaderEpoch { .. } => ErrorCode::NotLeaderOrFollower,
            ShareStateError::GroupName => ErrorCode::InvalidRequest,
        },
    }
}

pub(crate) fn acknowledge_code(failure: &AcknowledgeFailure) -> ErrorCode {
    match failure {
        AcknowledgeFailure::Gone => ErrorCode::NotLeaderOrFollower,
        AcknowledgeFailure::Refused(error) => match error {
            AcknowledgeError::NotAcquired { .. } => ErrorCode::InvalidRecordState,
            AcknowledgeError::Malformed { .. }
            | AcknowledgeError::Beyond { .. }
            | AcknowledgeError::RenewalForbidden => ErrorCode::InvalidRequest,
        },
    }
}

pub(crate) fn command_code(error: &CommandError) -> ErrorCode {
    match error {
        CommandError::Refused(error) => control_code(error),
        CommandError::Append(_) | CommandError::Metadata(_) => ErrorCode::KafkaStorageError,
        CommandError::Panicked => ErrorCode::UnknownServerError,
        CommandError::OutcomeUnknown => ErrorCode::RequestTimedOut,
        // Clients look for the controller again and retry.
        CommandError::NotController | CommandError::Stopping => ErrorCode::NotController,
    }
}

/// Why no producer id was handed out. Clients before Kafka 3.4 take anything else that may pass for fatal (KAFKA-14417), and ids that were
/// reserved in vain hurt nobody.
pub(crate) fn producer_id_code(error: &CommandError) -> ErrorCode {
    match error {
        CommandError::NotController | CommandError::OutcomeUnknown | CommandError::Stopping => {
            ErrorCode::CoordinatorLoadInProgress
        }
        CommandError::Refused(_)
        | CommandError::Append(_)
        | CommandError::Metadata(_)
        | CommandError::Panicked => command_code(error),
    }
}

/// Where the command was refused, here or at the controller, makes no difference.
pub(crate) fn control_code(error: &ControlError) -> ErrorCode {
    match error.kind() {
        ControlErrorKind::InvalidTopic => ErrorCode::InvalidTopicException,
        ControlErrorKind::TopicExists => ErrorCode::TopicAlreadyExists,
        ControlErrorKind::TopicReserved => ErrorCode::TopicAuthorizationFailed,
        ControlErrorKind::UnknownTopicOrPartition => ErrorCode::UnknownTopicOrPartition,
        ControlErrorKind::UnknownTopicId => ErrorCode::UnknownTopicId,
        ControlErrorKind::DeletionDisabled => ErrorCode::TopicDeletionDisabled,
        ControlErrorKind::InvalidPartitions => ErrorCode::InvalidPartitions,
        ControlErrorKind::Policy => ErrorCode::PolicyViolation,
        ControlErrorKind::InvalidReplicationFactor => ErrorCode::InvalidReplicationFactor,
        ControlErrorKind::InvalidAssignment => ErrorCode::InvalidReplicaAssignment,
        ControlErrorKind::NoReassignment => ErrorCode::NoReassignmentInProgress,
        ControlErrorKind::InvalidConfig => ErrorCode::InvalidConfig,
        ControlErrorKind::InvalidRequest => ErrorCode::InvalidRequest,
        ControlErrorKind::InvalidUpdateVersion => ErrorCode::InvalidUpdateVersion,
        ControlErrorKind::InvalidRegistration => ErrorCode::InvalidRegistration,
        ControlErrorKind::NodeIdInUse => ErrorCode::DuplicateBrokerRegistration,
        ControlErrorKind::UnsupportedLevel => ErrorCode::UnsupportedVersion,
        ControlErrorKind::NotRegistered => ErrorCode::BrokerIdNotRegistered,
        ControlErrorKind::Unknown => ErrorCode::UnknownServerError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients take KAFKA_STORAGE_ERROR for a disk that fails, and try another replica.
    #[test]
    fn a_panic_is_the_servers_fault_and_not_the_disks() {
        assert_eq!(read_code(&ReadFailure::Panicked), ErrorCode::UnknownServerError);
        assert_eq!(share_code(&ShareFailure::Read(ReadFailure::Panicked)), ErrorCode::UnknownServerError);
        assert_eq!(share_code(&ShareFailure::Internal), ErrorCode::UnknownServerError);
        assert_eq!(command_code(&CommandError::Panicked), ErrorCode::UnknownServerError);
        assert_eq!(producer_id_code(&CommandError::Panicked), ErrorCode::UnknownServerError);
    }

    /// A producer before Kafka 3.4 is dead after REQUEST_TIMED_OUT, and after NOT_CONTROLLER.
    #[test]
    fn a_producer_waits_for_a_controller() {
        for error in [CommandError::NotController, CommandError::OutcomeUnknown, CommandError::Stopping] {
            assert_eq!(producer_id_code(&error), ErrorCode::CoordinatorLoadInProgress);
        }
    }

    /// As Kafka's AddPartitionsToTxnManager does for produce, and TxnOffsetCommit for itself.
    #[test]
    fn who_writes_into_a_transaction_tries_again_where_trying_helps() {
        use CoordinatorFailure::{Elsewhere, Late, Reloaded, Stopping, Unavailable};
        let unavailable = Unavailable("it is being loaded".to_owned());
        for failure in [unavailable, Stopping, Reloaded, Elsewhere, Late].map(NotEntered::Coordinator) {
            for adds in [true, false] {
                assert_eq!(not_entered_code(&failure, Writes::Records, adds), ErrorCode::NotEnoughReplicas);
                assert_eq!(
                    not_entered_code(&failure, Writes::Offsets, adds),
                    ErrorCode::CoordinatorNotAvailable
                );
            }
        }
        let refused = |error, writes, adds| not_entered_code(&NotEntered::Refused(error), writes, adds);
        let concurrent = |writes, adds| refused(TransactionError::Concurrent, writes, adds);
        assert_eq!(concurrent(Writes::Records, true), ErrorCode::ConcurrentTransactions);
        assert_eq!(concurrent(Writes::Records, false), ErrorCode::NotEnoughReplicas);
        assert_eq!(concurrent(Writes::Offsets, true), ErrorCode::ConcurrentTransactions);
        assert_eq!(concurrent(Writes::Offsets, false), ErrorCode::CoordinatorNotAvailable);
        for writes in [Writes::Records, Writes::Offsets] {
            let code = refused(TransactionError::Fenced, writes, true);
            assert_eq!(code, ErrorCode::InvalidProducerEpoch, "these know no PRODUCER_FENCED");
            let code = refused(TransactionError::ProducerIdMapping, writes, true);
            assert_eq!(code, ErrorCode::InvalidProducerIdMapping);
        }
    }
}
