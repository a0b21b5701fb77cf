//! How a single node answers requests that administer a cluster. Each field matches the answer of Kafka 4.3.1
//! with one node and without an authorizer, except for the wording of messages. Where tailrace differs, the
//! test says so.

use crate::common::{Client, TestServer};
use tailrace_kafka_wire::messages::*;

const TOPIC: &str = "t";

async fn prepared() -> (TestServer, Client) {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic(TOPIC, 2, &[]).await;
    (server, client)
}

const INVALID_REQUEST: i16 = 42;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;

#[tokio::test]
async fn there_is_nothing_to_elect() {
    let (_server, mut client) = prepared().await;
    let of = |topic: &str, partitions: &[i32]| elect_leaders_request::TopicPartitions {
        topic: topic.to_owned(),
        partitions: partitions.to_vec(),
        ..Default::default()
    };
    let codes = |answer: &ElectLeadersResponse| {
        let topics = answer.replica_election_results.iter();
        topics
            .map(|topic| {
                let partitions = topic.partition_result.iter();
                let partitions = partitions.map(|p| {
                    assert!(p.error_message.is_some(), "each has an error message");
                    (p.partition_id, p.error_code)
                });
                (topic.topic.clone(), partitions.collect::<Vec<_>>())
            })
            .collect::<Vec<_>>()
    };
    for version in 0..=2 {
        for kind in 0..=i8::from(version >= 1) {
            let all =
                ElectLeadersRequest { election_type: kind, topic_partitions: None, ..Default::default() };
            let answer = client.call(version, &all).await;
            assert_eq!(answer.error_code, 0);
            assert_eq!(codes(&answer), [(TOPIC.to_owned(), vec![])], "version {version}");
            let some = ElectLeadersRequest {
                election_type: kind,
                topic_partitions: Some(vec![of(TOPIC, &[0, 1, 5]), of("nope", &[0])]),
                ..Default::default()
            };
            let answer = client.call(version, &some).await;
            let expected = [
                (TOPIC.to_owned(), vec![(0, 84), (1, 84), (5, UNKNOWN_TOPIC_OR_PARTITION)]),
                ("nope".to_owned(), vec![(0, UNKNOWN_TOPIC_OR_PARTITION)]),
            ];
            assert_eq!(codes(&answer), expected, "version {version}");
        }
    }
    let unknown = ElectLeadersRequest {
        election_type: 7,
        topic_partitions: Some(vec![of(TOPIC, &[0])]),
        ..Default::default()
    };
    let answer = client.call(2, &unknown).await;
    assert_eq!(answer.error_code, INVALID_REQUEST);
    assert_eq!(codes(&answer), [(TOPIC.to_owned(), vec![(0, INVALID_REQUEST)])]);
    let many =
        ElectLeadersRequest { topic_partitions: Some(vec![of(TOPIC, &[0; 10_001])]), ..Default::default() };
    let answer = client.call(2, &many).await;
    assert_eq!((answer.error_code, answer.replica_election_results.len()), (44, 0), "answers are bounded");
}

