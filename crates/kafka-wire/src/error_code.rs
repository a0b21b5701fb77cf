//! The error codes of the protocol. Numbers and names are Kafka's, the short texts are ours.

use std::fmt;

macro_rules! error_codes {
    ($($variant:ident = $code:literal, $name:literal, $retriable:ident, $message:literal;)*) => {
        /// An error code of a response.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $name, "`: ", $message, ".")] $variant = $code,)*
        }

        impl ErrorCode {
            /// Every code, in ascending order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the code with this number, or `None` if Kafka has none.
            pub const fn from_code(code: i16) -> Option<Self> {
                Some(match code {
                    $($code => Self::$variant,)*
                    _ => return None,
                })
            }

            /// Kafka's name, such as `OFFSET_OUT_OF_RANGE`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// A short text for a person, without a full stop.
            pub const fn message(self) -> &'static str {
                match self {
                    $(Self::$variant => $message,)*
                }
            }

            /// Reports whether Kafka's clients retry on their own.
            pub const fn is_retriable(self) -> bool {
                match self {
                    $(Self::$variant => retriable!($retriable),)*
                }
            }
        }
    };
}

macro_rules! retriable {
    (retriable) => {
        true
    };
    (fatal) => {
        false
    };
}

error_codes! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR", fatal, "the server failed unexpectedly";
    None = 0, "NONE", fatal, "no error";
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE", fatal, "the offset is outside the log";
    CorruptMessage = 2, "CORRUPT_MESSAGE", retriable, "the record batch is damaged or malformed";
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION", retriable, "there is no such topic or partition here";
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE", fatal, "the fetch size is invalid";
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE", retriable, "the partition has no leader at the moment";
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER", retriable, "this node is not the replica that the request needs";
    RequestTimedOut = 7, "REQUEST_TIMED_OUT", retriable, "the request was not completed in time";
    BrokerNotAvailable = 8, "BROKER_NOT_AVAILABLE", fatal, "the broker is not available";
    ReplicaNotAvailable = 9, "REPLICA_NOT_AVAILABLE", retriable, "the replica is not available";
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE", fatal, "the record batch is larger than the topic allows";
    StaleControllerEpoch = 11, "STALE_CONTROLLER_EPOCH", fatal, "the controller epoch is out of date";
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE", fatal, "the metadata of the offset commit is too large";
    NetworkException = 13, "NETWORK_EXCEPTION", retriable, "the connection broke before the response came";
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS", retriable, "the coordinator is still loading its state";
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE", retriable, "there is no coordinator at the moment";
    NotCoordinator = 16, "NOT_COORDINATOR", retriable, "this node is not the coordinator";
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION", fatal, "the topic name is invalid, or the topic may not be used in this way";
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE", fatal, "the record batch is larger than a segment";
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS", retriable, "too few replicas are in sync; nothing was written";
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", retriable, "written, but to too few replicas";
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS", fatal, "acks must be -1, 0 or 1";
    IllegalGeneration = 22, "ILLEGAL_GENERATION", fatal, "the group is at another generation";
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL", fatal, "the member shares no protocol with its group";
    InvalidGroupId = 24, "INVALID_GROUP_ID", fatal, "the group id is invalid";
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID", fatal, "the group has no such member";
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT", fatal, "the session timeout is outside the allowed range";
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS", fatal, "the group is rebalancing, join again";
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE", fatal, "the offset commit is too large";
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED", fatal, "not allowed to use the topic in this way";
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED", fatal, "not allowed to use the group in this way";
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED", fatal, "not allowed to use the cluster in this way";
    InvalidTimestamp = 32, "INVALID_TIMESTAMP", fatal, "a record's timestamp is outside the allowed range";
    UnsupportedSaslMechanism = 33, "UNSUPPORTED_SASL_MECHANISM", fatal, "the SASL mechanism is not supported";
    IllegalSaslState = 34, "ILLEGAL_SASL_STATE", fatal, "the request is not valid at this stage of authentication";
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION", fatal, "the version of the request is not supported";
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS", fatal, "a topic of this name exists";
    InvalidPartitions = 37, "INVALID_PARTITIONS", fatal, "the number of partitions is invalid";
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR", fatal, "the replication factor is below 1 or above the number of nodes";
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT", fatal, "the assignment of replicas is invalid";
    InvalidConfig = 40, "INVALID_CONFIG", fatal, "a configuration key or value is invalid";
    NotController = 41, "NOT_CONTROLLER", retriable, "this node is not the controller";
    InvalidRequest = 42, "INVALID_REQUEST", fatal, "the request contradicts itself or violates the protocol";
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", fatal, "the record format does not allow the request";
    PolicyViolation = 44, "POLICY_VIOLATION", fatal, "a policy of the server forbids the request";
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", fatal, "the producer's sequence number leaves a gap";
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER", fatal, "the producer's sequence number was used long ago";
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH", fatal, "the producer's epoch is out of date";
    InvalidTxnState = 48, "INVALID_TXN_STATE", fatal, "the transaction is not in a state that allows this";
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING", fatal, "the producer id belongs to another transactional id";
    InvalidTransactionTimeout = 50, "INVALID_TRANSACTION_TIMEOUT", fatal, "the transaction timeout is above the maximum";
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS", retriable, "another operation on the transaction is in progress";
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED", fatal, "the transaction has a newer coordinator";
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", fatal, "not allowed to use the transactional id";
    SecurityDisabled = 54, "SECURITY_DISABLED", fatal, "there is no authorization to administer";
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED", fatal, "not attempted, because another part of the request failed";
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR", retriable, "the disk failed";
    LogDirNotFound = 57, "LOG_DIR_NOT_FOUND", fatal, "there is no such data folder";
    SaslAuthenticationFailed = 58, "SASL_AUTHENTICATION_FAILED", fatal, "the credentials were refused";
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID", fatal, "the producer id is no longer known";
    ReassignmentInProgress = 60, "REASSIGNMENT_IN_PROGRESS", fatal, "the partition is being moved";
    DelegationTokenAuthDisabled = 61, "DELEGATION_TOKEN_AUTH_DISABLED", fatal, "delegation tokens are switched off";
    DelegationTokenNotFound = 62, "DELEGATION_TOKEN_NOT_FOUND", fatal, "there is no such delegation token";
    DelegationTokenOwnerMismatch = 63, "DELEGATION_TOKEN_OWNER_MISMATCH", fatal, "neither owner nor renewer of the delegation token";
    DelegationTokenRequestNotAllowed = 64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", fatal, "delegation tokens need another kind of connection";
    DelegationTokenAuthorizationFailed = 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", fatal, "not allowed to use the delegation token";
    DelegationTokenExpired = 66, "DELEGATION_TOKEN_EXPIRED", fatal, "the delegation token has expired";
    InvalidPrincipalType = 67, "INVALID_PRINCIPAL_TYPE", fatal, "the type of principal is not supported";
    NonEmptyGroup = 68, "NON_EMPTY_GROUP", fatal, "the group still has members";
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND", fatal, "there is no such group";
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND", retriable, "there is no such fetch session";
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH", retriable, "the fetch session is at another epoch";
    ListenerNotFound = 72, "LISTENER_NOT_FOUND", retriable, "the leader has no listener of this name";
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED", fatal, "topics may not be deleted";
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH", retriable, "the leader epoch is older than the partition's";
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH", retriable, "the leader epoch is newer than the partition's";
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE", fatal, "the compression needs a newer version of the request";
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH", fatal, "the broker has registered again since then";
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE", retriable, "offsets are not certain yet after an election";
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED", fatal, "join again with the member id given";
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE", retriable, "the preferred leader is not available";
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED", fatal, "the group has reached its maximum number of members";
    FencedInstanceId = 82, "FENCED_INSTANCE_ID", fatal, "another member took over the instance id";
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", retriable, "no replica may become leader at the moment";
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED", retriable, "the partition already has the right leader";
    NoReassignmentInProgress = 85, "NO_REASSIGNMENT_IN_PROGRESS", fatal, "the partition is not being moved";
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC", fatal, "the group is subscribed to the topic";
    InvalidRecord = 87, "INVALID_RECORD", fatal, "a record breaks a rule of the topic";
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT", retriable, "offsets of a transaction are still undecided";
    ThrottlingQuotaExceeded = 89, "THROTTLING_QUOTA_EXCEEDED", retriable, "the quota is used up for now";
    ProducerFenced = 90, "PRODUCER_FENCED", fatal, "a newer producer took over the transactional id";
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND", fatal, "there is no such resource";
    DuplicateResource = 92, "DUPLICATE_RESOURCE", fatal, "the request names a resource twice";
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL", fatal, "the credential is not acceptable";
    InconsistentVoterSet = 94, "INCONSISTENT_VOTER_SET", fatal, "sender and receiver disagree about the voters";
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION", fatal, "the version of the feature is invalid";
    FeatureUpdateFailed = 96, "FEATURE_UPDATE_FAILED", fatal, "the features could not be changed";
    PrincipalDeserializationFailure = 97, "PRINCIPAL_DESERIALIZATION_FAILURE", fatal, "the forwarded principal is malformed";
    SnapshotNotFound = 98, "SNAPSHOT_NOT_FOUND", fatal, "there is no such snapshot";
    PositionOutOfRange = 99, "POSITION_OUT_OF_RANGE", fatal, "the position is outside the snapshot";
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID", retriable, "there is no topic with this id here";
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION", fatal, "the broker id is in use";
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED", fatal, "the broker id is not registered";
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID", retriable, "the topic id does not match the log";
    InconsistentClusterId = 104, "INCONSISTENT_CLUSTER_ID", fatal, "the cluster id does not match";
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND", fatal, "there is no such transactional id";
    FetchSessionTopicIdError = 106, "FETCH_SESSION_TOPIC_ID_ERROR", retriable, "the fetch session mixes topic names and ids";
    IneligibleReplica = 107, "INELIGIBLE_REPLICA", fatal, "a replica may not be in sync at the moment";
    NewLeaderElected = 108, "NEW_LEADER_ELECTED", fatal, "done, but another leader was elected";
    OffsetMovedToTieredStorage = 109, "OFFSET_MOVED_TO_TIERED_STORAGE", fatal, "the offset is in tiered storage";
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH", fatal, "the member is fenced and must join again";
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID", fatal, "another member still holds the instance id";
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR", fatal, "the group does not support the assignor";
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH", fatal, "the member epoch is out of date";
    MismatchedEndpointType = 114, "MISMATCHED_ENDPOINT_TYPE", fatal, "the request belongs to another kind of endpoint";
    UnsupportedEndpointType = 115, "UNSUPPORTED_ENDPOINT_TYPE", fatal, "this kind of endpoint is not supported";
    UnknownControllerId = 116, "UNKNOWN_CONTROLLER_ID", fatal, "there is no controller with this id";
    UnknownSubscriptionId = 117, "UNKNOWN_SUBSCRIPTION_ID", fatal, "the telemetry subscription is out of date";
    TelemetryTooLarge = 118, "TELEMETRY_TOO_LARGE", fatal, "the telemetry is larger than allowed";
    InvalidRegistration = 119, "INVALID_REGISTRATION", fatal, "the broker's registration is invalid";
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE", fatal, "the transaction failed and must be aborted";
    InvalidRecordState = 121, "INVALID_RECORD_STATE", fatal, "the record is not in a state to be acknowledged";
    ShareSessionNotFound = 122, "SHARE_SESSION_NOT_FOUND", retriable, "there is no such share session";
    InvalidShareSessionEpoch = 123, "INVALID_SHARE_SESSION_EPOCH", retriable, "the share session is at another epoch";
    FencedStateEpoch = 124, "FENCED_STATE_EPOCH", fatal, "the share group is at another state epoch";
    InvalidVoterKey = 125, "INVALID_VOTER_KEY", fatal, "the voter key does not match the receiver";
    DuplicateVoter = 126, "DUPLICATE_VOTER", fatal, "the node is already a voter";
    VoterNotFound = 127, "VOTER_NOT_FOUND", fatal, "there is no such voter";
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION", fatal, "the regular expression is malformed";
    RebootstrapRequired = 129, "REBOOTSTRAP_REQUIRED", fatal, "the client must fetch its metadata again";
    StreamsInvalidTopology = 130, "STREAMS_INVALID_TOPOLOGY", fatal, "the topology is invalid";
    StreamsInvalidTopologyEpoch = 131, "STREAMS_INVALID_TOPOLOGY_EPOCH", fatal, "the topology epoch is invalid";
    StreamsTopologyFenced = 132, "STREAMS_TOPOLOGY_FENCED", fatal, "the topology epoch is out of date";
    ShareSessionLimitReached = 133, "SHARE_SESSION_LIMIT_REACHED", retriable, "the maximum number of share sessions is open";
}

impl ErrorCode {
    /// The number that responses carry.
    pub const fn code(self) -> i16 {
        self as i16
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> Self {
        code.code()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name(), self.code(), self.message())
    }
}
