//! Every kind of change by an administrator is an event of the audit log: who, from where, what, and how it
//! ended. The table of rights in docs/security.md says which APIs there are, and each is here once.
//! `nats::audit_changes` has the changes by NATS.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;
use tailrace_identity::scram::ScramMechanism::Sha256;
use tailrace_kafka_wire::messages::*;
use tempfile::TempDir;

use super::audit::events;
use super::pages::AUTHORIZER;
use crate::common::logins::{add_user, plain};
use crate::common::rig::numbered;
use crate::common::{Client, TestServer, topic};

/// The table of rights, as the crate `kafka` has it: a test there compares them.
const DOCUMENT: &str = include_str!("../../../../docs/security.md");

/// Operations that alter what they are for.
const ALTERING: [&str; 5] = ["CREATE", "DELETE", "ALTER", "ALTER_CONFIGS", "CREATE_TOKENS"];

/// The APIs without events: they read, or are what clients do all day, or are logins, which have events of
/// their own.
const WITHOUT: [&str; 40] = [
    "Produce",
    "Fetch",
    "ListOffsets",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
    "DescribeAcls",
    "DescribeConfigs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "DescribeDelegationToken",
    "ListPartitionReassignments",
    "DescribeClientQuotas",
    "DescribeUserScramCredentials",
    "DescribeQuorum",
    "DescribeCluster",
    "DescribeProducers",
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ListConfigResources",
    "DescribeTopicPartitions",
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "DescribeShareGroupOffsets",
];

/// What one API does, and the event that tells of it.
struct Scene {
    api: &'static str,
    change: &'static str,
    outcome: &'static str,
    /// Each is a detail, or a part of one.
    details: &'static [&'static str],
}

const fn scene(
    api: &'static str,
    change: &'static str,
    outcome: &'static str,
    details: &'static [&'static str],
) -> Scene {
    Scene { api, change, outcome, details }
}

/// In an order in which each finds what it needs.
const SCENES: [Scene; 30] = [
    scene("CreateTopics", "CreateTopic t", "done", &["partitions 2", "set retention.ms 3600000"]),
    scene("CreateTopics, again", "CreateTopic t", "refused", &[]),
    scene("Metadata", "CreateTopic auto", "done", &[]),
    scene("CreatePartitions", "CreatePartitions t 3", "done", &["partitions 3"]),
    scene("AlterConfigs", "AlterTopicConfigs t", "done", &["set retention.ms 7200000"]),
    scene("IncrementalAlterConfigs", "AlterTopicConfigs t", "done", &["set max.message.bytes 1000"]),
    scene("IncrementalAlterConfigs of a group", "AlterGroupConfigs g", "done", &["set"]),
    scene("IncrementalAlterConfigs of brokers", "AlterBrokerConfigs", "done", &["set log.retention.ms"]),
    scene("DeleteRecords", "DeleteRecords t-0 before 2", "done", &[]),
    scene("OffsetCommit", "SetOffsets of g", "done", &["t-0 to 1"]),
    scene("OffsetDelete", "DeleteOffsets of g", "done", &["t-0"]),
    scene("LeaveGroup", "RemoveMembers of g", "refused", &["instance i: UNKNOWN_MEMBER_ID"]),
    scene("DeleteGroups", "DeleteGroup g", "done", &[]),
    scene("DeleteGroups of a group that is not there", "DeleteGroup nobody", "refused", &[]),
    scene("AlterShareGroupOffsets", "SetShareOffsets of h", "done", &["t-0 to 1"]),
    scene("DeleteShareGroupOffsets", "DeleteShareOffsets of h", "done", &["t"]),
    scene("WriteTxnMarkers", "AbortTransaction of producer 7, epoch 0", "done", &["t-0"]),
    scene("ElectLeaders", "ElectLeaders preferred", "unchanged", &["t-0: ELECTION_NOT_NEEDED"]),
    scene("AlterPartitionReassignments", "ReassignPartition t-0", "unchanged", &[]),
    scene("UnregisterBroker", "RemoveNode 77", "refused", &[]),
    scene("UpdateFeatures", "UpdateFeatures", "refused", &["metadata.version level 30000"]),
    scene("CreateAcls", "CreateAcls, 1 of them", "done", &["User:bob"]),
    scene("DeleteAcls", "DeleteAcls, 1 of them", "done", &["User:bob"]),
    scene("AlterUserScramCredentials", "AlterScramCredential bob, set SCRAM-SHA-256", "done", &[]),
    scene("AlterClientQuotas", "AlterClientQuota user=bob", "done", &["set producer_byte_rate 1000000"]),
    scene("CreateDelegationToken", "CreateToken * for User:admin", "done", &["renewer User:bob"]),
    scene("RenewDelegationToken", "RenewToken *", "done", &[]),
    scene("ExpireDelegationToken", "ExpireToken *", "done", &[]),
    scene(
        "AlterUserScramCredentials, removed",
        "AlterScramCredential bob, delete SCRAM-SHA-256",
        "done",
        &[],
    ),
    scene("DeleteTopics", "DeleteTopic t", "done", &[]),
];