#[tokio::test]
async fn replicas_stay_where_they_are() {
    let (_server, mut client) = prepared().await;
    let request = |name: &str, partition_index: i32, replicas: Option<&[i32]>| {
        let partition = alter_partition_reassignments_request::ReassignablePartition {
            partition_index,
            replicas: replicas.map(<[i32]>::to_vec),
            ..Default::default()
        };
        let topic = alter_partition_reassignments_request::ReassignableTopic {
            name: name.to_owned(),
            partitions: vec![partition],
            ..Default::default()
        };
        AlterPartitionReassignmentsRequest { topics: vec![topic], ..Default::default() }
    };
    const INVALID_ASSIGNMENT: i16 = 39;
    for version in 0..=1 {
        for (name, partition, replicas, code) in [
            (TOPIC, 0, Some(&[1][..]), 0),
            (TOPIC, 0, Some(&[2]), INVALID_ASSIGNMENT),
            (TOPIC, 0, Some(&[]), INVALID_ASSIGNMENT),
            (TOPIC, 0, Some(&[1, 1]), INVALID_ASSIGNMENT),
            (TOPIC, 0, Some(&[1, 2]), INVALID_ASSIGNMENT),
            (TOPIC, 0, Some(&[-1]), INVALID_ASSIGNMENT),
            (TOPIC, 0, None, 85),
            (TOPIC, 9, Some(&[1]), UNKNOWN_TOPIC_OR_PARTITION),
            ("nope", 0, Some(&[1]), UNKNOWN_TOPIC_OR_PARTITION),
        ] {
            let answer = client.call(version, &request(name, partition, replicas)).await;
            assert_eq!((answer.error_code, answer.error_message), (0, None));
            assert!(answer.allow_replication_factor_change);
            let topic = &answer.responses[0];
            assert_eq!((topic.name.as_str(), topic.partitions.len()), (name, 1));
            let found = &topic.partitions[0];
            assert_eq!((found.partition_index, found.error_code), (partition, code), "{name} {replicas:?}");
            assert_eq!(found.error_message.is_some(), code != 0);
        }
        let nothing = AlterPartitionReassignmentsRequest::default();
        assert_eq!(client.call(version, &nothing).await.responses, []);
    }
    let topics = list_partition_reassignments_request::ListPartitionReassignmentsTopics {
        name: TOPIC.to_owned(),
        partition_indexes: vec![0, 7],
        ..Default::default()
    };
    for topics in [None, Some(vec![topics])] {
        let request = ListPartitionReassignmentsRequest { topics, ..Default::default() };
        let nothing = ListPartitionReassignmentsResponse { error_message: None, ..Default::default() };
        assert_eq!(client.call(0, &request).await, nothing);
    }
}

#[tokio::test]
async fn this_node_alone_is_the_quorum() {
    let (server, mut client) = prepared().await;
    let port = server.kafka().port();
    let request = |name: &str, partition_index| {
        let partition = describe_quorum_request::PartitionData { partition_index, ..Default::default() };
        let topic = describe_quorum_request::TopicData {
            topic_name: name.to_owned(),
            partitions: vec![partition],
            ..Default::default()
        };
        DescribeQuorumRequest { topics: vec![topic], ..Default::default() }
    };
    for version in 0..=2 {
        let answer = client.call(version, &request("__cluster_metadata", 0)).await;
        assert_eq!(answer.error_code, 0);
        assert_eq!(answer.error_message.as_deref(), Some(""), "version {version}");
        let found = &answer.topics[0].partitions[0];
        assert_eq!((found.partition_index, found.error_code, found.leader_id), (0, 0, 1));
        assert!(found.high_watermark >= 2, "features and a topic were written");
        assert_eq!(found.current_voters.len(), 1);
        let voter = &found.current_voters[0];
        assert_eq!((voter.replica_id, voter.log_end_offset), (1, found.high_watermark));
        assert_eq!(voter.last_fetch_timestamp > 0, version >= 1);
        assert_eq!(voter.last_caught_up_timestamp > 0, version >= 1);
        assert_eq!(found.observers, []);
        let nodes =
            answer.nodes.iter().map(|n| (n.node_id, n.listeners[0].name.as_str(), n.listeners[0].port));
        let expected = if version >= 2 { vec![(1, "CONTROLLER", port)] } else { vec![] };
        assert_eq!(nodes.collect::<Vec<_>>(), expected);
        for (name, partition) in [(TOPIC, 0), ("__cluster_metadata", 1)] {
            let answer = client.call(version, &request(name, partition)).await;
            let found = &answer.topics[0].partitions[0];
            let code = UNKNOWN_TOPIC_OR_PARTITION;
            assert_eq!((answer.error_code, found.error_code, found.leader_id), (0, code, 0));
            assert_eq!((found.current_voters.len(), answer.nodes.len()), (0, 0));
        }
    }
    assert_eq!(client.call(2, &DescribeQuorumRequest::default()).await.topics, []);
}

fn update(version: i16, name: &str, level: i16, kind: i8) -> UpdateFeaturesRequest {
    let update = update_features_request::FeatureUpdateKey {
        feature: name.to_owned(),
        max_version_level: level,
        allow_downgrade: version == 0 && kind == 2,
        upgrade_type: if version == 0 { 1 } else { kind },
        ..Default::default()
    };
    UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() }
}

type Levels = Vec<(String, i16)>;

