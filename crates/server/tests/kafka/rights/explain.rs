//! Explained decisions: what the server says about a request is what it does with it.

use bytes::Bytes;
use tailrace_identity::acl::{Operation, PatternKind, Permission, ResourceKind};
use tailrace_kafka_wire::messages::{DescribeAclsRequest, DescribeAclsResponse};
use tailrace_kafka_wire::own_fields::{EVERY_KIND, EXPLAIN, Reason, Verdict};
use tailrace_kafka_wire::{ErrorCode, TaggedFields};
use tailrace_metadata::Command;

use super::{Rig, acl, of_cluster};
use crate::common::{Client, OK, error};

fn question(user: &str, operation: Operation, kind: ResourceKind, name: &str) -> DescribeAclsRequest {
    DescribeAclsRequest {
        resource_type_filter: kind.code(),
        resource_name_filter: Some(name.to_owned()),
        pattern_type_filter: PatternKind::Literal.code(),
        principal_filter: Some(format!("User:{user}")),
        host_filter: None,
        operation: operation.code(),
        permission_type: 1,
        unknown_tagged_fields: TaggedFields::of(EXPLAIN, Bytes::new()),
    }
}

/// The verdict, and the rule that decided, as the kind and name of its resource.
async fn explained(client: &mut Client, request: &DescribeAclsRequest) -> (Verdict, Option<(i8, String)>) {
    let answer: DescribeAclsResponse = client.call(3, request).await;
    assert_eq!(error(answer.error_code), OK, "{:?}", answer.error_message);
    let verdict = answer.unknown_tagged_fields.get(EXPLAIN).and_then(|data| Verdict::decode(data));
    let verdict = verdict.expect("an explanation");
    let rule = answer.resources.into_iter().next();
    (verdict, rule.map(|rule| (rule.resource_type, rule.resource_name)))
}

#[tokio::test]
async fn each_reason_is_told_with_its_rule() {
    use Operation::{Describe, Read, Write};
    use ResourceKind::{Subject, Topic};
    let mut rig = Rig::new().await;
    let deny = |right| acl("alice", right, Permission::Deny);
    let rules = vec![
        acl("alice", (Write, Topic, "orders"), Permission::Allow),
        acl("alice", (Read, Topic, "mail"), Permission::Allow),
        deny((Read, Topic, "orders")),
        deny((Read, Subject, "mail.secret")),
        acl("alice", (Read, Subject, "news.>"), Permission::Allow),
    ];
    rig.execute(Command::CreateAcls(rules)).await;
    let rule = |kind: ResourceKind, name: &str| Some((kind.code(), name.to_owned()));
    for (user, operation, kind, name, is_allowed, reason, expected) in [
        ("admin", Write, Topic, "orders", true, Reason::SuperUser, None),
        ("alice", Write, Topic, "orders", true, Reason::Rule, rule(Topic, "orders")),
        ("alice", Describe, Topic, "orders", true, Reason::Rule, rule(Topic, "orders")),
        ("alice", Read, Topic, "orders", false, Reason::Rule, rule(Topic, "orders")),
        ("alice", Read, Topic, "mail", false, Reason::Rule, rule(Subject, "mail.secret")),
        ("alice", Write, Topic, "mail", false, Reason::DefaultBesideRules, None),
        ("alice", Write, Topic, "other", false, Reason::DefaultWithoutRules, None),
        ("bob", Write, Topic, "orders", false, Reason::DefaultBesideRules, None),
        ("alice", Read, Subject, "news.today", true, Reason::Rule, rule(Subject, "news.>")),
        ("alice", Read, Subject, "mail.secret", false, Reason::Rule, rule(Subject, "mail.secret")),
    ] {
        let request = question(user, operation, kind, name);
        let (verdict, rule) = explained(&mut rig.admin, &request).await;
        let found = (verdict.is_allowed, verdict.reason, rule);
        assert_eq!(found, (is_allowed, reason, expected), "{user} {operation} {kind} {name}");
        assert!(!verdict.is_tried);
    }
    // A subscription is let in, and filtered.
    rig.execute(Command::CreateAcls(vec![deny((Read, Subject, "news.secret"))])).await;
    let (verdict, _) = explained(&mut rig.admin, &question("alice", Read, Subject, "news.>")).await;
    assert!(verdict.is_allowed && verdict.is_partial);
}

#[tokio::test]
async fn only_those_who_may_see_rules_get_an_explanation() {
    let rig = Rig::new().await;
    let mut client = rig.anonymous().await;
    let request = question("alice", Operation::Read, ResourceKind::Topic, "orders");
    let answer = client.call(3, &request).await;
    assert_eq!(error(answer.error_code), ErrorCode::ClusterAuthorizationFailed);
    assert!(answer.unknown_tagged_fields.is_empty() && answer.resources.is_empty());
    rig.allow(&[of_cluster(Operation::Describe)]).await;
    assert_eq!(error(client.call(3, &request).await.error_code), OK);
}

#[tokio::test]
async fn what_is_no_request_is_not_explained() {
    use Operation::{All, Read};
    use ResourceKind::{Subject, Topic};
    let mut rig = Rig::new().await;
    let without = |change: fn(&mut DescribeAclsRequest)| {
        let mut request = question("alice", Read, Topic, "orders");
        change(&mut request);
        request
    };
    for request in [
        question("alice", All, Topic, "orders"),
        question("", Read, Topic, "orders"),
        question("alice", Read, Topic, ""),
        question("alice", Read, Subject, "a..b"),
        without(|request| request.principal_filter = None),
        without(|request| request.principal_filter = Some("Group:alice".to_owned())),
        without(|request| request.resource_name_filter = None),
        without(|request| request.resource_type_filter = 1),
        without(|request| request.operation = 1),
        without(|request| request.host_filter = Some("10.0.0.0/8".to_owned())),
    ] {
        let answer = rig.admin.call(3, &request).await;
        assert_eq!(error(answer.error_code), ErrorCode::InvalidRequest, "{request:?}");
    }
}

#[tokio::test]
async fn rules_for_subjects_are_listed_to_clients_that_ask_for_every_kind() {
    let mut rig = Rig::new().await;
    let right = (Operation::Read, ResourceKind::Subject, "news.>");
    rig.execute(Command::CreateAcls(vec![acl("alice", right, Permission::Allow)])).await;
    let mut all = DescribeAclsRequest {
        resource_type_filter: 1,
        resource_name_filter: None,
        pattern_type_filter: 1,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: 1,
        ..Default::default()
    };
    assert!(rig.admin.call(3, &all).await.resources.is_empty());
    all.unknown_tagged_fields = TaggedFields::of(EVERY_KIND, Bytes::new());
    assert_eq!(rig.admin.call(3, &all).await.resources[0].resource_name, "news.>");
}
