//! Users and rules of the cluster at the NATS door: who logs in, what the rules allow there and by Kafka, and
//! what a change does to open connections.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tailrace_identity::acl::{Operation, Permission, ResourceKind};
use tailrace_identity::scram::ScramMechanism::Sha256;
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use tailrace_kafka_wire::messages::create_acls_request::AclCreation;
use tailrace_kafka_wire::messages::delete_acls_request::DeleteAclsFilter;
use tailrace_kafka_wire::messages::{AlterUserScramCredentialsRequest, CreateAclsRequest, DeleteAclsRequest};
use tailrace_node::{Caller, Door};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::lines::Lines;
use crate::common::logins::{add_user, plain};
use crate::common::rig::eventually;
use crate::common::{Client, PATIENCE, TestServer};
use Operation::{Describe, Read, Write};
use Permission::{Allow, Deny};
use ResourceKind::{Cluster, Subject, Topic};

const RULES: [(&str, &str); 7] = [
    ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ("super.users", "User:admin"),
    ("tailrace.first.user", "admin"),
    ("tailrace.first.password", "open sesame"),
    ("tailrace.kafka.authentication", "requested"),
    ("connection.failed.authentication.delay.ms", "0"),
    // The check of a password is slow on a machine that has much to do.
    ("tailrace.nats.auth.timeout.ms", "60000"),
];

const VIOLATION: &str = "-ERR 'Authorization Violation'";

pub(crate) type Line = Lines<TcpStream>;
pub(crate) type Rule<'a> = (&'a str, Permission, Operation, ResourceKind, &'a str);

/// A server with rules, the user alice, and a client of Kafka that may do everything.
pub(crate) struct World {
    pub(crate) server: TestServer,
    pub(crate) admin: Client,
}

impl World {
    pub(crate) async fn new(settings: &[(&str, &str)]) -> Self {
        let server = TestServer::with(&[&RULES, settings].concat()).await;
        let admin = loop {
            let mut client = server.connect().await;
            // The first user is created after the start.
            if plain(&mut client, "admin", "open sesame").await.error_code == 0 {
                break client;
            }
        };
        let mut world = Self { server, admin };
        add_user(&mut world.admin, "alice", Sha256, "p").await;
        world
    }

    /// The same, with topics of these names and bindings.
    pub(crate) async fn with_topics(topics: &[(&str, &str)]) -> Self {
        let mut world = Self::new(&[]).await;
        for (name, subjects) in topics {
            world.admin.create_topic(name, 1, &[("tailrace.subjects", subjects)]).await;
        }
        world
    }