/// The API of a scene.
fn api_of(scene: &str) -> &str {
    scene.split([' ', ',']).next().unwrap()
}

#[test]
fn every_api_of_the_table_has_a_scene_or_changes_nothing() {
    let (_, table) = DOCUMENT.split_once("<!-- rights").unwrap();
    let (table, _) = table.split_once("<!-- end of rights").unwrap();
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let with: BTreeSet<_> = SCENES.iter().map(|scene| api_of(scene.api)).collect();
    let mut known = BTreeSet::new();
    for row in rows {
        let cells: Vec<_> = row.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
        let (api, needs) = (cells[1], cells[2]);
        known.insert(api);
        assert!(
            with.contains(api) != WITHOUT.contains(&api),
            "{api}: it needs a scene, or a place in WITHOUT"
        );
        let alters = needs.split("; ").any(|need| ALTERING.contains(&need.split(' ').next().unwrap()));
        assert!(with.contains(api) || !alters, "{api} alters something ({needs}), and has no scene");
    }
    assert!(with.iter().all(|api| known.contains(api)), "scenes of no API");
    assert!(known.len() > 60, "the table was not found");
}

const BROKER: i8 = 4;
const GROUP: i8 = 32;
const TOPIC: i8 = 2;
const PARTITION: &[i32] = &[0];
const PASSWORD: &str = "open sesame";

fn names(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

fn setting(kind: i8, name: &str, key: &str, value: &str) -> IncrementalAlterConfigsRequest {
    use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let (key, value) = (key.to_owned(), Some(value.to_owned()));
    let configs = vec![AlterableConfig { name: key, value, ..Default::default() }];
    let (resource_type, resource_name) = (kind, name.to_owned());
    let resource = AlterConfigsResource { resource_type, resource_name, configs, ..Default::default() };
    IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() }
}

