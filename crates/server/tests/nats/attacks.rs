//! Attacks on the NATS door that became advisories elsewhere, with users and rules of the cluster. See
//! docs/security-tests.md.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tailrace_identity::acl::{Operation, Permission, ResourceKind};
use tokio::net::{TcpSocket, TcpStream};

use crate::accounts;
use crate::common::TestServer;
use crate::common::lines::Lines;
use crate::rights::{Line, World, heard, publish, refused, says};
use Operation::{Read, Write};
use Permission::Allow;
use ResourceKind::{Subject, Topic};

const VIOLATION: &str = "-ERR 'Authorization Violation'";

async fn stranger(server: &TestServer) -> Line {
    let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    lines.info().await;
    lines
}

/// CVE-2023-47090: a user of the system account alone made all others a guest that nobody had named.
#[tokio::test]
async fn there_is_no_guest_that_the_file_does_not_name() {
    let (system, app) = ("[[accounts]]\nname = \"$SYS\"\n", "[[accounts]]\nname = \"APP\"\n");
    let user =
        |account: &str| format!("[[users]]\nuser = \"u\"\npassword = \"p\"\naccount = \"{account}\"\n");
    for users in [system.to_owned() + &user("$SYS"), [system, app].concat() + &user("APP")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        std::fs::write(&path, &users).unwrap();
        let server = TestServer::with(&[("tailrace.nats.users.file", path.to_str().unwrap())]).await;
        for first in
            ["CONNECT {}\r\n", "CONNECT {\"user\":\"\"}\r\n", "PUB a 0\r\n\r\n", "SUB > 1\r\n", "PING\r\n"]
        {
            let mut lines = stranger(&server).await;
            lines.send(first).await;
            assert_eq!(lines.until_end().await, [VIOLATION], "{first}: {users}");
        }
    }
}

/// CVE-2026-33249: the server sent traces to any subject. Acknowledgements, errors and traces that a client
/// asks for go to no subject that it may neither use nor hear.
#[tokio::test]
async fn the_server_says_nothing_where_the_client_may_not() {
    let mut world = World::with_topics(&[("orders", "orders.>")]).await;
    world
        .add(&[
            ("alice", Allow, Write, Topic, "orders"),
            ("alice", Allow, Write, Subject, "mine.>"),
            ("alice", Allow, Read, Subject, "_INBOX_alice.>"),
        ])
        .await;
    let mut victim = world.user("admin", "open sesame").await;
    assert!(says(&mut victim, "SUB victim.> 1\r\nSUB _INBOX_bob.> 2\r\n").await.is_empty());
    let mut alice = world.stranger().await;
    let login = "\"user\":\"alice\",\"pass\":\"p\",\"no_responders\":true,\"headers\":true";
    alice.send(&format!("CONNECT {{\"verbose\":false,{login}}}\r\n")).await;
    assert!(says(&mut alice, "SUB _INBOX_alice.> 1\r\n").await.is_empty());

    let trace = "NATS/1.0\r\nNats-Trace-Dest: victim.trace\r\n\r\n";
    let traced = format!("HPUB mine.a {0} {0}\r\n{trace}\r\n", trace.len());
    assert_eq!(says(&mut alice, &traced).await, [refused("victim.trace")]);
    for reply in ["victim.a", "_INBOX_bob.1"] {
        // Nobody listens, and a topic that acknowledges.
        let said =
            says(&mut alice, &format!("PUB mine.b {reply} 0\r\n\r\nPUB orders.a {reply} 0\r\n\r\n")).await;
        assert!(said.iter().all(|line| !line.starts_with("MSG") && !line.starts_with("HMSG")), "{said:?}");
    }
    world.until_records("orders", 2).await;
    assert!(heard(&victim.until_pong().await).is_empty());
    // Her own replies come.
    alice.send("PUB mine.b _INBOX_alice.1 0\r\n\r\nPUB orders.a _INBOX_alice.2 0\r\n\r\n").await;
    let mut own = Vec::new();
    while own.len() < 2 {
        let line = alice.line().await.unwrap();
        own.extend(heard(&[line]).into_iter().map(str::to_owned));
    }
    own.sort();
    assert_eq!(own, ["_INBOX_alice.1", "_INBOX_alice.2"]);
    assert!(heard(&victim.until_pong().await).is_empty());
}

