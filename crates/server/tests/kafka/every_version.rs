//! The server answers every API at every version that ApiVersions lists. The server has a topic with records.

use crate::common::{Client, TestServer, topic};
use tailrace_kafka_wire::messages::*;
use tailrace_kafka_wire::{ApiKey, Request};

const TOPIC: &str = "t";

async fn versions<R: Request>(client: &mut Client) -> std::ops::RangeInclusive<i16> {
    let request = ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    };
    let named = client.call(4, &request).await.api_keys;
    let api = named.iter().find(|api| api.api_key == R::KEY.code()).expect("the API is served");
    // Produce is advertised from version 0 and answered from 3 on (KAFKA-18659).
    let min = if R::KEY == ApiKey::Produce { 3 } else { api.min_version };
    min..=api.max_version
}

/// Calls `request(version)` at each version and passes the answer to `check`.
async fn at_every_version<R: Request>(
    client: &mut Client,
    request: impl Fn(i16) -> R,
    check: impl Fn(i16, R::Response),
) {
    for version in versions::<R>(client).await {
        check(version, client.call(version, &request(version)).await);
    }
}

async fn prepared() -> (TestServer, Client, [u8; 16]) {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let id = client.create_topic(TOPIC, 2, &[]).await;
    client.produce(TOPIC, 0, &[1_000, 3_000, 2_000]).await;
    (server, client, id)
}

#[tokio::test]
async fn metadata() {
    let (_server, mut client, id) = prepared().await;
    let all = |version| MetadataRequest {
        topics: if version == 0 { Some(Vec::new()) } else { None },
        ..Default::default()
    };
    at_every_version(&mut client, all, |version, answer| {
        assert_eq!(answer.brokers.len(), 1);
        assert_eq!(answer.topics[0].name.as_deref(), Some(TOPIC), "version {version}");
        assert_eq!(answer.topics[0].partitions.len(), 2);
        assert_eq!(answer.topics[0].topic_id, if version >= 10 { id } else { [0; 16] });
    })
    .await;
    let named = |version| MetadataRequest {
        topics: Some(vec![metadata_request::MetadataRequestTopic {
            name: Some(TOPIC.to_owned()),
            ..Default::default()
        }]),
        include_topic_authorized_operations: version >= 8,
        include_cluster_authorized_operations: (8..=10).contains(&version),
        ..Default::default()
    };
    at_every_version(&mut client, named, |version, answer| {
        assert_eq!(answer.topics[0].error_code, 0);
        assert_eq!(answer.topics[0].topic_authorized_operations, if version >= 8 { 3576 } else { i32::MIN });
        let cluster = if (8..=10).contains(&version) { 8096 } else { i32::MIN };
        assert_eq!(answer.cluster_authorized_operations, cluster);
    })
    .await;
    let by_id = MetadataRequest {
        topics: Some(vec![metadata_request::MetadataRequestTopic {
            name: None,
            topic_id: id,
            ..Default::default()
        }]),
        ..Default::default()
    };
    for version in 12..=13 {
        let answer = client.call(version, &by_id).await;
        assert_eq!(answer.topics[0].name.as_deref(), Some(TOPIC), "version {version}");
    }
}

