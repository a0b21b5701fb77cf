//! The topic of the audit log: what is in it, and who gets at it by which door.

use serde_json::Value;
use tailrace_identity::scram::ScramMechanism::Sha256;
use tailrace_kafka_wire::messages::alter_configs_request::{
    AlterConfigsRequest, AlterConfigsResource, AlterableConfig,
};
use tailrace_kafka_wire::messages::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use tailrace_kafka_wire::messages::create_acls_request::{AclCreation, CreateAclsRequest};
use tailrace_kafka_wire::messages::create_partitions_request::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use tailrace_kafka_wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use tailrace_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use tailrace_kafka_wire::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};
use tailrace_kafka_wire::messages::{CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest};
use tailrace_server::{Startup, start};
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::pages::AUTHORIZER;
use crate::common::lines::Lines;
use crate::common::logins::{add_user, plain};
use crate::common::rig::{eventually, fetch_request, numbered, only_partition};
use crate::common::{Client, PATIENCE, TestServer, local_disk, topic};

const AUDIT: &str = "__tailrace_audit_log";
const PASSWORD: &str = "open sesame";
const TOPIC_REFUSED: i16 = 29;
const CLUSTER_REFUSED: i16 = 31;
const INVALID_CONFIG: i16 = 40;

const SETTINGS: [(&str, &str); 8] = [
    ("tailrace.kafka.authentication", "required"),
    ("tailrace.nats.authentication", "required"),
    ("authorizer.class.name", AUTHORIZER),
    ("super.users", "User:admin"),
    ("tailrace.first.user", "admin"),
    ("tailrace.first.password", PASSWORD),
    ("tailrace.audit.log.topic", "true"),
    ("offsets.topic.num.partitions", "1"),
];

async fn log_in(server: &TestServer, user: &str) -> Client {
    let mut client = server.connect().await;
    assert_eq!(plain(&mut client, user, PASSWORD).await.error_code, 0);
    client
}