/// CVE-2025-30215 and others: subjects of the server told of, and did, what the client had no right to. Users
/// outside the system account hear none of its events. They may see the other clients of their account only
/// if they may describe the cluster. There is no JetStream API.
#[tokio::test]
async fn the_servers_own_subjects_tell_users_nothing_of_others() {
    let mut world = World::with_topics(&[("hidden", "hidden.>")]).await;
    world.admin.produce("hidden", 0, &[1]).await;
    let mut admin = world.user("admin", "open sesame").await;
    assert!(says(&mut admin, "SUB _INBOX_admin 1\r\n").await.is_empty());
    let mut anonymous = world.stranger().await;
    anonymous.send("CONNECT {\"verbose\":false}\r\n").await;
    for mut asker in [world.alice().await, anonymous] {
        let mut lines = says(&mut asker, "SUB $SYS.> 1\r\nSUB $JS.> 2\r\nSUB _INBOX.> 3\r\n").await;
        // Things happen that the system account hears of.
        assert_eq!(world.user("bob", "wrong").await.until_end().await, [VIOLATION]);
        assert!(world.user("admin", "open sesame").await.until_pong().await.is_empty());
        let asked = [
            "$SYS.REQ.SERVER.PING.VARZ",
            "$SYS.REQ.SERVER.PING.SUBSZ",
            "$SYS.REQ.ACCOUNT.$SYS.CONNZ",
            "$SYS.REQ.CLAIMS.LIST",
            "$JS.API.INFO",
            "$JS.API.STREAM.NAMES",
            "$JS.API.STREAM.MSG.GET.hidden",
            "$JS.API.DIRECT.GET.hidden",
            "$JS.API.CONSUMER.CREATE.hidden",
            "$SYS.REQ.SERVER.PING.CONNZ",
            "$SYS.REQ.ACCOUNT.PING.CONNZ",
        ];
        for (number, subject) in asked.into_iter().enumerate() {
            let request =
                format!("PUB {subject} _INBOX.{number} 31\r\n{{\"auth\":true,\"subscriptions\":1}}\r\n");
            lines.extend(says(&mut asker, &request).await);
        }
        // Answers come from tasks of their own. The two that come are of the last two requests.
        while lines.iter().filter(|line| line.contains("\"code\":403")).count() < 2 {
            lines.push(asker.line().await.unwrap());
        }
        lines.extend(asker.until_pong().await);
        let about_others = ["hidden", "admin", "bob", "\"total\"", "\"connections\":[", "VARZ"];
        // The asker hears its own requests.
        let mut answers = lines.iter().filter(|line| !line.starts_with("MSG $"));
        let told = answers.find(|line| about_others.iter().any(|word| line.contains(word)));
        assert_eq!(told, None, "{lines:?}");
        assert_eq!(
            heard(&lines).iter().filter(|subject| subject.starts_with("_INBOX")).count(),
            2,
            "{lines:?}"
        );
    }
    assert_eq!(world.records("hidden").await, 1);
    admin.send("PUB $SYS.REQ.SERVER.PING.CONNZ _INBOX_admin 0\r\n\r\n").await;
    assert!(admin.line().await.unwrap().starts_with("MSG _INBOX_admin "));
    assert!(admin.line().await.unwrap().contains("\"connections\":["));
}