async fn play_topics(admin: &mut Client, scene: &str) -> i16 {
    match scene {
        "CreateTopics" | "CreateTopics, again" => {
            let topics = vec![topic("t", 2, &[("retention.ms", "3600000")])];
            let request = CreateTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() };
            admin.call(7, &request).await.topics[0].error_code
        }
        "Metadata" => {
            let topics = vec![metadata_request::MetadataRequestTopic {
                name: Some("auto".to_owned()),
                ..Default::default()
            }];
            let request = MetadataRequest {
                topics: Some(topics),
                allow_auto_topic_creation: true,
                ..Default::default()
            };
            admin.call(12, &request).await;
            0
        }
        "CreatePartitions" => {
            let topics = vec![create_partitions_request::CreatePartitionsTopic {
                name: "t".to_owned(),
                count: 3,
                ..Default::default()
            }];
            let request = CreatePartitionsRequest { topics, timeout_ms: 10_000, ..Default::default() };
            admin.call(3, &request).await.results[0].error_code
        }
        "AlterConfigs" => {
            use alter_configs_request::{AlterConfigsResource, AlterableConfig};
            let value = Some("7200000".to_owned());
            let configs =
                vec![AlterableConfig { name: "retention.ms".to_owned(), value, ..Default::default() }];
            let resource_name = "t".to_owned();
            let resource =
                AlterConfigsResource { resource_type: TOPIC, resource_name, configs, ..Default::default() };
            let request = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
            admin.call(2, &request).await.responses[0].error_code
        }
        "IncrementalAlterConfigs" => {
            let request = setting(TOPIC, "t", "max.message.bytes", "1000");
            admin.call(1, &request).await.responses[0].error_code
        }
        "IncrementalAlterConfigs of a group" => {
            let request = setting(GROUP, "g", "consumer.session.timeout.ms", "50000");
            admin.call(1, &request).await.responses[0].error_code
        }
        "IncrementalAlterConfigs of brokers" => {
            let request = setting(BROKER, "", "log.retention.ms", "1234567");
            admin.call(1, &request).await.responses[0].error_code
        }
        "DeleteRecords" => {
            assert_eq!(admin.produce_to("t", 0, -1, numbered(0, 3, 10)).await.error_code, 0);
            let partitions =
                vec![delete_records_request::DeleteRecordsPartition { offset: 2, ..Default::default() }];
            let name = "t".to_owned();
            let topics =
                vec![delete_records_request::DeleteRecordsTopic { name, partitions, ..Default::default() }];
            let request = DeleteRecordsRequest { topics, timeout_ms: 10_000, ..Default::default() };
            admin.call(2, &request).await.topics[0].partitions[0].error_code
        }
        "DeleteTopics" => {
            let request =
                DeleteTopicsRequest { topic_names: names("t"), timeout_ms: 10_000, ..Default::default() };
            admin.call(5, &request).await.responses[0].error_code
        }
        scene => panic!("nobody plays {scene}"),
    }
}

async fn play_groups(admin: &mut Client, scene: &str) -> i16 {
    match scene {
        "OffsetCommit" => {
            use offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
            let partition = |partition_index| OffsetCommitRequestPartition {
                partition_index,
                committed_offset: 1,
                ..Default::default()
            };
            // One of them is deleted, and the group stays.
            let partitions = vec![partition(0), partition(1)];
            let request = OffsetCommitRequest {
                group_id: "g".to_owned(),
                generation_id_or_member_epoch: -1,
                topics: vec![OffsetCommitRequestTopic {
                    name: "t".to_owned(),
                    partitions,
                    ..Default::default()
                }],
                ..Default::default()
            };
            // What a consumer without a group does all day: the connection's first one is an event.
            for _ in 0..50 {
                assert_eq!(admin.call(9, &request).await.topics[0].partitions[0].error_code, 0);
            }
            0
        }
        "OffsetDelete" => {
            let topics = vec![offset_delete_request::OffsetDeleteRequestTopic {
                name: "t".to_owned(),
                partitions: vec![Default::default()],
            }];
            let answer = admin.call(0, &OffsetDeleteRequest { group_id: "g".to_owned(), topics }).await;
            answer.error_code
        }
        "LeaveGroup" => {
            let members = vec![leave_group_request::MemberIdentity {
                group_instance_id: Some("i".to_owned()),
                ..Default::default()
            }];
            let request = LeaveGroupRequest { group_id: "g".to_owned(), members, ..Default::default() };
            admin.call(5, &request).await.error_code
        }
        "DeleteGroups" | "DeleteGroups of a group that is not there" => {
            let groups_names = names(if scene == "DeleteGroups" { "g" } else { "nobody" });
            let request = DeleteGroupsRequest { groups_names, ..Default::default() };
            admin.call(2, &request).await.results[0].error_code
        }
        "AlterShareGroupOffsets" => {
            use alter_share_group_offsets_request as share;
            let partitions =
                vec![share::AlterShareGroupOffsetsRequestPartition { start_offset: 1, ..Default::default() }];
            let topic = share::AlterShareGroupOffsetsRequestTopic {
                topic_name: "t".to_owned(),
                partitions,
                ..Default::default()
            };
            let request = AlterShareGroupOffsetsRequest {
                group_id: "h".to_owned(),
                topics: vec![topic],
                ..Default::default()
            };
            let answer = admin.call(0, &request).await;
            answer.responses[0].partitions[0].error_code
        }
        "DeleteShareGroupOffsets" => {
            let topic_name = "t".to_owned();
            let topics = vec![delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic {
                topic_name,
                ..Default::default()
            }];
            let request =
                DeleteShareGroupOffsetsRequest { group_id: "h".to_owned(), topics, ..Default::default() };
            admin.call(0, &request).await.responses[0].error_code
        }
        "WriteTxnMarkers" => {
            let topics = vec![write_txn_markers_request::WritableTxnMarkerTopic {
                name: "t".to_owned(),
                partition_indexes: PARTITION.to_vec(),
                ..Default::default()
            }];
            let marker =
                write_txn_markers_request::WritableTxnMarker { producer_id: 7, topics, ..Default::default() };
            let request = WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() };
            admin.call(1, &request).await.markers[0].topics[0].partitions[0].error_code
        }
        _ => play_topics(admin, scene).await,
    }
}