/// Returns the epoch, the finalized levels, and the supported ranges.
async fn features(client: &mut Client, version: i16) -> (i64, Levels, Vec<(String, i16, i16)>) {
    let request = ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    };
    let answer = client.call(version, &request).await;
    let finalized = answer.finalized_features.into_iter().map(|feature| {
        assert_eq!(feature.min_version_level, feature.max_version_level);
        (feature.name, feature.max_version_level)
    });
    let supported = answer.supported_features.into_iter().map(|f| (f.name, f.min_version, f.max_version));
    (answer.finalized_features_epoch, finalized.collect(), supported.collect())
}

fn levels(of: &[(&str, i16)]) -> Levels {
    of.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect()
}

const NEWEST: [(&str, i16); 5] = [
    ("eligible.leader.replicas.version", 1),
    ("group.version", 1),
    ("metadata.version", 30),
    ("share.version", 1),
    ("transaction.version", 2),
];

#[tokio::test]
async fn features_are_those_of_kafka_4_3_without_streams_groups() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let (epoch, finalized, supported) = features(&mut client, 4).await;
    assert_eq!((epoch, finalized), (1, levels(&NEWEST)));
    let range = |(name, min, max): (&str, i16, i16)| (name.to_owned(), min, max);
    let expected = [
        ("eligible.leader.replicas.version", 0, 1),
        ("group.version", 0, 1),
        ("kraft.version", 0, 1),
        ("metadata.version", 7, 30),
        ("share.version", 0, 1),
        ("transaction.version", 0, 2),
    ];
    assert_eq!(supported, expected.map(range));
    // Older clients cannot read a range that starts at 0.
    let (epoch, finalized, supported) = features(&mut client, 3).await;
    assert_eq!((epoch, finalized), (1, levels(&NEWEST)));
    assert_eq!(supported, [range(("metadata.version", 7, 30))]);
    for version in 0..=2 {
        assert_eq!(
            features(&mut client, version).await,
            (-1, vec![], vec![]),
            "these versions have no features"
        );
    }
}

#[tokio::test]
async fn levels_of_features_are_changed_and_outlive_a_restart() {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    for version in 0..=2 {
        for (level, kind) in [(0, 2), (1, 1), (1, 1)] {
            let answer = client.call(version, &update(version, "group.version", level, kind)).await;
            assert_eq!((answer.error_code, answer.error_message), (0, None), "version {version}");
            let results: Vec<_> = answer.results.iter().map(|r| (r.feature.as_str(), r.error_code)).collect();
            let expected = if version <= 1 { vec![("group.version", 0)] } else { vec![] };
            assert_eq!(results, expected, "version {version}");
        }
    }
    let (epoch, finalized, _) = features(&mut client, 4).await;
    assert_eq!((epoch, finalized), (7, levels(&NEWEST)), "each change has an epoch");
    let dry = UpdateFeaturesRequest { validate_only: true, ..update(2, "share.version", 0, 2) };
    assert_eq!(client.call(2, &dry).await.error_code, 0);
    assert_eq!(features(&mut client, 4).await.0, 7, "validated only");
    assert_eq!(client.call(2, &update(2, "transaction.version", 1, 2)).await.error_code, 0);
    server.restart().await;
    let mut client = server.connect().await;
    let (epoch, finalized, _) = features(&mut client, 4).await;
    let mut expected = levels(&NEWEST);
    expected[4].1 = 1;
    assert_eq!((epoch, finalized), (8, expected));
    let nothing = UpdateFeaturesResponse { error_message: None, ..Default::default() };
    assert_eq!(client.call(2, &UpdateFeaturesRequest::default()).await, nothing);
}

#[tokio::test]
async fn levels_that_kafka_refuses_are_refused() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    const INVALID_UPDATE_VERSION: i16 = 95;
    for version in 0..=2 {
        for (name, level, kind) in [
            ("nope", 1, 1),
            ("group.version", 0, 1),
            ("group.version", 2, 1),
            ("group.version", -1, 2),
            ("metadata.version", 29, 1),
            ("metadata.version", 29, 2),
            ("metadata.version", 31, 1),
            // Kafka supports this feature and finalizes it.
            ("streams.version", 1, 1),
            // Kafka accepts this and does nothing.
            ("kraft.version", 1, 1),
        ] {
            let answer = client.call(version, &update(version, name, level, kind)).await;
            assert_eq!(answer.error_code, INVALID_UPDATE_VERSION, "version {version}: {name} {level}");
            let message = answer.error_message.unwrap_or_default();
            assert!(message.starts_with("The update failed for all features since"), "{message}");
            assert_eq!(answer.results, []);
        }
    }
    for kind in [0, 9] {
        let answer = client.call(2, &update(2, "group.version", 0, kind)).await;
        assert_eq!(answer.error_code, INVALID_UPDATE_VERSION, "upgrade type {kind}");
    }
    // Kafka accepts unsafe downgrades of every feature but metadata.version.
    let answer = client.call(2, &update(2, "group.version", 0, 3)).await;
    assert_eq!(answer.error_code, INVALID_UPDATE_VERSION);
    assert_eq!(features(&mut client, 4).await.0, 1, "no level has changed");
}

