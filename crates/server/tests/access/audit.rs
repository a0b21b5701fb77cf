//! The file of the audit log, as a server writes it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use tailrace_identity::scram::ScramMechanism::Sha256;
use tailrace_kafka_wire::messages::create_acls_request::{AclCreation, CreateAclsRequest};
use tailrace_kafka_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use tailrace_kafka_wire::messages::{CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest};
use tempfile::TempDir;

use super::pages::AUTHORIZER;
use crate::common::logins::{add_user, plain, scram};
use crate::common::rig::numbered;
use crate::common::{TestServer, topic};

pub(crate) fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn find<'a>(events: &'a [Value], members: &[(&str, &str)]) -> &'a Value {
    let has = |event: &&Value| members.iter().all(|(name, value)| event[*name] == *value);
    events.iter().find(has).unwrap_or_else(|| panic!("no event with {members:?} in {events:#?}"))
}

#[tokio::test]
async fn logins_refusals_and_changes_are_lines_of_the_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.log");
    let mut server = TestServer::with(&[
        ("tailrace.kafka.authentication", "required"),
        ("authorizer.class.name", AUTHORIZER),
        ("super.users", "User:admin"),
        ("tailrace.first.user", "admin"),
        ("tailrace.first.password", "open sesame"),
        ("tailrace.audit.log.file", path.to_str().unwrap()),
    ])
    .await;
    let mut admin = server.connect().await;
    assert_eq!(plain(&mut admin, "admin", "open sesame").await.error_code, 0);
    add_user(&mut admin, "alice", Sha256, "p").await;
    admin.create_topic("orders", 1, &[("retention.ms", "1000")]).await;
    let creation = AclCreation {
        resource_type: 2,
        resource_name: "orders".to_owned(),
        resource_pattern_type: 3,
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation: 8,
        permission_type: 3,
        ..Default::default()
    };
    let acls = admin.call(3, &CreateAclsRequest { creations: vec![creation], ..Default::default() }).await;
    assert_eq!(acls.results[0].error_code, 0);

    assert_eq!(admin.produce_to("orders", 0, -1, numbered(0, 3, 10)).await.error_code, 0);
    let partitions = vec![DeleteRecordsPartition { offset: 3, ..Default::default() }];
    let topics = vec![DeleteRecordsTopic { name: "orders".to_owned(), partitions, ..Default::default() }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 10_000, ..Default::default() };
    assert_eq!(admin.call(2, &request).await.topics[0].partitions[0].error_code, 0);

    let mut alice = server.connect().await;
    assert_eq!(scram(&mut alice, Sha256, "alice", "p").await.error_code, 0);
    let request = CreateTopicsRequest { topics: vec![topic("mine", 1, &[])], ..Default::default() };
    assert_ne!(alice.call(7, &request).await.topics[0].error_code, 0);
    let request = DeleteTopicsRequest { topic_names: vec!["orders".to_owned()], ..Default::default() };
    assert_ne!(alice.call(5, &request).await.responses[0].error_code, 0);
    let mut stranger = server.connect().await;
    assert_ne!(plain(&mut stranger, "alice", "wrong").await.error_code, 0);
    server.stop().await;

    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let events = events(&path);
    let login = find(&events, &[("event", "login"), ("outcome", "succeeded"), ("principal", "User:admin")]);
    assert_eq!((&login["mechanism"], &login["door"]), (&"PLAIN".into(), &"kafka".into()));
    assert_eq!(login["address"], "127.0.0.1");
    find(&events, &[("event", "login"), ("principal", "User:alice"), ("mechanism", "SCRAM-SHA-256")]);
    let failed = find(&events, &[("event", "login"), ("outcome", "failed")]);
    assert!(failed["reason"].as_str().unwrap().contains("alice"), "{failed}");
    let members = [("event", "refusal"), ("principal", "User:alice"), ("name", "orders")];
    assert_eq!(find(&events, &members)["operation"], "delete");
    let changes = [("event", "change"), ("outcome", "done"), ("principal", "User:admin")];
    let change = |name: &str| find(&events, &[&changes[..], &[("change", name)]].concat());
    change("CreateTopic orders");
    change("DeleteRecords orders-0 before 3");
    change("AlterScramCredential alice, set SCRAM-SHA-256");
    let rule = change("CreateAcls, 1 of them")["details"][0].as_str().unwrap();
    assert!(rule.contains("User:alice") && rule.contains("orders"), "{rule}");
    find(&events, &[("event", "change"), ("principal", "Node:this")]);
    assert!(events.iter().all(|event| !event.to_string().contains("sesame")));
}
