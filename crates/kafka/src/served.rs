//! The served APIs, their versions, and the threads that decide them.

use tailrace_kafka_wire::ApiKey;

/// One served API.
pub(crate) struct Served {
    pub(crate) key: ApiKey,
    /// Lowest version that is answered.
    pub(crate) min: i16,
    /// Highest version that is answered.
    pub(crate) max: i16,
    /// Lowest version that ApiVersions advertises. It differs from `min` only for Produce, because librdkafka
    /// sends uncompressed data to brokers that do not advertise version 0 (KAFKA-18659).
    pub(crate) advertised_min: i16,
}

const fn served(key: ApiKey, min: i16, max: i16) -> Served {
    Served { key, min, max, advertised_min: min }
}

/// All served APIs in the order of their keys. The lowest versions are those of Kafka 4, the highest those of
/// Kafka 4.3.
pub(crate) const SERVED: &[Served] = &[
    Served { key: ApiKey::Produce, min: 3, max: 13, advertised_min: 0 },
    served(ApiKey::Fetch, 4, 18),
    served(ApiKey::ListOffsets, 1, 11),
    served(ApiKey::Metadata, 0, 13),
    served(ApiKey::OffsetCommit, 2, 10),
    served(ApiKey::OffsetFetch, 1, 10),
    served(ApiKey::FindCoordinator, 0, 6),
    served(ApiKey::JoinGroup, 0, 9),
    served(ApiKey::Heartbeat, 0, 4),
    served(ApiKey::LeaveGroup, 0, 5),
    served(ApiKey::SyncGroup, 0, 5),
    served(ApiKey::DescribeGroups, 0, 6),
    served(ApiKey::ListGroups, 0, 5),
    // Version 2 is not served: old clients take the highest version, and break (KAFKA-9577).
    served(ApiKey::SaslHandshake, 0, 1),
    served(ApiKey::ApiVersions, 0, 4),
    served(ApiKey::CreateTopics, 2, 7),
    served(ApiKey::DeleteTopics, 1, 6),
    served(ApiKey::DeleteRecords, 0, 2),
    // Version 6 (KIP-939) is unreleased in Kafka 4.3.
    served(ApiKey::InitProducerId, 0, 5),
    served(ApiKey::OffsetForLeaderEpoch, 2, 4),
    served(ApiKey::AddPartitionsToTxn, 0, 5),
    served(ApiKey::AddOffsetsToTxn, 0, 4),
    served(ApiKey::EndTxn, 0, 5),
    served(ApiKey::WriteTxnMarkers, 1, 2),
    served(ApiKey::TxnOffsetCommit, 0, 5),
    served(ApiKey::DescribeAcls, 1, 3),
    served(ApiKey::CreateAcls, 1, 3),
    served(ApiKey::DeleteAcls, 1, 3),
    served(ApiKey::DescribeConfigs, 1, 4),
    served(ApiKey::AlterConfigs, 0, 2),
    served(ApiKey::DescribeLogDirs, 1, 5),
    served(ApiKey::SaslAuthenticate, 0, 2),
    served(ApiKey::CreatePartitions, 0, 3),
    served(ApiKey::CreateDelegationToken, 1, 3),
    served(ApiKey::RenewDelegationToken, 1, 2),
    served(ApiKey::ExpireDelegationToken, 1, 2),
    served(ApiKey::DescribeDelegationToken, 1, 3),
    served(ApiKey::DeleteGroups, 0, 2),
    served(ApiKey::ElectLeaders, 0, 2),
    served(ApiKey::IncrementalAlterConfigs, 0, 1),
    served(ApiKey::AlterPartitionReassignments, 0, 1),
    served(ApiKey::ListPartitionReassignments, 0, 0),
    served(ApiKey::OffsetDelete, 0, 0),
    served(ApiKey::DescribeClientQuotas, 0, 1),
    served(ApiKey::AlterClientQuotas, 0, 1),
    served(ApiKey::DescribeUserScramCredentials, 0, 0),
    served(ApiKey::AlterUserScramCredentials, 0, 0),
    served(ApiKey::DescribeQuorum, 0, 2),
    served(ApiKey::UpdateFeatures, 0, 2),
    served(ApiKey::DescribeCluster, 0, 2),
    served(ApiKey::DescribeProducers, 0, 0),
    served(ApiKey::UnregisterBroker, 0, 0),
    served(ApiKey::DescribeTransactions, 0, 0),
    served(ApiKey::ListTransactions, 0, 2),
    served(ApiKey::ConsumerGroupHeartbeat, 0, 1),
    served(ApiKey::ConsumerGroupDescribe, 0, 1),
    served(ApiKey::ListConfigResources, 0, 1),
    served(ApiKey::DescribeTopicPartitions, 0, 0),
    served(ApiKey::ShareGroupHeartbeat, 1, 1),
    served(ApiKey::ShareGroupDescribe, 1, 1),
    served(ApiKey::ShareFetch, 1, 2),
    served(ApiKey::ShareAcknowledge, 1, 2),
    served(ApiKey::DescribeShareGroupOffsets, 0, 1),
    served(ApiKey::AlterShareGroupOffsets, 0, 0),
    served(ApiKey::DeleteShareGroupOffsets, 0, 0),
];

/// Reports whether a request of this version is answered.
pub(crate) fn serves(key: ApiKey, version: i16) -> bool {
    SERVED.iter().any(|served| served.key == key && served.min <= version && version <= served.max)
}

/// Returns the name of a served API, for metrics.
pub fn api_name(code: i16) -> Option<&'static str> {
    SERVED.iter().map(|served| served.key).find(|key| key.code() == code).map(ApiKey::name)
}

/// Largest request that is decided on the event loop, for the APIs that clients use all the time.
pub(crate) const LOOP_BYTES: usize = 8 * 1024;

/// The same for requests with records, most of whose bytes are not inspected there.
const LOOP_BYTES_WITH_RECORDS: usize = 2 * 1024 * 1024;

/// The threads on which a request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Road {
    /// The event loop of the connection.
    Loop,
    /// Separate threads ([`Aside`](tailrace_env::aside::Aside)), when there is room.
    Aside,
}

/// Returns where a request of this size is decided.
pub(crate) fn road(key: ApiKey, bytes: usize) -> Road {
    match key {
        ApiKey::Produce if bytes <= LOOP_BYTES_WITH_RECORDS => Road::Loop,
        // An answer with the metadata of all topics is long if there are many. But all clients need it, and
        // it yields.
        ApiKey::Metadata
        | ApiKey::Fetch
        | ApiKey::ListOffsets
        | ApiKey::OffsetCommit
        | ApiKey::OffsetFetch
        | ApiKey::FindCoordinator
        | ApiKey::JoinGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::SyncGroup
        | ApiKey::ApiVersions
        | ApiKey::SaslHandshake
        | ApiKey::SaslAuthenticate
        | ApiKey::InitProducerId
        | ApiKey::OffsetForLeaderEpoch
        | ApiKey::AddPartitionsToTxn
        | ApiKey::AddOffsetsToTxn
        | ApiKey::EndTxn
        | ApiKey::WriteTxnMarkers
        | ApiKey::TxnOffsetCommit
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::ShareGroupHeartbeat
        | ApiKey::ShareFetch
        | ApiKey::ShareAcknowledge
            if bytes <= LOOP_BYTES =>
        {
            Road::Loop
        }
        // Requests of tools, and all large requests.
        _ => Road::Aside,
    }
}
