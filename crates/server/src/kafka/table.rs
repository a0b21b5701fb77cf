//! Which APIs are served, at which versions, and by whom.

use tailrace_kafka_wire::{ApiKey, Reader};

use crate::kafka::connection::Closed;
use crate::kafka::{Context, Decided, answer};
use crate::kafka::{
    acls, add_offsets_to_txn, add_partitions_to_txn, alter_configs, alter_partition_reassignments,
    alter_share_group_offsets, api_versions, client_quotas, consumer_group_describe,
    consumer_group_heartbeat, create_partitions, create_topics, delete_groups, delete_records,
    delete_share_group_offsets, delete_topics, describe_cluster, describe_configs, describe_groups,
    describe_log_dirs, describe_producers, describe_quorum, describe_share_group_offsets,
    describe_topic_partitions, describe_transactions, elect_leaders, end_txn, fetch, find_coordinator,
    heartbeat, incremental_alter_configs, init_producer_id, join_group, leave_group, list_config_resources,
    list_groups, list_offsets, list_partition_reassignments, list_transactions, metadata, offset_commit,
    offset_delete, offset_fetch, offset_for_leader_epoch, produce, scram_credentials, share_acknowledge,
    share_fetch, share_group_describe, share_group_heartbeat, sync_group, txn_offset_commit,
    unregister_broker, update_features, write_txn_markers,
};

/// One served API.
pub(crate) struct Served {
    pub(crate) key: ApiKey,
    /// Lowest version that is answered.
    pub(crate) min: i16,
    /// Highest version that is answered.
    pub(crate) max: i16,
    /// Lowest version that ApiVersions names. It differs from `min` for Produce alone: librdkafka sends uncompressed
    /// data to brokers that do not claim version 0 (KAFKA-18659).
    pub(crate) advertised_min: i16,
}

const fn served(key: ApiKey, min: i16, max: i16) -> Served {
    Served { key, min, max, advertised_min: min }
}

/// All served APIs, in the order of their keys. The floors are those of Kafka 4, the tops those of Kafka 4.3.
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
    served(ApiKey::ApiVersions, 0, 4),
    served(ApiKey::CreateTopics, 2, 7),
    served(ApiKey::DeleteTopics, 1, 6),
    served(ApiKey::DeleteRecords, 0, 2),
    // Version 6 (KIP-939) is not released in Kafka 4.3.
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
    served(ApiKey::CreatePartitions, 0, 3),
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

/// True if a request of this version is answered.
pub(crate) fn serves(key: ApiKey, version: i16) -> bool {
    SERVED.iter().any(|served| served.key == key && served.min <= version && version <= served.max)
}

/// The name of a served API, for metrics.
pub(crate) fn api_name(code: i16) -> Option<&'static str> {
    SERVED.iter().map(|served| served.key).find(|key| key.code() == code).map(ApiKey::name)
}

/// Requests of every client's every second are decided on the event loop up to this size.
pub(super) const LOOP_BYTES: usize = 8 * 1024;

/// So are requests with records, most of whose bytes nobody looks into there.
const LOOP_BYTES_WITH_RECORDS: usize = 2 * 1024 * 1024;

/// Where a request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Road {
    /// On the event loop of its connection.
    Loop,
    /// On threads of its own ([`Aside`](crate::aside::Aside)), when there is room.
    Aside,
}

/// Where a request of so many bytes is decided.
pub(crate) fn road(key: ApiKey, bytes: usize) -> Road {
    match key {
        ApiKey::Produce if bytes <= LOOP_BYTES_WITH_RECORDS => Road::Loop,
        // Metadata of all topics has as long an answer as there are topics; but everybody needs it, and it yields.
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
        // What tools ask, and whatever is large.
        _ => Road::Aside,
    }
}