#[tokio::test]
async fn list_offsets_and_epochs() {
    let (_server, mut client, _) = prepared().await;
    let at = |timestamp| {
        move |_| {
            let partition = list_offsets_request::ListOffsetsPartition { timestamp, ..Default::default() };
            ListOffsetsRequest {
                replica_id: -1,
                topics: vec![list_offsets_request::ListOffsetsTopic {
                    name: TOPIC.to_owned(),
                    partitions: vec![partition],
                    ..Default::default()
                }],
                ..Default::default()
            }
        }
    };
    let expect = |offset, since: i16| {
        move |version: i16, answer: ListOffsetsResponse| {
            let partition = &answer.topics[0].partitions[0];
            let expected = if version >= since { (0, offset) } else { (35, -1) };
            assert_eq!((partition.error_code, partition.offset), expected, "version {version}");
            let epoch = if version >= 4 && partition.offset >= 0 { 0 } else { -1 };
            assert_eq!(partition.leader_epoch, epoch, "version {version}");
        }
    };
    at_every_version(&mut client, at(-1), expect(3, 1)).await;
    at_every_version(&mut client, at(-2), expect(0, 1)).await;
    at_every_version(&mut client, at(-3), expect(1, 7)).await;
    at_every_version(&mut client, at(-4), expect(0, 8)).await;
    at_every_version(&mut client, at(-5), expect(-1, 9)).await;
    at_every_version(&mut client, at(-6), expect(-1, 11)).await;
    at_every_version(&mut client, at(-7), expect(-1, i16::MAX)).await;
    at_every_version(&mut client, at(1_001), expect(1, 1)).await;

    let epoch = |_| OffsetForLeaderEpochRequest {
        replica_id: -1,
        topics: vec![offset_for_leader_epoch_request::OffsetForLeaderTopic {
            topic: TOPIC.to_owned(),
            partitions: vec![offset_for_leader_epoch_request::OffsetForLeaderPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    at_every_version(&mut client, epoch, |_, answer| {
        let partition = &answer.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.leader_epoch, partition.end_offset), (0, 0, 3));
    })
    .await;
}

#[tokio::test]
async fn topics_come_and_go() {
    let (_server, mut client, _) = prepared().await;
    let create = |version: i16| CreateTopicsRequest {
        topics: vec![topic(&format!("v{version}"), 1, &[("retention.ms", "5")])],
        ..Default::default()
    };
    at_every_version(&mut client, create, |version, answer| {
        let created = &answer.topics[0];
        assert_eq!(created.error_code, 0, "version {version}: {:?}", created.error_message);
        assert_eq!(created.num_partitions, if version >= 5 { 1 } else { -1 });
        assert_eq!(created.topic_id != [0; 16], version >= 7);
    })
    .await;
    let extend = |version: i16| CreatePartitionsRequest {
        topics: vec![create_partitions_request::CreatePartitionsTopic {
            name: TOPIC.to_owned(),
            count: 3 + i32::from(version),
            assignments: None,
            ..Default::default()
        }],
        timeout_ms: 1000,
        ..Default::default()
    };
    at_every_version(&mut client, extend, |_, answer| assert_eq!(answer.results[0].error_code, 0)).await;
    let delete = |version: i16| {
        let name = format!("v{}", version + 1);
        let state =
            delete_topics_request::DeleteTopicState { name: Some(name.clone()), ..Default::default() };
        DeleteTopicsRequest {
            topics: if version >= 6 { vec![state] } else { Vec::new() },
            topic_names: if version >= 6 { Vec::new() } else { vec![name] },
            timeout_ms: 1000,
            ..Default::default()
        }
    };
    at_every_version(&mut client, delete, |version, answer| {
        assert_eq!(answer.responses[0].error_code, 0, "version {version}");
    })
    .await;
    let records = |_| DeleteRecordsRequest {
        topics: vec![delete_records_request::DeleteRecordsTopic {
            name: TOPIC.to_owned(),
            partitions: vec![delete_records_request::DeleteRecordsPartition {
                offset: 2,
                ..Default::default()
            }],
            ..Default::default()
        }],
        timeout_ms: 1000,
        ..Default::default()
    };
    at_every_version(&mut client, records, |_, answer| {
        let partition = &answer.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.low_watermark), (0, 2));
    })
    .await;
    let pages = |_| DescribeTopicPartitionsRequest::default();
    at_every_version(&mut client, pages, |_, answer| assert_eq!(answer.topics.len(), 1)).await;
}

