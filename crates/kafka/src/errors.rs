//! Maps facts to protocol error codes. There are no wildcard arms, so that each new error needs a decision.

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

/// Returns what Kafka 4.3 answers a producer that sends such a batch. Where Kafka has no answer (an exception
/// that reaches the client as UNKNOWN_SERVER_ERROR), returns the code that names the defect.
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

/// Returns what Kafka answers when a group's coordinator refuses. There is no wildcard arm, so that each new
/// refusal needs a decision.
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
        // Clients retry.
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

/// Returns what Kafka's transaction coordinator answers. Only newer versions of the requests know
/// PRODUCER_FENCED: see `kafka/transactions.rs`.
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

/// What a client writes into a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Records, written by Produce.
    Records,
    /// Offsets, written by TxnOffsetCommit.
    Offsets,
}

/// Returns the code for a write whose partitions the coordinator did not confirm to be in the transaction.
/// Older clients do not retry on some of the codes that describe the failure. Kafka therefore answers with
/// codes on which they do: producers wait for replicas, and clients that commit offsets look for a
/// coordinator.
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

/// Returns the code for a failed read.
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

/// Returns the code for a failed lookup of an offset by time.
pub(crate) fn lookup_code(failure: &LookupFailure) -> ErrorCode {
    match failure {
        LookupFailure::Log(error) => log_code(error),
        LookupFailure::Panicked => ErrorCode::UnknownServerError,
    }
}

/// The leader epoch that a client claims. `None` if it claims none, with a negative number.
pub(crate) fn claimed_epoch(claimed: i32) -> Option<LeaderEpoch> {
    (claimed >= 0).then_some(LeaderEpoch(claimed))
}

/// Returns the code for a claimed epoch other than the partition's.
pub(crate) fn epoch_code(mismatch: EpochMismatch) -> ErrorCode {
    match mismatch {
        EpochMismatch::Fenced => ErrorCode::FencedLeaderEpoch,
        EpochMismatch::Unknown => ErrorCode::UnknownLeaderEpoch,
    }
}

/// Returns the code for records that were not appended or deleted, and for other changes of a partition that
/// failed.
pub(crate) fn failure_code(failure: &AppendFailure) -> ErrorCode {
    match failure {
        AppendFailure::Gone | AppendFailure::NotLeader => ErrorCode::NotLeaderOrFollower,
        AppendFailure::TooFewReplicas => ErrorCode::NotEnoughReplicas,
        AppendFailure::Refused(error) => append_code(error),
    }
}

/// Returns the code for a coordinator failure. Clients look for the coordinator again and retry.
pub(crate) fn coordinator_code(failure: &CoordinatorFailure) -> ErrorCode {
    match failure {
        CoordinatorFailure::Unavailable(_) | CoordinatorFailure::Stopping => {
            ErrorCode::CoordinatorNotAvailable
        }
        CoordinatorFailure::Reloaded | CoordinatorFailure::Elsewhere => ErrorCode::NotCoordinator,
        CoordinatorFailure::Late => ErrorCode::RequestTimedOut,
    }
}

/// Returns the code for a member of a share group that asks for records.
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

/// Returns the code for an administrator of a share group. Members get [`share_state_code`].
pub(crate) fn share_admin_code(failure: &StateFailure) -> ErrorCode {
    match failure {
        StateFailure::Coordinator(failure) => coordinator_code(failure),
        StateFailure::Refused(_) => share_state_code(failure),
    }
}

/// Returns the code for states of a share group that were not deleted.
pub(crate) fn deletion_code(failure: &DeletionFailure) -> ErrorCode {
    match failure {
        DeletionFailure::Coordinator(failure) => coordinator_code(failure),
        DeletionFailure::Refused(error) => group_code(error),
        DeletionFailure::State(failure) => share_admin_code(failure),
    }
}

/// Returns the code for members of share groups, which know nothing of the share coordinator. The Java client
/// treats coordinator codes in a ShareFetch as a broker's mistake, but retries on these.
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

/// Returns the code for a producer id that was not allocated. Clients before Kafka 3.4 treat any other
/// transient code as fatal (KAFKA-14417), and unused reserved ids do no harm.
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

/// Returns the code for a refused command. It does not matter whether this node or the controller refused it.
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
        ControlErrorKind::ResourceNotFound => ErrorCode::ResourceNotFound,
        ControlErrorKind::DuplicateResource => ErrorCode::DuplicateResource,
        ControlErrorKind::UnacceptableCredential => ErrorCode::UnacceptableCredential,
        ControlErrorKind::NotAuthorized => ErrorCode::ClusterAuthorizationFailed,
        ControlErrorKind::UnknownToken => ErrorCode::DelegationTokenNotFound,
        ControlErrorKind::TokenExpired => ErrorCode::DelegationTokenExpired,
        ControlErrorKind::TokenOwnerMismatch => ErrorCode::DelegationTokenOwnerMismatch,
        ControlErrorKind::InvalidPrincipalType => ErrorCode::InvalidPrincipalType,
        ControlErrorKind::Unknown => ErrorCode::UnknownServerError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients treat KAFKA_STORAGE_ERROR as a failing disk, and try another replica.
    #[test]
    fn a_panic_is_the_servers_fault_and_not_the_disks() {
        assert_eq!(read_code(&ReadFailure::Panicked), ErrorCode::UnknownServerError);
        assert_eq!(share_code(&ShareFailure::Read(ReadFailure::Panicked)), ErrorCode::UnknownServerError);
        assert_eq!(share_code(&ShareFailure::Internal), ErrorCode::UnknownServerError);
        assert_eq!(command_code(&CommandError::Panicked), ErrorCode::UnknownServerError);
        assert_eq!(producer_id_code(&CommandError::Panicked), ErrorCode::UnknownServerError);
    }

    /// A producer before Kafka 3.4 stops for good after REQUEST_TIMED_OUT or NOT_CONTROLLER.
    #[test]
    fn a_producer_waits_for_a_controller() {
        for error in [CommandError::NotController, CommandError::OutcomeUnknown, CommandError::Stopping] {
            assert_eq!(producer_id_code(&error), ErrorCode::CoordinatorLoadInProgress);
        }
    }

    /// The codes of Kafka's AddPartitionsToTxnManager for Produce, and of TxnOffsetCommit.
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