#[tokio::test]
async fn what_needs_a_feature_is_refused_without_it() {
    const UNSUPPORTED_VERSION: i16 = 35;
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let named = client.call(0, &ApiVersionsRequest::default()).await.api_keys;
    let serves = |key: i16| named.iter().any(|api| api.api_key == key);
    for name in ["group.version", "share.version"] {
        assert_eq!(client.call(2, &update(2, name, 0, 2)).await.error_code, 0);
    }
    if serves(68) {
        let answer = client.call(1, &ConsumerGroupHeartbeatRequest::default()).await;
        assert_eq!(answer.error_code, UNSUPPORTED_VERSION);
    }
    if serves(69) {
        let request = ConsumerGroupDescribeRequest { group_ids: vec!["g".to_owned()], ..Default::default() };
        let groups = client.call(1, &request).await.groups;
        assert_eq!((groups[0].group_id.as_str(), groups[0].error_code), ("g", UNSUPPORTED_VERSION));
    }
    if serves(76) {
        let answer = client.call(1, &ShareGroupHeartbeatRequest::default()).await;
        assert_eq!(answer.error_code, UNSUPPORTED_VERSION);
    }
    if serves(77) {
        let request = ShareGroupDescribeRequest { group_ids: vec!["g".to_owned()], ..Default::default() };
        let groups = client.call(1, &request).await.groups;
        assert_eq!((groups[0].group_id.as_str(), groups[0].error_code), ("g", UNSUPPORTED_VERSION));
    }
    for version in 1..=2 {
        let answer = client.call(version, &ShareFetchRequest::default()).await;
        assert_eq!(answer.error_code, UNSUPPORTED_VERSION);
        let answer = client.call(version, &ShareAcknowledgeRequest::default()).await;
        assert_eq!(answer.error_code, UNSUPPORTED_VERSION);
    }
    let group = describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup {
        group_id: "g".to_owned(),
        ..Default::default()
    };
    let request = DescribeShareGroupOffsetsRequest { groups: vec![group], ..Default::default() };
    let groups = client.call(1, &request).await.groups;
    assert_eq!((groups[0].group_id.as_str(), groups[0].error_code), ("g", UNSUPPORTED_VERSION));
    let answer = client.call(0, &AlterShareGroupOffsetsRequest::default()).await;
    assert_eq!(answer.error_code, UNSUPPORTED_VERSION);
    let answer = client.call(0, &DeleteShareGroupOffsetsRequest::default()).await;
    assert_eq!(answer.error_code, UNSUPPORTED_VERSION);

    assert_eq!(client.call(2, &update(2, "share.version", 1, 1)).await.error_code, 0);
    let answer = client.call(2, &ShareFetchRequest::default()).await;
    assert_ne!(answer.error_code, UNSUPPORTED_VERSION, "in force again on the same connection");
}

#[tokio::test]
async fn permissions_are_those_of_a_broker_without_an_authorizer() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    const SECURITY_DISABLED: i16 = 54;
    for version in 1..=3 {
        let answer = client.call(version, &DescribeAclsRequest::default()).await;
        assert_eq!((answer.error_code, answer.resources), (SECURITY_DISABLED, vec![]));
        let creations = vec![create_acls_request::AclCreation::default(); 2];
        let answer = client.call(version, &CreateAclsRequest { creations, ..Default::default() }).await;
        assert_eq!(answer.results.iter().map(|r| r.error_code).collect::<Vec<_>>(), [SECURITY_DISABLED; 2]);
        assert_eq!(client.call(version, &CreateAclsRequest::default()).await.results, []);
        let filters = vec![delete_acls_request::DeleteAclsFilter::default()];
        let answer = client.call(version, &DeleteAclsRequest { filters, ..Default::default() }).await;
        assert_eq!(answer.filter_results.len(), 1);
        let found = &answer.filter_results[0];
        assert_eq!((found.error_code, found.matching_acls.len()), (SECURITY_DISABLED, 0));
        assert!(found.error_message.as_deref().unwrap_or_default().contains("No Authorizer is configured"));
    }
}