/// Hands a request to its API. [`serves`] has been asked before.
pub(crate) async fn dispatch(context: Context, reader: Reader) -> Result<Decided, Closed> {
    match context.header.api_key {
        ApiKey::Produce => produce::decide(context, reader).await,
        ApiKey::Fetch => fetch::decide(context, reader).await,
        ApiKey::ListOffsets => answer(context, reader, list_offsets::handle).await,
        ApiKey::Metadata => answer(context, reader, metadata::handle).await,
        ApiKey::OffsetCommit => offset_commit::decide(context, reader).await,
        ApiKey::OffsetFetch => offset_fetch::decide(context, reader).await,
        ApiKey::FindCoordinator => answer(context, reader, find_coordinator::handle).await,
        ApiKey::JoinGroup => join_group::decide(context, reader).await,
        ApiKey::Heartbeat => heartbeat::decide(context, reader).await,
        ApiKey::LeaveGroup => leave_group::decide(context, reader).await,
        ApiKey::SyncGroup => sync_group::decide(context, reader).await,
        ApiKey::DescribeGroups => describe_groups::decide(context, reader).await,
        ApiKey::ListGroups => answer(context, reader, list_groups::handle).await,
        ApiKey::ApiVersions => answer(context, reader, api_versions::handle).await,
        ApiKey::CreateTopics => answer(context, reader, create_topics::handle).await,
        ApiKey::DeleteTopics => answer(context, reader, delete_topics::handle).await,
        ApiKey::DeleteRecords => answer(context, reader, delete_records::handle).await,
        ApiKey::InitProducerId => init_producer_id::decide(context, reader).await,
        ApiKey::OffsetForLeaderEpoch => answer(context, reader, offset_for_leader_epoch::handle).await,
        ApiKey::AddPartitionsToTxn => add_partitions_to_txn::decide(context, reader).await,
        ApiKey::AddOffsetsToTxn => add_offsets_to_txn::decide(context, reader).await,
        ApiKey::EndTxn => end_txn::decide(context, reader).await,
        ApiKey::WriteTxnMarkers => write_txn_markers::decide(context, reader).await,
        ApiKey::TxnOffsetCommit => txn_offset_commit::decide(context, reader).await,
        ApiKey::DescribeAcls => answer(context, reader, acls::describe).await,
        ApiKey::CreateAcls => answer(context, reader, acls::create).await,
        ApiKey::DeleteAcls => answer(context, reader, acls::delete).await,
        ApiKey::DescribeConfigs => answer(context, reader, describe_configs::handle).await,
        ApiKey::AlterConfigs => answer(context, reader, alter_configs::handle).await,
        ApiKey::DescribeLogDirs => answer(context, reader, describe_log_dirs::handle).await,
        ApiKey::CreatePartitions => answer(context, reader, create_partitions::handle).await,
        ApiKey::DeleteGroups => delete_groups::decide(context, reader).await,
        ApiKey::ElectLeaders => answer(context, reader, elect_leaders::handle).await,
        ApiKey::OffsetDelete => offset_delete::decide(context, reader).await,
        ApiKey::IncrementalAlterConfigs => answer(context, reader, incremental_alter_configs::handle).await,
        ApiKey::AlterPartitionReassignments => {
            answer(context, reader, alter_partition_reassignments::handle).await
        }
        ApiKey::ListPartitionReassignments => {
            answer(context, reader, list_partition_reassignments::handle).await
        }
        ApiKey::DescribeClientQuotas => answer(context, reader, client_quotas::describe).await,
        ApiKey::AlterClientQuotas => answer(context, reader, client_quotas::alter).await,
        ApiKey::DescribeUserScramCredentials => answer(context, reader, scram_credentials::describe).await,
        ApiKey::AlterUserScramCredentials => answer(context, reader, scram_credentials::alter).await,
        ApiKey::DescribeQuorum => answer(context, reader, describe_quorum::handle).await,
        ApiKey::UpdateFeatures => answer(context, reader, update_features::handle).await,
        ApiKey::DescribeCluster => answer(context, reader, describe_cluster::handle).await,
        ApiKey::DescribeProducers => answer(context, reader, describe_producers::handle).await,
        ApiKey::UnregisterBroker => answer(context, reader, unregister_broker::handle).await,
        ApiKey::DescribeTransactions => describe_transactions::decide(context, reader).await,
        ApiKey::ListTransactions => list_transactions::decide(context, reader).await,
        ApiKey::ListConfigResources => answer(context, reader, list_config_resources::handle).await,
        ApiKey::DescribeTopicPartitions => answer(context, reader, describe_topic_partitions::handle).await,
        ApiKey::ShareFetch => share_fetch::decide(context, reader).await,
        ApiKey::ShareAcknowledge => share_acknowledge::decide(context, reader).await,
        ApiKey::DescribeShareGroupOffsets => {
            answer(context, reader, describe_share_group_offsets::handle).await
        }
        ApiKey::AlterShareGroupOffsets => answer(context, reader, alter_share_group_offsets::handle).await,
        ApiKey::DeleteShareGroupOffsets => answer(context, reader, delete_share_group_offsets::handle).await,
        ApiKey::ConsumerGroupHeartbeat => consumer_group_heartbeat::decide(context, reader).await,
        ApiKey::ConsumerGroupDescribe => answer(context, reader, consumer_group_describe::handle).await,
        ApiKey::ShareGroupHeartbeat => share_group_heartbeat::decide(context, reader).await,
        ApiKey::ShareGroupDescribe => answer(context, reader, share_group_describe::handle).await,
        key => Err(Closed::Protocol(format!("{} is not served", key.name()))),
    }
}