#[tokio::test]
async fn configs() {
    let (_server, mut client, _) = prepared().await;
    let describe = |version| DescribeConfigsRequest {
        resources: vec![describe_configs_request::DescribeConfigsResource {
            resource_type: 2,
            resource_name: TOPIC.to_owned(),
            configuration_keys: None,
            ..Default::default()
        }],
        include_synonyms: true,
        include_documentation: version >= 3,
        ..Default::default()
    };
    at_every_version(&mut client, describe, |version, answer| {
        let result = &answer.results[0];
        assert_eq!(result.error_code, 0, "version {version}");
        let entry =
            result.configs.iter().find(|c| c.name == "retention.ms").expect("the setting is described");
        assert_eq!(entry.value.as_deref(), Some("604800000"));
        assert_eq!((entry.config_source, entry.read_only), (5, false));
        if version >= 3 {
            assert_eq!(entry.config_type, 5);
            assert!(entry.documentation.as_ref().is_some_and(|text| !text.is_empty()));
        }
    })
    .await;
    let alter = |version: i16| AlterConfigsRequest {
        resources: vec![alter_configs_request::AlterConfigsResource {
            resource_type: 2,
            resource_name: TOPIC.to_owned(),
            configs: vec![alter_configs_request::AlterableConfig {
                name: "retention.ms".to_owned(),
                value: Some(version.to_string()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    at_every_version(&mut client, alter, |_, answer| assert_eq!(answer.responses[0].error_code, 0)).await;
    let incremental = |version: i16| IncrementalAlterConfigsRequest {
        resources: vec![incremental_alter_configs_request::AlterConfigsResource {
            resource_type: 2,
            resource_name: TOPIC.to_owned(),
            configs: vec![incremental_alter_configs_request::AlterableConfig {
                name: "retention.ms".to_owned(),
                config_operation: 0,
                value: Some(version.to_string()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    at_every_version(&mut client, incremental, |_, answer| assert_eq!(answer.responses[0].error_code, 0))
        .await;
    let list = |_| ListConfigResourcesRequest::default();
    at_every_version(&mut client, list, |version, answer| {
        let expected: &[(&str, i8)] = if version == 0 { &[] } else { &[("1", 4), (TOPIC, 2)] };
        let found: Vec<_> =
            answer.config_resources.iter().map(|r| (r.resource_name.as_str(), r.resource_type)).collect();
        assert_eq!(found, expected);
    })
    .await;
}

#[tokio::test]
async fn cluster_and_producers() {
    let (server, mut client, _) = prepared().await;
    let port = i32::from(server.kafka().port());
    let cluster =
        |_| DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
    at_every_version(&mut client, cluster, |_, answer| {
        assert_eq!((answer.error_code, answer.controller_id), (0, 1));
        assert_eq!((answer.brokers[0].host.as_str(), answer.brokers[0].port), ("127.0.0.1", port));
        assert_eq!(answer.cluster_authorized_operations, 8096);
        assert_eq!(answer.cluster_id.len(), 22);
    })
    .await;
    let dirs = |_| DescribeLogDirsRequest { topics: None, ..Default::default() };
    at_every_version(&mut client, dirs, |version, answer| {
        let dir = &answer.results[0];
        assert_eq!((dir.error_code, dir.topics[0].partitions.len()), (0, 2));
        assert!(dir.topics[0].partitions[0].partition_size > 60);
        assert_eq!(dir.total_bytes > 0 && dir.usable_bytes > 0, version >= 4);
    })
    .await;
    let producer = |_| InitProducerIdRequest { transactional_id: None, ..Default::default() };
    at_every_version(&mut client, producer, |version, answer| {
        assert_eq!((answer.error_code, answer.producer_id, answer.producer_epoch), (0, version.into(), 0));
    })
    .await;
    let describe = |_| DescribeProducersRequest {
        topics: vec![describe_producers_request::TopicRequest {
            name: TOPIC.to_owned(),
            partition_indexes: vec![0],
            ..Default::default()
        }],
        ..Default::default()
    };
    at_every_version(&mut client, describe, |_, answer| {
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    })
    .await;
    let coordinator = |version| FindCoordinatorRequest {
        key: if version < 4 { "g".to_owned() } else { String::new() },
        coordinator_keys: if version < 4 { Vec::new() } else { vec!["g".to_owned(), "h".to_owned()] },
        ..Default::default()
    };
    at_every_version(&mut client, coordinator, |version, answer| {
        // This node coordinates every group.
        let (code, node, at) = match version {
            0..4 => (answer.error_code, answer.node_id, answer.port),
            _ => {
                let last = &answer.coordinators[1];
                (last.error_code, last.node_id, last.port)
            }
        };
        assert_eq!((code, node, at), (0, 1, port), "version {version}");
    })
    .await;
}

#[tokio::test]
async fn transactions() {
    let (_server, mut client, _) = prepared().await;
    let (transactional_id, group_id) = ("tx".to_owned(), "g".to_owned());
    let init = |_| InitProducerIdRequest {
        transactional_id: Some(transactional_id.clone()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    at_every_version(&mut client, init, |version, answer| {
        assert_eq!((answer.error_code, answer.producer_epoch), (0, version), "each call raises the epoch");
    })
    .await;
    let last = client.call(5, &init(5)).await;
    let (producer_id, producer_epoch) = (last.producer_id, last.producer_epoch);

    let topics = vec![add_partitions_to_txn_request::AddPartitionsToTxnTopic {
        name: TOPIC.to_owned(),
        partitions: vec![0],
        ..Default::default()
    }];
    let add = |version| match version {
        ..4 => AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: transactional_id.clone(),
            v3_and_below_producer_id: producer_id,
            v3_and_below_producer_epoch: producer_epoch,
            v3_and_below_topics: topics.clone(),
            ..Default::default()
        },
        _ => AddPartitionsToTxnRequest {
            transactions: vec![add_partitions_to_txn_request::AddPartitionsToTxnTransaction {
                transactional_id: transactional_id.clone(),
                producer_id,
                producer_epoch,
                verify_only: true,
                topics: topics.clone(),
                ..Default::default()
            }],
            ..Default::default()
        },
    };
    at_every_version(&mut client, add, |version, mut answer| {
        let topics = match version {
            ..4 => answer.results_by_topic_v3_and_below,
            _ => answer.results_by_transaction.remove(0).topic_results,
        };
        assert_eq!(topics[0].results_by_partition[0].partition_error_code, 0, "version {version}");
    })
    .await;
    let add_offsets = |_| AddOffsetsToTxnRequest {
        transactional_id: transactional_id.clone(),
        producer_id,
        producer_epoch,
        group_id: group_id.clone(),
        ..Default::default()
    };
    at_every_version(&mut client, add_offsets, |_, answer| assert_eq!(answer.error_code, 0)).await;
    let offsets = |_| TxnOffsetCommitRequest {
        transactional_id: transactional_id.clone(),
        group_id: group_id.clone(),
        producer_id,
        producer_epoch,
        generation_id: -1,
        topics: vec![txn_offset_commit_request::TxnOffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![txn_offset_commit_request::TxnOffsetCommitRequestPartition {
                committed_offset: 3,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    at_every_version(&mut client, offsets, |version, answer| {
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "version {version}");
    })
    .await;
    let marker = |_| WriteTxnMarkersRequest {
        markers: vec![write_txn_markers_request::WritableTxnMarker {
            producer_id,
            producer_epoch,
            topics: vec![write_txn_markers_request::WritableTxnMarkerTopic {
                name: TOPIC.to_owned(),
                partition_indexes: vec![1],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    at_every_version(&mut client, marker, |version, answer| {
        assert_eq!(answer.markers[0].topics[0].partitions[0].error_code, 0, "version {version}");
    })
    .await;
    let list = |_| ListTransactionsRequest { duration_filter: -1, ..Default::default() };
    at_every_version(&mut client, list, |_, answer| {
        let one = &answer.transaction_states[0];
        assert_eq!((one.transactional_id.as_str(), one.transaction_state.as_str()), ("tx", "Ongoing"));
    })
    .await;

    let end = |version| EndTxnRequest {
        transactional_id: transactional_id.clone(),
        producer_id,
        producer_epoch,
        // From version 5 on, a transaction that was committed without bumping the epoch cannot be committed
        // again.
        committed: version < 5,
        ..Default::default()
    };
    assert_eq!(client.call(0, &end(0)).await.error_code, 0);
    let describe = DescribeTransactionsRequest {
        transactional_ids: vec![transactional_id.clone()],
        ..Default::default()
    };
    while client.call(0, &describe).await.transaction_states[0].transaction_state != "CompleteCommit" {}
    at_every_version(&mut client, end, |version, answer| {
        let next = if version < 5 { -1 } else { producer_epoch + 1 };
        assert_eq!((answer.error_code, answer.producer_epoch), (0, next), "version {version}");
    })
    .await;
}

#[tokio::test]
async fn other_versions_close_the_connection() {
    let server = TestServer::start().await;
    let versions = server.connect().await.call(0, &ApiVersionsRequest::default()).await.api_keys;
    assert!(versions.len() >= 20);
    for api in versions.iter().filter(|api| api.api_key != ApiKey::ApiVersions.code()) {
        for version in [-1, api.max_version + 1] {
            let mut bytes = Vec::from(api.api_key.to_be_bytes());
            bytes.extend(version.to_be_bytes());
            bytes.extend([0; 32]);
            assert!(
                server.connect().await.raw(&bytes).await.is_none(),
                "key {} version {version}",
                api.api_key
            );
        }
    }
}