async fn play_cluster(admin: &mut Client, scene: &str) -> i16 {
    match scene {
        "ElectLeaders" => {
            let wanted = elect_leaders_request::TopicPartitions {
                topic: "t".to_owned(),
                partitions: PARTITION.to_vec(),
                ..Default::default()
            };
            let request = ElectLeadersRequest { topic_partitions: Some(vec![wanted]), ..Default::default() };
            admin.call(2, &request).await.error_code
        }
        "AlterPartitionReassignments" => {
            use alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
            let partitions = vec![ReassignablePartition { replicas: Some(vec![1]), ..Default::default() }];
            let topics = vec![ReassignableTopic { name: "t".to_owned(), partitions, ..Default::default() }];
            let request =
                AlterPartitionReassignmentsRequest { topics, timeout_ms: 10_000, ..Default::default() };
            admin.call(0, &request).await.responses[0].partitions[0].error_code
        }
        "UnregisterBroker" => {
            admin.call(0, &UnregisterBrokerRequest { broker_id: 77, ..Default::default() }).await.error_code
        }
        "UpdateFeatures" => {
            let update = update_features_request::FeatureUpdateKey {
                feature: "metadata.version".to_owned(),
                max_version_level: 30_000,
                upgrade_type: 1,
                ..Default::default()
            };
            let feature_updates = vec![update];
            admin
                .call(1, &UpdateFeaturesRequest { feature_updates, timeout_ms: 10_000, ..Default::default() })
                .await
                .error_code
        }
        _ => play_groups(admin, scene).await,
    }
}