/// Places are few here. Without a login they come free after its time. Meanwhile others need none of them.
#[tokio::test]
async fn clients_that_do_not_log_in_take_the_places_of_their_address_only_and_not_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.toml");
    std::fs::write(&path, "[[users]]\nuser = \"alice\"\npassword = \"p\"\n").unwrap();
    let server = TestServer::with(&[
        ("tailrace.nats.users.file", path.to_str().unwrap()),
        ("tailrace.nats.logins.max", "6"),
        ("tailrace.nats.logins.max.per.ip", "3"),
        ("tailrace.nats.auth.timeout.ms", "3000"),
    ])
    .await;
    let login = "CONNECT {\"verbose\":false,\"user\":\"alice\",\"pass\":\"p\"}\r\n";
    let began = Instant::now();
    // Those that have logged in take no place.
    let mut before = Vec::new();
    for _ in 0..5 {
        let mut alice = stranger(&server).await;
        assert!(says(&mut alice, login).await.is_empty());
        before.push(alice);
    }
    let mut strangers = Vec::new();
    for begun in ["", "CONN", "CONNECT {\"user\":\"alice\""] {
        let mut lines = stranger(&server).await;
        lines.send(begun).await;
        strangers.push(lines);
    }
    let said = stranger(&server).await.until_end().await;
    let refused =
        server.metric("tailrace_nats_connections_refused_total{reason=\"tailrace.nats.logins.max\"}").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
    let mut other = Lines::over(socket.connect(server.nats()).await.unwrap());
    other.info().await;
    assert!(says(&mut other, login).await.is_empty());
    if began.elapsed() < Duration::from_secs(3) {
        assert_eq!((said, refused), (vec!["-ERR 'maximum connections exceeded'".to_owned()], 1.0));
    }
    for mut alice in before {
        assert!(says(&mut alice, "").await.is_empty());
    }
    for mut stranger in strangers {
        assert_eq!(stranger.until_end().await, ["-ERR 'Authentication Timeout'"]);
    }
    assert!(says(&mut stranger(&server).await, login).await.is_empty());
}

/// A user may publish one subject of a topic. A key is no way to replace or delete what has another one,
/// whether the lists of the user decide alone or together with rules.
#[tokio::test]
async fn a_key_is_no_way_around_the_lists_of_a_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.toml");
    let users =
        "[[users]]\nuser = \"bob\"\npassword = \"p\"\npublish = { allow = [\"orders.a\", \"last.a\"] }\n";
    std::fs::write(&path, users).unwrap();
    let file = [("tailrace.nats.users.file", path.to_str().unwrap())];
    let by_lists = TestServer::with(&file).await;
    let mut by_rules = World::new(&file).await;
    by_rules.add(&[("bob", Allow, Write, Topic, "orders"), ("bob", Allow, Write, Topic, "last")]).await;
    for (server, admin) in
        [(&by_lists, &mut by_lists.connect().await), (&by_rules.server, &mut by_rules.admin)]
    {
        admin.create_topic("orders", 1, &[("tailrace.subjects", "orders.>")]).await;
        let compact = [("tailrace.subjects", "last.>"), ("cleanup.policy", "compact")];
        admin.create_topic("last", 1, &compact).await;
        let mut bob = stranger(server).await;
        bob.send("CONNECT {\"verbose\":false,\"headers\":true,\"user\":\"bob\",\"pass\":\"p\"}\r\n").await;
        for (subject, key, refusal) in [
            ("orders.a", "Kafka-Key: orders.b", Some("orders.b")),
            ("orders.a", "Kafka-Key-Base64: b3JkZXJzLmI", Some("orders.b")),
            ("orders.a", "Kafka-Key: orders.a", None),
            ("orders.a", "Kafka-Key: text", None),
            ("last.a", "Kafka-Key: last.b", Some("last.b")),
            ("last.a", "Kafka-Key: text", Some("text")),
            ("last.a", "Kafka-Key: a", None),
        ] {
            for null in ["", "Kafka-Value: null\r\n"] {
                let head = format!("NATS/1.0\r\n{key}\r\n{null}\r\n");
                let said = says(&mut bob, &format!("HPUB {subject} {0} {0}\r\n{head}\r\n", head.len())).await;
                let expected: Vec<_> = refusal.into_iter().map(refused).collect();
                assert_eq!(said, expected, "{subject} {key} {null}");
            }
        }
    }
}