#[tokio::test]
async fn quotas_are_listed_as_none_and_filters_are_refused_where_kafka_refuses_them() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let component =
        |kind: &str, match_type, name: Option<&str>| describe_client_quotas_request::ComponentData {
            entity_type: kind.to_owned(),
            match_type,
            r#match: name.map(str::to_owned),
            ..Default::default()
        };
    for version in 0..=1 {
        for (components, code) in [
            (vec![], 0),
            (vec![component("user", 0, Some("x"))], 0),
            (vec![component("nope", 2, None)], 35),
            (vec![component("user", 9, None)], INVALID_REQUEST),
            (vec![component("user", 2, Some(""))], INVALID_REQUEST),
        ] {
            let answer =
                client.call(version, &DescribeClientQuotasRequest { components, ..Default::default() }).await;
            assert_eq!(answer.error_code, code);
            assert_eq!(answer.entries, (code == 0).then(Vec::new), "null after an error");
        }
        let entity = alter_client_quotas_request::EntityData {
            entity_type: "user".to_owned(),
            entity_name: Some("x".to_owned()),
            ..Default::default()
        };
        let entry = alter_client_quotas_request::EntryData { entity: vec![entity], ..Default::default() };
        let request = AlterClientQuotasRequest { entries: vec![entry], ..Default::default() };
        let answer = client.call(version, &request).await;
        assert_eq!((answer.entries[0].error_code, &answer.entries[0].error_message), (0, &None));
        assert_eq!(answer.entries[0].entity[0].entity_name.as_deref(), Some("x"));
    }
}

#[tokio::test]
async fn nobody_has_credentials() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let all = DescribeUserScramCredentialsRequest { users: None, ..Default::default() };
    let answer = client.call(0, &all).await;
    assert_eq!((answer.error_code, answer.error_message.as_deref(), answer.results), (0, Some(""), vec![]));
    let user = |name: &str| describe_user_scram_credentials_request::UserName {
        name: name.to_owned(),
        ..Default::default()
    };
    let some = DescribeUserScramCredentialsRequest {
        users: Some(vec![user("x"), user("x"), user("y"), user("")]),
        ..Default::default()
    };
    let answer = client.call(0, &some).await;
    let found = answer.results.iter().map(|r| (r.user.as_str(), r.error_code, r.credential_infos.len()));
    assert_eq!(found.collect::<Vec<_>>(), [("", 91, 0), ("x", 92, 0), ("y", 91, 0)]);
    let request = AlterUserScramCredentialsRequest {
        deletions: vec![alter_user_scram_credentials_request::ScramCredentialDeletion {
            name: "x".to_owned(),
            mechanism: 1,
            ..Default::default()
        }],
        upsertions: vec![alter_user_scram_credentials_request::ScramCredentialUpsertion {
            name: "y".to_owned(),
            mechanism: 1,
            iterations: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = client.call(0, &request).await;
    let found = answer.results.iter().map(|r| (r.user.as_str(), r.error_code));
    assert_eq!(found.collect::<Vec<_>>(), [("x", 91), ("y", 93)]);
}

#[tokio::test]
async fn the_only_node_stays_registered() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let unregister = |broker_id| UnregisterBrokerRequest { broker_id, ..Default::default() };
    let answer = client.call(0, &unregister(7)).await;
    assert_eq!((answer.error_code, answer.error_message.is_some()), (102, true));
    assert_eq!(client.call(0, &unregister(1)).await.error_code, INVALID_REQUEST);
    let fenced = DescribeClusterRequest {
        include_fenced_brokers: true,
        include_cluster_authorized_operations: true,
        ..Default::default()
    };
    let answer = client.call(2, &fenced).await;
    assert_eq!((answer.error_code, answer.endpoint_type, answer.controller_id), (0, 1, 1));
    assert_eq!(answer.brokers.iter().map(|b| (b.broker_id, b.is_fenced)).collect::<Vec<_>>(), [(1, false)]);
    assert_eq!(answer.cluster_authorized_operations, 8096);
}