    pub(crate) async fn add(&mut self, rules: &[Rule<'_>]) {
        let creations = rules.iter().map(|(user, permission, operation, kind, name)| AclCreation {
            resource_type: kind.code(),
            resource_name: (*name).to_owned(),
            resource_pattern_type: 3,
            principal: format!("User:{user}"),
            host: "*".to_owned(),
            operation: operation.code(),
            permission_type: permission.code(),
            ..Default::default()
        });
        let request = CreateAclsRequest { creations: creations.collect(), ..Default::default() };
        for result in self.admin.call(3, &request).await.results {
            assert_eq!(result.error_code, 0, "{:?}", result.error_message);
        }
    }

    pub(crate) async fn remove(&mut self, rules: &[Rule<'_>]) {
        let filters = rules.iter().map(|(user, permission, operation, kind, name)| DeleteAclsFilter {
            resource_type_filter: kind.code(),
            resource_name_filter: Some((*name).to_owned()),
            pattern_type_filter: 3,
            principal_filter: Some(format!("User:{user}")),
            host_filter: None,
            operation: operation.code(),
            permission_type: permission.code(),
            ..Default::default()
        });
        let request = DeleteAclsRequest { filters: filters.collect(), ..Default::default() };
        for result in self.admin.call(3, &request).await.filter_results {
            assert_eq!((result.error_code, result.matching_acls.len()), (0, 1), "{:?}", result.error_message);
        }
    }

    pub(crate) async fn stranger(&self) -> Line {
        let mut lines = Lines::over(TcpStream::connect(self.server.nats()).await.unwrap());
        lines.info().await;
        lines
    }

    pub(crate) async fn user(&self, name: &str, password: &str) -> Line {
        let mut lines = self.stranger().await;
        let options =
            format!("\"verbose\":false,\"headers\":true,\"user\":\"{name}\",\"pass\":\"{password}\"");
        lines.send(&format!("CONNECT {{{options}}}\r\n")).await;
        lines
    }

    pub(crate) async fn alice(&self) -> Line {
        let mut lines = self.user("alice", "p").await;
        assert!(lines.until_pong().await.is_empty());
        lines
    }

    fn by_kafka(&self, operation: Operation, topic: &str) -> bool {
        let caller = Caller::client(Door::Kafka, ([127, 0, 0, 1], 1).into()).as_user("alice".into());
        self.server.node().rights(&caller).sees(operation, Topic, topic)
    }

    /// Number of records in the only partition of a topic.
    pub(crate) async fn records(&mut self, topic: &str) -> usize {
        self.admin.read_all(topic, 0, 0).await.len()
    }

    /// Waits until a topic has so many records. A PONG does not wait for what is captured.
    pub(crate) async fn until_records(&mut self, topic: &str, count: usize) {
        let began = Instant::now();
        while self.records(topic).await != count {
            assert!(began.elapsed() < PATIENCE, "{topic} has no {count} records");
            // A pause between two looks at the topic.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) fn refused(subject: &str) -> String {
    format!("-ERR 'Permissions Violation for Publish to \"{subject}\"'")
}

pub(crate) fn deaf(subject: &str) -> String {
    format!("-ERR 'Permissions Violation for Subscription to \"{subject}\"'")
}

pub(crate) async fn says(lines: &mut Line, text: &str) -> Vec<String> {
    lines.send(text).await;
    // A client without a CONNECT also gets an +OK for each line.
    lines.until_pong().await.into_iter().filter(|line| line != "+OK").collect()
}

/// Publishes an empty message.
pub(crate) async fn publish(lines: &mut Line, subject: &str) -> Vec<String> {
    says(lines, &format!("PUB {subject} 0\r\n\r\n")).await
}

/// Returns the subjects of the messages among these lines.
pub(crate) fn heard(lines: &[String]) -> Vec<&str> {
    let messages = lines.iter().filter(|line| line.starts_with("MSG ") || line.starts_with("HMSG "));
    messages.map(|line| line.split(' ').nth(1).unwrap()).collect()
}

#[tokio::test]
async fn users_of_the_cluster_log_in_and_others_are_anonymous() {
    let world = World::new(&[]).await;
    world.alice().await;
    for (name, password) in [("alice", "q"), ("alice", ""), ("bob", "p"), ("ANONYMOUS", "p")] {
        let mut lines = world.user(name, password).await;
        assert_eq!(lines.until_end().await, [VIOLATION], "{name} {password}");
    }
    let mut lines = world.stranger().await;
    assert!(says(&mut lines, "CONNECT {\"verbose\":false}\r\nSUB a 1\r\n").await.is_empty());
}

#[tokio::test]
async fn a_required_login_keeps_out_who_presents_nothing() {
    let world = World::new(&[("tailrace.nats.authentication", "required")]).await;
    world.alice().await;
    for first in ["PUB a 0\r\n\r\n", "CONNECT {}\r\n", "CONNECT {\"user\":\"alice\"}\r\n"] {
        let mut lines = world.stranger().await;
        lines.send(first).await;
        assert_eq!(lines.until_end().await, [VIOLATION], "{first}");
    }
    let mut lines = Lines::over(TcpStream::connect(world.server.nats()).await.unwrap());
    assert_eq!(lines.info().await["auth_required"], true);
}

#[tokio::test]
async fn a_rule_means_the_same_at_both_doors() {
    let mut world = World::with_topics(&[("orders", "orders.>"), ("plain", "")]).await;
    let mut alice = world.alice().await;
    // Rules of alice, what she may publish to, what she may subscribe to, and what she may do by Kafka.
    type Case<'a> = (&'a [Rule<'a>], &'a [&'a str], &'a [&'a str], &'a [(Operation, &'a str)]);
    let cases: &[Case<'_>] = &[
        (&[], &["other"], &["other"], &[]),
        (
            &[("alice", Allow, Write, Topic, "orders")],
            &["orders.a", "orders.secret", "other"],
            &["other"],
            &[(Write, "orders")],
        ),
        (&[("alice", Allow, Write, Subject, "orders.a")], &["orders.a"], &["other"], &[]),
        (
            &[("*", Allow, Read, Topic, "plain"), ("alice", Deny, Read, Subject, "orders.>")],
            &["other"],
            &["plain", "other"],
            &[(Read, "plain")],
        ),
        (
            &[("alice", Allow, Read, Topic, "orders"), ("alice", Deny, Read, Subject, "orders.secret")],
            &["other"],
            &["orders.a", "other"],
            &[],
        ),
    ];
    for (rules, publishes, hears, kafka) in cases {
        if !rules.is_empty() {
            world.add(rules).await;
        }
        for subject in ["orders.a", "orders.secret", "plain", "other"] {
            let expected = if publishes.contains(&subject) { vec![] } else { vec![refused(subject)] };
            assert_eq!(publish(&mut alice, subject).await, expected, "{rules:?}");
            let expected = if hears.contains(&subject) { vec![] } else { vec![deaf(subject)] };
            let answer = says(&mut alice, &format!("SUB {subject} 9\r\nUNSUB 9\r\n")).await;
            assert_eq!(answer, expected, "{rules:?}");
        }
        for topic in ["orders", "plain"] {
            for operation in [Read, Write] {
                let expected = kafka.contains(&(operation, topic));
                assert_eq!(world.by_kafka(operation, topic), expected, "{operation} {topic} {rules:?}");
            }
        }
        if !rules.is_empty() {
            world.remove(rules).await;
        }
    }
}

#[tokio::test]
async fn a_refused_message_reaches_neither_subscribers_nor_the_topic() {
    let mut world = World::with_topics(&[("orders", "orders.>")]).await;
    let mut admin = world.user("admin", "open sesame").await;
    assert!(says(&mut admin, "SUB > 1\r\n").await.is_empty());
    let mut alice = world.alice().await;
    assert_eq!(publish(&mut alice, "orders.a").await, [refused("orders.a")]);
    world.add(&[("alice", Allow, Write, Subject, "orders.a")]).await;
    // Nor a message whose answer, or whose key, is not for her to write.
    let reply = "-ERR 'Permissions Violation for Publish with Reply of \"orders.b\"'";
    assert_eq!(says(&mut alice, "PUB orders.a orders.b 0\r\n\r\n").await, [reply]);
    let header = "NATS/1.0\r\nKafka-Key: orders.b\r\n\r\n";
    let message = format!("HPUB orders.a {0} {0}\r\n{header}\r\n", header.len());
    assert_eq!(says(&mut alice, &message).await, [refused("orders.b")]);
    assert!(heard(&admin.until_pong().await).is_empty());
    assert_eq!(world.records("orders").await, 0);
    assert!(publish(&mut alice, "orders.a").await.is_empty());
    assert_eq!(heard(&admin.until_pong().await), ["orders.a"]);
    world.until_records("orders", 1).await;
}

#[tokio::test]
async fn what_a_subscriber_may_not_read_is_left_out_at_delivery() {
    let mut world = World::with_topics(&[("orders", "orders.>"), ("plain", "")]).await;
    world
        .add(&[("alice", Allow, Read, Topic, "orders"), ("alice", Deny, Read, Subject, "orders.secret")])
        .await;
    let (mut alice, mut member) = (world.alice().await, world.alice().await);
    assert!(says(&mut alice, "SUB > 1\r\n").await.is_empty());
    assert!(says(&mut member, "SUB > q 1\r\n").await.is_empty());
    let mut admin = world.user("admin", "open sesame").await;
    for subject in ["orders.secret", "plain.x", "other", "orders.a"] {
        assert!(publish(&mut admin, subject).await.is_empty());
    }
    // Records of Kafka's clients, too.
    world.admin.produce("plain", 0, &[1]).await;
    world.admin.produce("orders", 0, &[1]).await;
    for lines in [&mut alice, &mut member] {
        let mut found = Vec::new();
        while found.len() < 3 {
            let line = lines.line().await.unwrap();
            found.extend(heard(&[line]).into_iter().map(str::to_owned));
        }
        assert_eq!(found, ["other", "orders.a", "orders.key"]);
        assert!(heard(&lines.until_pong().await).is_empty());
    }
}

#[tokio::test]
async fn a_removed_rule_removes_the_subscription_and_a_changed_password_ends_the_connection() {
    let mut world = World::with_topics(&[("orders", "orders.>")]).await;
    let rules = [("alice", Allow, Read, Topic, "orders")];
    world.add(&rules).await;
    let mut alice = world.alice().await;
    assert!(says(&mut alice, "SUB orders.a 1\r\nSUB other 2\r\n").await.is_empty());
    world.remove(&rules).await;
    let removed = "-ERR 'Permissions Violation for Subscription to \"orders.a\" (sid \"1\")'\r\n";
    assert_eq!(alice.line().await.as_deref(), Some(removed));
    let mut admin = world.user("admin", "open sesame").await;
    for subject in ["orders.a", "other"] {
        assert!(publish(&mut admin, subject).await.is_empty());
    }
    assert_eq!(heard(&alice.until_pong().await), ["other"]);

    add_user(&mut world.admin, "alice", Sha256, "another").await;
    assert_eq!(alice.until_end().await, ["-ERR 'User Authentication Revoked'"]);
    let mut alice = world.user("alice", "another").await;
    assert!(alice.until_pong().await.is_empty());
    let deletion =
        ScramCredentialDeletion { name: "alice".to_owned(), mechanism: Sha256.code(), ..Default::default() };
    let request = AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() };
    assert_eq!(world.admin.call(0, &request).await.results[0].error_code, 0);
    assert_eq!(alice.until_end().await, ["-ERR 'User Authentication Revoked'"]);
}

/// A client without a CONNECT takes a shorter way through the server (advisories of NATS, June 2026).
#[tokio::test]
async fn who_sends_no_connect_has_the_rights_of_anonymous() {
    let mut world = World::with_topics(&[("orders", "orders.>")]).await;
    let mut nobody = world.stranger().await;
    assert_eq!(publish(&mut nobody, "orders.a").await, [refused("orders.a")]);
    assert_eq!(says(&mut nobody, "SUB orders.a 1\r\n").await, [deaf("orders.a")]);
    assert!(says(&mut nobody, "SUB > 1\r\n").await.is_empty());
    let mut admin = world.user("admin", "open sesame").await;
    for subject in ["orders.a", "other"] {
        assert!(publish(&mut admin, subject).await.is_empty());
    }
    assert_eq!(heard(&nobody.until_pong().await), ["other"]);
    world.add(&[("ANONYMOUS", Allow, Write, Topic, "orders")]).await;
    assert!(publish(&mut nobody, "orders.a").await.is_empty());
    world.until_records("orders", 2).await;
}

/// The guest of the users file is a principal like any other.
#[tokio::test]
async fn a_guest_of_the_users_file_has_the_rights_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.toml");
    std::fs::write(&path, GUEST).unwrap();
    let mut world = World::new(&[("tailrace.nats.users.file", path.to_str().unwrap())]).await;
    world.admin.create_topic("orders", 1, &[("tailrace.subjects", "orders.>")]).await;
    let mut guest = world.stranger().await;
    assert_eq!(publish(&mut guest, "orders.a").await, [refused("orders.a")]);
    world.add(&[("ANONYMOUS", Allow, Write, Topic, "orders")]).await;
    assert_eq!(publish(&mut guest, "orders.a").await, [refused("orders.a")]);
    world.add(&[("visitor", Allow, Write, Topic, "orders")]).await;
    assert!(publish(&mut guest, "orders.a").await.is_empty());
    // The lists of the file stay.
    assert_eq!(publish(&mut guest, "orders.b").await, [refused("orders.b")]);
    // Users of the cluster log in beside those of the file.
    world.alice().await;
}

const GUEST: &str = r#"
no_auth_user = "visitor"

[[users]]
user = "visitor"
password = "v"
publish = { allow = ["orders.a"] }
"#;

async fn page(server: &TestServer, path: &str, login: Option<&str>) -> u16 {
    let mut stream = TcpStream::connect(server.http()).await.unwrap();
    let login = login.map(|login| format!("Authorization: Basic {}\r\n", STANDARD.encode(login)));
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{}", login.unwrap_or_default());
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn pages_are_for_who_may_describe_the_cluster() {
    let mut world = World::new(&[]).await;
    let paths = ["/", "/metrics", "/clusterz", "/connz", "/varz", "/nothing"];
    for path in paths {
        for login in [None, Some("admin:wrong"), Some("nobody:p"), Some("admin")] {
            assert_eq!(page(&world.server, path, login).await, 401, "{path} {login:?}");
        }
        let of_alice = if path == "/metrics" { 200 } else { 403 };
        assert_eq!(page(&world.server, path, Some("alice:p")).await, of_alice, "{path}");
        let expected = if path == "/nothing" { 404 } else { 200 };
        assert_eq!(page(&world.server, path, Some("admin:open sesame")).await, expected, "{path}");
    }
    assert_eq!(page(&world.server, "/healthz", None).await, 200);
    world.add(&[("alice", Allow, Describe, Cluster, "kafka-cluster")]).await;
    let server = &world.server;
    eventually("alice sees pages", || async { page(server, "/connz", Some("alice:p")).await == 200 }).await;
}

/// Nothing of this applies without rules: whatever a client presents, it may do everything.
#[tokio::test]
async fn without_rules_credentials_of_the_cluster_are_not_asked_for() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    add_user(&mut client, "alice", Sha256, "p").await;
    client.create_topic("orders", 1, &[("tailrace.subjects", "orders.>")]).await;
    let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    lines.info().await;
    let connect = "CONNECT {\"verbose\":false,\"user\":\"alice\",\"pass\":\"wrong\"}\r\nSUB > 1\r\n";
    assert!(says(&mut lines, connect).await.is_empty());
    assert_eq!(heard(&publish(&mut lines, "orders.a").await), ["orders.a"]);
    assert_eq!(page(&server, "/connz", None).await, 200);
}