async fn play_access(admin: &mut Client, scene: &str, hmac: &mut Bytes) -> i16 {
    match scene {
        "CreateAcls" => {
            let creation = create_acls_request::AclCreation {
                resource_type: TOPIC,
                resource_name: "t".to_owned(),
                resource_pattern_type: 3,
                principal: "User:bob".to_owned(),
                host: "*".to_owned(),
                operation: 3,
                permission_type: 3,
                ..Default::default()
            };
            let request = CreateAclsRequest { creations: vec![creation], ..Default::default() };
            admin.call(3, &request).await.results[0].error_code
        }
        "DeleteAcls" => {
            let filter = delete_acls_request::DeleteAclsFilter {
                resource_type_filter: 1,
                pattern_type_filter: 1,
                resource_name_filter: None,
                principal_filter: Some("User:bob".to_owned()),
                host_filter: None,
                operation: 1,
                permission_type: 1,
                ..Default::default()
            };
            let request = DeleteAclsRequest { filters: vec![filter], ..Default::default() };
            admin.call(3, &request).await.filter_results[0].error_code
        }
        "AlterUserScramCredentials" => {
            add_user(admin, "bob", Sha256, PASSWORD).await;
            0
        }
        "AlterUserScramCredentials, removed" => {
            let deletion = alter_user_scram_credentials_request::ScramCredentialDeletion {
                name: "bob".to_owned(),
                mechanism: 1,
                ..Default::default()
            };
            let request =
                AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() };
            admin.call(0, &request).await.results[0].error_code
        }
        "AlterClientQuotas" => {
            use alter_client_quotas_request::{EntityData, EntryData, OpData};
            let (entity_type, entity_name) = ("user".to_owned(), Some("bob".to_owned()));
            let entity = vec![EntityData { entity_type, entity_name, ..Default::default() }];
            let ops = vec![OpData { key: "producer_byte_rate".to_owned(), value: 1e6, ..Default::default() }];
            let entries = vec![EntryData { entity, ops, ..Default::default() }];
            admin.call(1, &AlterClientQuotasRequest { entries, ..Default::default() }).await.entries[0]
                .error_code
        }
        "CreateDelegationToken" => {
            let renewer = create_delegation_token_request::CreatableRenewers {
                principal_type: "User".to_owned(),
                principal_name: "bob".to_owned(),
                ..Default::default()
            };
            let request = CreateDelegationTokenRequest {
                owner_principal_type: None,
                owner_principal_name: None,
                renewers: vec![renewer],
                max_lifetime_ms: -1,
                ..Default::default()
            };
            let made = admin.call(3, &request).await;
            *hmac = made.hmac;
            made.error_code
        }
        "RenewDelegationToken" => {
            let (hmac, renew_period_ms) = (hmac.clone(), 60_000);
            let request = RenewDelegationTokenRequest { hmac, renew_period_ms, ..Default::default() };
            admin.call(2, &request).await.error_code
        }
        "ExpireDelegationToken" => {
            let (hmac, expiry_time_period_ms) = (hmac.clone(), -1);
            let request = ExpireDelegationTokenRequest { hmac, expiry_time_period_ms, ..Default::default() };
            admin.call(2, &request).await.error_code
        }
        _ => play_cluster(admin, scene).await,
    }
}

/// Reports whether a text is as expected. An asterisk stands for a word.
fn is_as(expected: &str, found: &str) -> bool {
    let (expected, found): (Vec<_>, Vec<_>) = (expected.split(' ').collect(), found.split(' ').collect());
    expected.len() == found.len()
        && expected.iter().zip(found).all(|(expected, found)| *expected == "*" || *expected == found)
}

async fn server(folder: &TempDir, more: &[(&str, &str)]) -> TestServer {
    let path = folder.path().join("audit.log");
    let settings = [
        ("tailrace.kafka.authentication", "required"),
        ("authorizer.class.name", AUTHORIZER),
        ("super.users", "User:admin"),
        ("tailrace.first.user", "admin"),
        ("tailrace.first.password", PASSWORD),
        ("delegation.token.secret.key", "a secret of all nodes"),
        ("tailrace.audit.log.file", path.to_str().unwrap()),
    ];
    TestServer::with(&[&settings[..], more].concat()).await
}

async fn admin(server: &TestServer) -> Client {
    let mut admin = server.connect().await;
    assert_eq!(plain(&mut admin, "admin", PASSWORD).await.error_code, 0);
    admin
}

fn changes_of<'a>(events: &'a [Value], principal: &str) -> Vec<&'a Value> {
    let is_change = |event: &&Value| event["event"] == "change" && event["principal"] == principal;
    events.iter().filter(is_change).collect()
}

