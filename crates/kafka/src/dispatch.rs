//! Maps each API to the module that answers it.

use tailrace_kafka_wire::{ApiKey, Reader};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer, decode};
use crate::{
    acls, add_offsets_to_txn, add_partitions_to_txn, alter_configs, alter_partition_reassignments,
    alter_share_group_offsets, api_versions, client_quotas, consumer_group_describe,
    consumer_group_heartbeat, create_partitions, create_topics, delegation_tokens, delete_groups,
    delete_records, delete_share_group_offsets, delete_topics, describe_cluster, describe_configs,
    describe_groups, describe_log_dirs, describe_producers, describe_quorum, describe_share_group_offsets,
    describe_topic_partitions, describe_transactions, elect_leaders, end_txn, fetch, find_coordinator,
    heartbeat, incremental_alter_configs, init_producer_id, join_group, leave_group, list_config_resources,
    list_groups, list_offsets, list_partition_reassignments, list_transactions, login, metadata,
    offset_commit, offset_delete, offset_fetch, offset_for_leader_epoch, produce, scram_credentials,
    share_acknowledge, share_fetch, share_group_describe, share_group_heartbeat, sync_group,
    txn_offset_commit, unregister_broker, update_features, write_txn_markers,
};

/// Dispatches a request to its API. The caller has checked [`serves`](crate::served::serves).
pub(crate) async fn dispatch(context: Context, reader: Reader) -> Result<Decided, Closed> {
    match context.header.api_key {
        ApiKey::Produce => produce::decide(context, reader).await,
        ApiKey::Fetch => fetch::decide(context, reader).await,
        ApiKey::ListOffsets => list_offsets::decide(context, reader).await,
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
        ApiKey::SaslHandshake => {
            let request = decode(&context, reader)?;
            login::handshake(&context, &request)
        }
        ApiKey::SaslAuthenticate => {
            let request = decode(&context, reader)?;
            login::authenticate(context, request).await
        }
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
        ApiKey::CreateDelegationToken => answer(context, reader, delegation_tokens::create).await,
        ApiKey::RenewDelegationToken => answer(context, reader, delegation_tokens::renew).await,
        ApiKey::ExpireDelegationToken => answer(context, reader, delegation_tokens::expire).await,
        ApiKey::DescribeDelegationToken => answer(context, reader, delegation_tokens::describe).await,
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