/// The same for users of an account that imports a part of the topics. Their lists are about the subjects
/// there. A user without lists may replace what the account can reach, and nothing else.
#[tokio::test]
async fn a_key_is_no_way_around_the_imports_and_lists_of_another_account() {
    let users = r#"
[[accounts]]
name = "TOPICS"
exports = [{ service = "orders.*" }, { service = "last.>" }]
[[accounts]]
name = "OTHER"
imports = [
    { service = "orders.a", from = "TOPICS", to = "in.a" },
    { service = "orders.c", from = "TOPICS", to = "in.c" },
    { service = "last.>", from = "TOPICS", to = "final.>" },
]
[[users]]
user = "bob"
password = "p"
account = "OTHER"
publish = { allow = ["in.a", "final.a"] }
[[users]]
user = "eve"
password = "p"
account = "OTHER"
"#;
    let world = accounts::world(users, &[("tailrace.nats.topics.account", "TOPICS")]).await;
    let mut admin = world.server.connect().await;
    admin.create_topic("orders", 1, &[("tailrace.subjects", "orders.>")]).await;
    let compact = [("tailrace.subjects", "last.>"), ("cleanup.policy", "compact")];
    admin.create_topic("last", 1, &compact).await;
    for (user, is_listed) in [("bob", true), ("eve", false)] {
        let mut talker = accounts::login(&world.server, user).await;
        for (subject, key, by_imports, by_lists) in [
            ("in.a", "orders.a", true, true),
            ("in.a", "text", true, true),
            ("in.a", "orders.b", false, false),
            ("in.a", "orders.c", true, false),
            ("final.a", "last.a", true, true),
            ("final.a", "last.b", true, false),
            ("final.a", "text", true, false),
            ("elsewhere", "orders.b", true, false),
        ] {
            let head = format!("NATS/1.0\r\nKafka-Key: {key}\r\n\r\n");
            let said = says(&mut talker, &format!("HPUB {subject} {0} {0}\r\n{head}\r\n", head.len())).await;
            let is_refused = !if is_listed { by_lists } else { by_imports };
            let what = if subject == "elsewhere" { subject } else { key };
            let expected: Vec<_> = is_refused.then(|| refused(what)).into_iter().collect();
            assert_eq!(said, expected, "{user} {subject} {key}");
        }
    }
}

/// The WebSocket is a NATS door on the port for pages. It asks for the same users and rules.
#[tokio::test]
async fn a_websocket_has_the_rules_of_the_other_doors() {
    let mut world = World::new(&[("tailrace.nats.authentication", "required")]).await;
    world.admin.create_topic("orders", 1, &[("tailrace.subjects", "orders.>")]).await;
    let address = format!("ws://{}", world.server.http());
    let connect = async |options: async_nats::ConnectOptions| {
        options.connection_timeout(Duration::from_secs(5)).connect(&address).await
    };
    let user = |password: &str| {
        async_nats::ConnectOptions::with_user_and_password("alice".to_owned(), password.to_owned())
    };
    assert!(connect(async_nats::ConnectOptions::new()).await.is_err(), "without a login");
    assert!(connect(user("wrong")).await.is_err());
    let alice = connect(user("p")).await.unwrap();
    let mut admin = world.user("admin", "open sesame").await;
    assert!(says(&mut admin, "SUB orders.> 1\r\nSUB echo 2\r\n").await.is_empty());
    let mut all = alice.subscribe(">").await.unwrap();
    alice.publish("orders.a", "x".into()).await.unwrap();
    alice.publish("echo", "x".into()).await.unwrap();
    alice.flush().await.unwrap();
    let next = async |all: &mut async_nats::Subscriber| {
        use futures_util::StreamExt;
        let message = tokio::time::timeout(crate::common::PATIENCE, all.next()).await;
        message.unwrap().unwrap().subject.to_string()
    };
    assert_eq!(next(&mut all).await, "echo");
    assert!(publish(&mut admin, "orders.secret").await.iter().any(|line| line.contains("orders.secret")));
    assert!(publish(&mut admin, "last").await.is_empty());
    assert_eq!(next(&mut all).await, "last", "she may not read the topic");
    world.until_records("orders", 1).await;
    world.add(&[("alice", Allow, Write, Topic, "orders")]).await;
    alice.publish("orders.b", "x".into()).await.unwrap();
    alice.flush().await.unwrap();
    world.until_records("orders", 2).await;
}