#[tokio::test]
async fn every_change_is_an_event_with_who_from_where_what_and_how_it_ended() {
    let folder = TempDir::new().unwrap();
    let mut server = server(&folder, &[]).await;
    let (mut admin, mut hmac) = (admin(&server).await, Bytes::new());
    for scene in &SCENES {
        let code = play_access(&mut admin, scene.api, &mut hmac).await;
        let is_known = match scene.outcome {
            "refused" => scene.api == "LeaveGroup" || code != 0,
            _ => code == 0,
        };
        assert!(is_known, "{}: {code}", scene.api);
    }
    server.stop().await;
    let events = events(&folder.path().join("audit.log"));
    let mut left = changes_of(&events, "User:admin");
    for scene in &SCENES {
        let is_it = |event: &&Value| {
            let details = event["details"].as_array().map_or(&[][..], Vec::as_slice);
            let has = |wanted: &&str| details.iter().any(|found| found.as_str().unwrap().contains(wanted));
            is_as(scene.change, event["change"].as_str().unwrap())
                && event["outcome"] == scene.outcome
                && scene.details.iter().all(has)
        };
        let place = left.iter().position(is_it);
        let place = place.unwrap_or_else(|| panic!("{}: no {} in {left:#?}", scene.api, scene.change));
        let event = left.remove(place);
        assert_eq!((&event["door"], &event["address"]), (&"kafka".into(), &"127.0.0.1".into()));
        assert!(event["time_ms"].as_u64().unwrap() > 0);
    }
    // Each once.
    assert_eq!(left, [&Value::Null; 0]);
    let text = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    assert!(!text.contains("sesame") && !text.contains("1234567") && !text.contains("a secret"), "{text}");
}

/// Who leaves before the answer has changed something all the same.
#[tokio::test]
async fn a_change_by_a_client_that_does_not_wait_for_the_answer_is_an_event_too() {
    let folder = TempDir::new().unwrap();
    let mut server = server(&folder, &[]).await;
    let mut first = admin(&server).await;
    first.create_topic("t", 1, &[]).await;
    assert_eq!(play_groups(&mut first, "OffsetCommit").await, 0);
    first.abandon(2, &DeleteGroupsRequest { groups_names: names("g"), ..Default::default() }).await;
    let mut second = admin(&server).await;
    let group_is_gone = async |client: &mut Client| {
        let request = DescribeGroupsRequest { groups: names("g"), ..Default::default() };
        client.call(5, &request).await.groups[0].group_state == "Dead"
    };
    // The request may be decided after those of the second client.
    while !group_is_gone(&mut second).await {
        tokio::task::yield_now().await;
    }
    server.stop().await;
    let events = events(&folder.path().join("audit.log"));
    let found = changes_of(&events, "User:admin");
    let found: Vec<_> = found.iter().filter(|event| event["change"] == "DeleteGroup g").collect();
    assert_eq!(found.len(), 1, "{events:#?}");
    assert!(found[0]["outcome"] == "done" || found[0]["outcome"] == "unknown", "{}", found[0]);
}

/// Ordinary clients cannot fill the disk with what they may do all day.
#[tokio::test]
async fn changes_that_ordinary_clients_make_are_bounded_and_counted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.log");
    let mut server = TestServer::with(&[("tailrace.audit.log.file", path.to_str().unwrap())]).await;
    let mut client = server.connect().await;
    for number in 0..200 {
        let members = vec![leave_group_request::MemberIdentity {
            group_instance_id: Some(number.to_string()),
            ..Default::default()
        }];
        let request = LeaveGroupRequest { group_id: "g".to_owned(), members, ..Default::default() };
        client.call(5, &request).await;
    }
    // Those of administrators are not.
    for number in 0..100 {
        let request = DeleteGroupsRequest { groups_names: names(&number.to_string()), ..Default::default() };
        client.call(2, &request).await;
    }
    let left_out = server.metric("tailrace_audit_events_total{result=\"left_out\"}").await;
    server.stop().await;
    let events = events(&path);
    let count = |what: &str| {
        let changes = changes_of(&events, "User:ANONYMOUS");
        changes.iter().filter(|event| event["change"].as_str().unwrap().starts_with(what)).count()
    };
    // One more window, if the machine is slow.
    assert!((20..=40).contains(&count("RemoveMembers")), "{}", count("RemoveMembers"));
    assert!(left_out >= 160.0, "{left_out}");
    assert_eq!(count("DeleteGroup "), 100);
}