/// The events, once there is one with these members. `node` is the one that the client is connected to.
async fn events_with(client: &mut Client, members: &[(&str, &str)]) -> Vec<Value> {
    let began = std::time::Instant::now();
    loop {
        let events = events(client).await;
        let has = |event: &Value| members.iter().all(|(name, value)| event[*name] == *value);
        if events.iter().any(has) {
            return events;
        }
        assert!(began.elapsed() < PATIENCE, "no event with {members:?} in {events:#?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The events that are there now. None if the topic is not there yet.
async fn events(client: &mut Client) -> Vec<Value> {
    let mut request = fetch_request(AUDIT, 0, 0);
    request.max_wait_ms = 0;
    if only_partition(client.call(12, &request).await).error_code != 0 {
        return Vec::new();
    }
    let all = client.read_all(AUDIT, 0, 0).await;
    all.iter().map(|(_, value)| serde_json::from_slice(value).unwrap()).collect()
}

fn rule(principal: &str, kind: i8, name: &str, operation: i8) -> AclCreation {
    AclCreation {
        resource_type: kind,
        resource_name: name.to_owned(),
        resource_pattern_type: 3,
        principal: principal.to_owned(),
        host: "*".to_owned(),
        operation,
        permission_type: 3,
        ..Default::default()
    }
}

async fn allow(admin: &mut Client, creations: Vec<AclCreation>) {
    let answer = admin.call(3, &CreateAclsRequest { creations, ..Default::default() }).await;
    assert!(answer.results.iter().all(|result| result.error_code == 0), "{answer:?}");
}

/// Whether the topic exists for a client, as the error of Metadata.
async fn seen(client: &mut Client) -> (i16, bool) {
    let topics = vec![MetadataRequestTopic { name: Some(AUDIT.to_owned()), ..Default::default() }];
    let request = MetadataRequest { topics: Some(topics), ..Default::default() };
    let by_name = client.call(9, &request).await.topics[0].error_code;
    let all = client.call(9, &MetadataRequest { topics: None, ..Default::default() }).await.topics;
    (by_name, all.iter().any(|topic| topic.name.as_deref() == Some(AUDIT)))
}

async fn read(client: &mut Client) -> i16 {
    let mut request = fetch_request(AUDIT, 0, 0);
    request.max_wait_ms = 0;
    only_partition(client.call(12, &request).await).error_code
}

/// Tries everything that would change the topic, and returns the errors.
async fn changes(client: &mut Client) -> Vec<(&'static str, i16)> {
    let mut errors = Vec::new();
    errors.push(("produce", client.produce_to(AUDIT, 0, -1, numbered(0, 1, 10)).await.error_code));
    let request = DeleteTopicsRequest { topic_names: vec![AUDIT.to_owned()], ..Default::default() };
    errors.push(("delete", client.call(5, &request).await.responses[0].error_code));
    let request = CreateTopicsRequest { topics: vec![topic(AUDIT, 1, &[])], ..Default::default() };
    errors.push(("create", client.call(7, &request).await.topics[0].error_code));
    let partitions = vec![DeleteRecordsPartition { offset: -1, ..Default::default() }];
    let topics = vec![DeleteRecordsTopic { name: AUDIT.to_owned(), partitions, ..Default::default() }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 10_000, ..Default::default() };
    errors.push(("delete records", client.call(2, &request).await.topics[0].partitions[0].error_code));
    let topics = vec![CreatePartitionsTopic { name: AUDIT.to_owned(), count: 2, ..Default::default() }];
    let request = CreatePartitionsRequest { topics, timeout_ms: 10_000, ..Default::default() };
    errors.push(("more partitions", client.call(3, &request).await.results[0].error_code));
    let topics = vec![WritableTxnMarkerTopic {
        name: AUDIT.to_owned(),
        partition_indexes: vec![0],
        ..Default::default()
    }];
    let marker = WritableTxnMarker { producer_id: 1, topics, ..Default::default() };
    let request = WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() };
    let answer = client.call(1, &request).await;
    errors.push(("marker", answer.markers[0].topics[0].partitions[0].error_code));
    errors
}

async fn alter(client: &mut Client, key: &str, value: &str) -> i16 {
    let config =
        AlterableConfig { name: key.to_owned(), value: Some(value.to_owned()), ..Default::default() };
    let mut configs = vec![config];
    // AlterConfigs replaces all settings: those of the topic stay.
    for (known, value) in [
        ("cleanup.policy", "delete"),
        ("max.message.bytes", "1048576"),
        ("retention.bytes", "1073741824"),
        ("retention.ms", "2592000000"),
        ("segment.bytes", "104857600"),
    ] {
        if known != key {
            let (name, value) = (known.to_owned(), Some(value.to_owned()));
            configs.push(AlterableConfig { name, value, ..Default::default() });
        }
    }
    let resource = AlterConfigsResource {
        resource_type: 2,
        resource_name: AUDIT.to_owned(),
        configs,
        ..Default::default()
    };
    let request = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
    client.call(1, &request).await.responses[0].error_code
}

async fn reassign(client: &mut Client) -> i16 {
    let partition = ReassignablePartition { replicas: Some(vec![1]), ..Default::default() };
    let partitions = vec![partition];
    let topics = vec![ReassignableTopic { name: AUDIT.to_owned(), partitions, ..Default::default() }];
    let request = AlterPartitionReassignmentsRequest { timeout_ms: 10_000, topics, ..Default::default() };
    client.call(0, &request).await.error_code
}

#[tokio::test]
async fn every_kind_of_event_is_in_the_topic_and_survives_a_restart() {
    let mut server = TestServer::with(&SETTINGS).await;
    let mut admin = log_in(&server, "admin").await;
    add_user(&mut admin, "alice", Sha256, PASSWORD).await;
    let mut alice = log_in(&server, "alice").await;
    // More than the bounds let through, so that some are left out.
    for _ in 0..30 {
        let request = CreateTopicsRequest { topics: vec![topic("mine", 1, &[])], ..Default::default() };
        assert_ne!(alice.call(7, &request).await.topics[0].error_code, 0);
    }
    let mut stranger = server.connect().await;
    assert_ne!(plain(&mut stranger, "alice", "wrong").await.error_code, 0);
    admin.create_topic("orders", 1, &[]).await;
    let events = events_with(&mut admin, &[("event", "left_out"), ("outcome", "refusal")]).await;
    let count = |members: &[(&str, &str)]| {
        let has = |event: &&Value| members.iter().all(|(name, value)| event[*name] == *value);
        events.iter().filter(has).count()
    };
    assert_eq!(count(&[("event", "login"), ("outcome", "succeeded"), ("principal", "User:alice")]), 1);
    assert_eq!(count(&[("event", "login"), ("outcome", "failed"), ("principal", "User:ANONYMOUS")]), 1);
    assert!(count(&[("event", "refusal"), ("principal", "User:alice"), ("name", "mine")]) >= 20);
    let change = [("event", "change"), ("outcome", "done"), ("principal", "User:admin")];
    assert_eq!(count(&[&change[..], &[("change", "CreateTopic orders")]].concat()), 1);
    assert!(events.iter().all(|event| !event.to_string().contains("sesame")));
    let before = events.len();
    server.restart().await;
    let mut admin = log_in(&server, "admin").await;
    let login = [("event", "login"), ("principal", "User:admin")];
    events_with(&mut admin, &login).await;
    let after = self::events(&mut admin).await;
    assert_eq!(after[..before], events[..], "what was stored is there in the same order");
    assert_eq!(server.metric("tailrace_audit_topic_events_total{result=\"lost\"}").await, 0.0);
}

#[tokio::test]
async fn only_administrators_see_and_read_the_topic_whatever_the_rules_for_topics_say() {
    let server = TestServer::with(&SETTINGS).await;
    let mut admin = log_in(&server, "admin").await;
    for user in ["alice", "bob"] {
        add_user(&mut admin, user, Sha256, PASSWORD).await;
    }
    // All operations on all topics and all subjects; and ALTER of the cluster alone.
    let rules = vec![
        rule("User:alice", 2, "*", 2),
        rule("User:alice", 2, AUDIT, 3),
        rule("User:alice", 3, "*", 2),
        rule("User:bob", 4, "kafka-cluster", 7),
    ];
    allow(&mut admin, rules).await;
    events_with(&mut admin, &[("event", "change")]).await;
    let (mut alice, mut bob) = (log_in(&server, "alice").await, log_in(&server, "bob").await);
    assert_eq!(seen(&mut alice).await, (TOPIC_REFUSED, false));
    assert_eq!(read(&mut alice).await, TOPIC_REFUSED);
    assert_eq!(alter(&mut alice, "retention.ms", "1").await, TOPIC_REFUSED);
    assert_eq!(reassign(&mut alice).await, CLUSTER_REFUSED);
    for (what, code) in changes(&mut alice).await {
        assert!([TOPIC_REFUSED, CLUSTER_REFUSED].contains(&code), "alice could {what}: {code}");
    }
    for administrator in [&mut bob, &mut admin] {
        assert_eq!(seen(administrator).await, (0, true));
        assert_eq!(read(administrator).await, 0);
        for (what, code) in changes(administrator).await {
            assert_eq!(code, TOPIC_REFUSED, "an administrator could {what}");
        }
        assert_eq!(alter(administrator, "retention.ms", "86400000").await, 0);
        assert_eq!(alter(administrator, "cleanup.policy", "compact").await, INVALID_CONFIG);
        assert_eq!(alter(administrator, "tailrace.subjects", "a.>").await, INVALID_CONFIG);
    }
    assert_eq!(server.node().image().topic(AUDIT).unwrap().config.retention_ms, Some(86_400_000));
}

#[tokio::test]
async fn rules_that_are_only_tried_do_not_open_the_topic() {
    let settings = [&SETTINGS[..], &[("tailrace.authorizer.report.only", "true")]].concat();
    let server = TestServer::with(&settings).await;
    let mut admin = log_in(&server, "admin").await;
    add_user(&mut admin, "alice", Sha256, PASSWORD).await;
    admin.create_topic("orders", 1, &[]).await;
    events_with(&mut admin, &[("event", "login")]).await;
    let mut alice = log_in(&server, "alice").await;
    let mut request = fetch_request("orders", 0, 0);
    request.max_wait_ms = 0;
    assert_eq!(only_partition(alice.call(12, &request).await).error_code, 0, "others are open");
    assert_eq!((seen(&mut alice).await, read(&mut alice).await), ((TOPIC_REFUSED, false), TOPIC_REFUSED));
    for (what, code) in changes(&mut alice).await {
        assert_eq!(code, TOPIC_REFUSED, "alice could {what}");
    }
}

/// A NATS client hears no event, however it subscribes, and what it publishes gets nowhere near the topic:
/// neither under the topic's name, nor through a topic that has bound that name.
#[tokio::test]
async fn the_topic_is_not_there_for_nats() {
    let server = TestServer::with(&SETTINGS).await;
    let mut admin = log_in(&server, "admin").await;
    events_with(&mut admin, &[("event", "login")]).await;
    admin.create_topic("trap", 1, &[("tailrace.subjects", &format!("{AUDIT}.>,{AUDIT}"))]).await;
    let mut nats = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    nats.info().await;
    nats.send(&format!("CONNECT {{\"verbose\":false,\"user\":\"admin\",\"pass\":\"{PASSWORD}\"}}\r\n")).await;
    nats.send(&format!("SUB > 1\r\nSUB {AUDIT} 2\r\nSUB {AUDIT}.> 3\r\nSUB *.> 4\r\nSUB * 5\r\n")).await;
    assert!(nats.until_pong().await.is_empty());
    let before = events(&mut admin).await.len();
    admin.create_topic("orders", 1, &[]).await;
    let created = [("event", "change"), ("change", "CreateTopic orders")];
    events_with(&mut admin, &created).await;
    nats.send(&format!("PUB {AUDIT} 6\r\nforged\r\n")).await;
    let heard = nats.until_pong().await;
    assert!(heard.iter().any(|line| line == "forged"), "it is a subject like any other: {heard:?}");
    assert!(!heard.iter().any(|line| line.contains("time_ms")), "{heard:?}");
    eventually("the trap has it", || async {
        let mut client = log_in(&server, "admin").await;
        client.read_all("trap", 0, 0).await.iter().any(|(_, value)| value == b"forged")
    })
    .await;
    let after = events(&mut admin).await;
    assert!(after.len() > before && after.iter().all(|event| event["event"].is_string()));
}

/// A reader that waits for events causes none. Otherwise each would cause the next.
#[tokio::test]
async fn reading_the_topic_causes_no_events() {
    let server = TestServer::with(&SETTINGS).await;
    let mut admin = log_in(&server, "admin").await;
    let all = events_with(&mut admin, &[("event", "login"), ("principal", "User:admin")]).await.len();
    for _ in 0..50 {
        assert_eq!(read(&mut admin).await, 0);
        assert_eq!(seen(&mut admin).await, (0, true));
    }
    // A change, which is behind whatever those have caused.
    admin.create_topic("last", 1, &[]).await;
    let after = events_with(&mut admin, &[("change", "CreateTopic last")]).await;
    assert_eq!(after.len(), all + 1, "{:#?}", &after[all..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_each_node_of_a_cluster_are_in_the_topic() {
    let mut nodes: Vec<TestServer> = Vec::new();
    for number in ["1", "2", "3"] {
        let mut settings = vec![("node.id", number), ("cluster.listen", "127.0.0.1:0")];
        let seed = nodes.first().map(|node| node.cluster().to_string());
        settings.extend(seed.as_deref().map(|seed| ("tailrace.cluster.seeds", seed)));
        nodes.push(TestServer::with(&[&SETTINGS[..], &settings].concat()).await);
    }
    eventually("all nodes know the first user and each other", || async {
        nodes.iter().all(|node| {
            let image = node.node().image();
            image.access().users().len() == 1 && image.live_nodes().len() == 3
        })
    })
    .await;
    for (number, node) in nodes.iter().enumerate() {
        let mut admin = log_in(node, "admin").await;
        admin.create_topic(&format!("t{number}"), 1, &[]).await;
    }
    eventually("each node's events are in it", || async {
        let mut found = Vec::new();
        for node in &nodes {
            // Only the leader has them.
            let mut admin = log_in(node, "admin").await;
            found.extend(events(&mut admin).await);
        }
        (0..3).all(|number| found.iter().any(|event| event["change"] == format!("CreateTopic t{number}")))
    })
    .await;
    let image = nodes[0].node().image();
    let topic = image.topic(AUDIT).unwrap();
    assert_eq!((topic.partitions, topic.replication_factor, topic.is_internal()), (1, 3, true));
    for node in &mut nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn without_rules_there_is_no_topic() {
    tailrace_runtime::install();
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().join("data").display().to_string();
    let settings = [("data.dir", data_dir.as_str()), ("tailrace.audit.log.topic", "true")];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
    let Err(error) = start(Startup { settings, disk: local_disk() }).await else { panic!("it started") };
    assert!(error.to_string().contains("authorizer.class.name must be set with it"), "{error}");
}

/// The audit log of an earlier time stays closed.
#[tokio::test]
async fn nobody_reads_the_topic_once_rules_are_switched_off() {
    let mut server = TestServer::with(&SETTINGS).await;
    let mut admin = log_in(&server, "admin").await;
    events_with(&mut admin, &[("event", "login")]).await;
    let off = [("tailrace.audit.log.topic", "false"), ("authorizer.class.name", "")];
    server.restart_with(&off).await;
    let mut admin = log_in(&server, "admin").await;
    assert_eq!((seen(&mut admin).await, read(&mut admin).await), ((TOPIC_REFUSED, false), TOPIC_REFUSED));
    for (what, code) in changes(&mut admin).await {
        assert_eq!(code, TOPIC_REFUSED, "a client could {what}");
    }
}
