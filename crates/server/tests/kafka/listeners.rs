//! Several Kafka listeners by name: what each speaks, who its clients are, and which addresses they are told,
//! of one server and of the nodes of a cluster.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
use tailrace_identity::acl::{Acl, Operation, PatternKind, Permission, ResourceKind};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::metadata_response::{MetadataResponse, MetadataResponsePartition};
use tailrace_kafka_wire::messages::{
    CreateTopicsRequest, DescribeClusterRequest, DescribeTopicPartitionsRequest, FindCoordinatorRequest,
    MetadataRequest,
};
use tailrace_metadata::{Command, KafkaEndpoint, RegisterNode};
use tailrace_node::Caller;
use tailrace_types::NodeId;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::common::certificates::{self, Authority};
use crate::common::logins::{Stream, handshake, plain};
use crate::common::rig::eventually;
use crate::common::{Client, OK, TestServer, error, topic};

const ILLEGAL_STATE: i16 = 34;
const UNSUPPORTED_MECHANISM: i16 = 33;

/// The places of the listeners in [`FOUR`].
const PLAINTEXT: usize = 0;
const SSL: usize = 1;
const SASL_PLAINTEXT: usize = 2;
const SASL_SSL: usize = 3;

const FOUR: (&str, &str) = (
    "listeners",
    "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
);

const PROTOCOLS: (&str, &str) = (
    "listener.security.protocol.map",
    "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,CLIENTS:SASL_SSL",
);

/// A server with four listeners.
async fn four(authority: &Authority) -> TestServer {
    let settings = [
        FOUR,
        PROTOCOLS,
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"),
        ("listener.name.clients.sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.ssl.ssl.client.auth", "required"),
        ("listener.name.clients.ssl.client.auth", "requested"),
    ];
    with(authority, &settings).await
}

/// A server with these listeners. Each principal may create the topic that [`topic_of`] names.
async fn with(authority: &Authority, listeners: &[(&str, &str)]) -> TestServer {
    let more = [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:root"),
        ("tailrace.first.user", "alice"),
        ("tailrace.first.password", "open sesame"),
    ];
    let settings = authority.settings(&[listeners, &more[..]].concat());
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let server = TestServer::with(&settings).await;
    let rule = |principal: &str| Acl {
        kind: ResourceKind::Topic,
        name: topic_of(principal),
        pattern: PatternKind::Literal,
        principal: format!("User:{principal}"),
        host: "*".to_owned(),
        operation: Operation::Create,
        permission: Permission::Allow,
    };
    let rules = ["ANONYMOUS", "CN=robot", "alice"].map(rule).to_vec();
    server.node().execute(Caller::internal(), Command::CreateAcls(rules)).await.unwrap();
    authority.issue_to("robot", ClientAuth, "robot");
    server
}

fn topic_of(principal: &str) -> String {
    principal.replace('=', "-")
}

/// Returns which of the three principals the client is.
async fn principals<S: Stream>(client: &mut Client<S>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for principal in ["ANONYMOUS", "CN=robot", "alice"] {
        let topics = vec![topic(&topic_of(principal), 1, &[])];
        let request = CreateTopicsRequest { topics, validate_only: true, ..Default::default() };
        if client.call(7, &request).await.topics[0].error_code == 0 {
            found.push(principal);
        }
    }
    found
}

async fn is_served<S: Stream>(client: &mut Client<S>) -> bool {
    client.try_call(9, &MetadataRequest { topics: None, ..Default::default() }).await.is_some()
}

/// Connects by TLS. `robot` shows its certificate.
async fn secure(
    server: &TestServer,
    authority: &Authority,
    number: usize,
    shown: Option<&str>,
) -> std::io::Result<Client<TlsStream<TcpStream>>> {
    let stream = TcpStream::connect(server.listener(number)).await?;
    let config = authority.client(shown.map(|name| (authority, name)));
    certificates::handshake(config, stream).await.map(Client::over)
}

#[tokio::test]
async fn each_listener_speaks_its_protocol_and_knows_its_clients_by_it() {
    let authority = Authority::new();
    let server = four(&authority).await;

    let mut open = server.connect_to(PLAINTEXT).await;
    assert_eq!(principals(&mut open).await, ["ANONYMOUS"]);
    assert_eq!(handshake(&mut open, "PLAIN").await, ILLEGAL_STATE, "nobody logs in here");
    assert_eq!(principals(&mut open).await, ["ANONYMOUS"]);

    let mut robot = secure(&server, &authority, SSL, Some("robot")).await.unwrap();
    assert_eq!(principals(&mut robot).await, ["CN=robot"]);
    assert_eq!(handshake(&mut robot, "PLAIN").await, ILLEGAL_STATE);

    let mut alice = server.connect_to(SASL_PLAINTEXT).await;
    assert_eq!(plain(&mut alice, "alice", "open sesame").await.error_code, 0);
    assert_eq!(principals(&mut alice).await, ["alice"]);

    let mut alice_by_tls = secure(&server, &authority, SASL_SSL, None).await.unwrap();
    assert_eq!(plain(&mut alice_by_tls, "alice", "open sesame").await.error_code, 0);
    assert_eq!(principals(&mut alice_by_tls).await, ["alice"]);
}

#[tokio::test]
async fn no_listener_lets_in_what_another_one_would() {
    let authority = Authority::new();
    let server = four(&authority).await;
    // Without TLS where it is required, and with TLS where there is none.
    for number in [SSL, SASL_SSL] {
        assert!(!is_served(&mut server.connect_to(number).await).await, "{number}");
    }
    for number in [PLAINTEXT, SASL_PLAINTEXT] {
        assert!(secure(&server, &authority, number, Some("robot")).await.is_err(), "{number}");
    }
    // Without a login where it is required. A certificate is none.
    assert!(!is_served(&mut server.connect_to(SASL_PLAINTEXT).await).await);
    for shown in [None, Some("robot")] {
        let mut client = secure(&server, &authority, SASL_SSL, shown).await.unwrap();
        assert!(!is_served(&mut client).await, "{shown:?}");
        let mut client = secure(&server, &authority, SASL_SSL, shown).await.unwrap();
        assert_ne!(plain(&mut client, "alice", "open barley").await.error_code, 0);
        let mut client = secure(&server, &authority, SASL_SSL, shown).await.unwrap();
        assert_eq!(plain(&mut client, "alice", "open sesame").await.error_code, 0);
        assert_eq!(principals(&mut client).await, ["alice"], "the login counts, not the certificate");
    }
    // Without a certificate where it is required: TLS 1.3 says so after the client's part of the handshake.
    if let Ok(mut client) = secure(&server, &authority, SSL, None).await {
        assert!(!is_served(&mut client).await);
    }
    // A mechanism that only the other listener has.
    let mut client = server.connect_to(SASL_PLAINTEXT).await;
    assert_eq!(handshake(&mut client, "SCRAM-SHA-256").await, 0);
    let mut client = secure(&server, &authority, SASL_SSL, None).await.unwrap();
    assert_eq!(handshake(&mut client, "SCRAM-SHA-256").await, UNSUPPORTED_MECHANISM);
}

#[tokio::test]
async fn a_certificate_that_is_only_requested_may_be_missing_but_not_be_wrong() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let settings = [("listeners", "SSL://127.0.0.1:0"), ("listener.name.ssl.ssl.client.auth", "requested")];
    let server = with(&authority, &settings).await;
    let mut nobody = secure(&server, &authority, 0, None).await.unwrap();
    assert_eq!(principals(&mut nobody).await, ["ANONYMOUS"]);
    let mut robot = secure(&server, &authority, 0, Some("robot")).await.unwrap();
    assert_eq!(principals(&mut robot).await, ["CN=robot"]);
    stranger.issue_to("robot", ClientAuth, "robot");
    let stream = TcpStream::connect(server.listener(0)).await.unwrap();
    let config = authority.client(Some((&stranger, "robot")));
    if let Ok(stream) = certificates::handshake(config, stream).await {
        assert!(!is_served(&mut Client::over(stream)).await, "another authority issued it");
    }
}

#[tokio::test]
async fn the_limits_of_connections_hold_for_all_listeners_together() {
    for limit in ["max.connections", "max.connections.per.ip"] {
        let settings = [TWO[0], TWO[1], (limit, "2")];
        let server = TestServer::with(&settings).await;
        let (mut first, mut second) = (server.connect_to(0).await, server.connect_to(1).await);
        assert!(is_served(&mut first).await && is_served(&mut second).await);
        for number in 0..2 {
            assert!(!is_served(&mut server.connect_to(number).await).await, "{limit}");
        }
        drop(first);
        server.until_connections(1.0).await;
        assert!(is_served(&mut server.connect_to(1).await).await, "{limit}");
    }
}

#[tokio::test]
async fn a_client_is_told_the_address_of_its_own_listener() {
    let settings = [
        ("listeners", "IN://127.0.0.1:0,OUT://127.0.0.1:0,PROXY://127.0.0.1:0"),
        ("listener.security.protocol.map", "IN:PLAINTEXT,OUT:PLAINTEXT,PROXY:PLAINTEXT"),
        ("advertised.listeners", "PROXY://kafka.example:9999"),
    ];
    let server = TestServer::with(&settings).await;
    for number in 0..3 {
        let expected = match number {
            2 => ("kafka.example".to_owned(), 9999),
            _ => ("127.0.0.1".to_owned(), i32::from(server.listener(number).port())),
        };
        let mut client = server.connect_to(number).await;
        let metadata = client.call(12, &MetadataRequest { topics: Some(vec![]), ..Default::default() }).await;
        let told: Vec<_> = metadata.brokers.into_iter().map(|broker| (broker.host, broker.port)).collect();
        assert_eq!(told, std::slice::from_ref(&expected), "Metadata on {number}");
        let found =
            client.call(3, &FindCoordinatorRequest { key: "g".to_owned(), ..Default::default() }).await;
        assert_eq!((found.host, found.port), expected, "FindCoordinator on {number}");
        let request = DescribeClusterRequest { endpoint_type: 1, ..Default::default() };
        let cluster = client.call(1, &request).await;
        let told: Vec<_> = cluster.brokers.into_iter().map(|broker| (broker.host, broker.port)).collect();
        assert_eq!(told, [expected], "DescribeCluster on {number}");
    }
    server.until_connections(0.0).await;
    let (_first, _second, _out) =
        (server.connect_to(0).await, server.connect_to(0).await, server.connect_to(1).await);
    server.until_connections(3.0).await;
    for (name, count) in [("IN", 2.0), ("OUT", 1.0), ("PROXY", 0.0)] {
        let line = format!("tailrace_kafka_listener_connections{{listener=\"{name}\"}}");
        assert_eq!(server.metric(&line).await, count, "{name}");
    }
}

const TWO: [(&str, &str); 2] = [
    ("listeners", "IN://127.0.0.1:0,OUT://127.0.0.1:0"),
    ("listener.security.protocol.map", "IN:PLAINTEXT,OUT:PLAINTEXT"),
];

/// Starts three nodes. The first two have the listeners IN and OUT, the third one a listener without a name.
async fn cluster() -> Vec<TestServer> {
    let mut nodes: Vec<TestServer> = Vec::new();
    let mut seed = String::new();
    for id in ["1", "2", "3"] {
        let mut settings = vec![("node.id", id), ("cluster.listen", "127.0.0.1:0"), ("nats", "off")];
        if id != "1" {
            settings.push(("tailrace.cluster.seeds", seed.as_str()));
        }
        if id != "3" {
            settings.extend(TWO);
        }
        nodes.push(TestServer::with(&settings).await);
        seed = nodes[0].cluster().to_string();
    }
    nodes
}

async fn metadata(client: &mut Client, version: i16) -> MetadataResponse {
    client.call(version, &MetadataRequest { topics: None, ..Default::default() }).await
}

/// Returns the nodes that a client of this listener is told, with their ports.
async fn told(node: &TestServer, number: usize) -> BTreeSet<(i32, u16)> {
    let answer = metadata(&mut node.connect_to(number).await, 12).await;
    answer.brokers.into_iter().map(|broker| (broker.node_id, u16::try_from(broker.port).unwrap())).collect()
}

/// Returns the partitions of the topic `t`, as a client of this listener is told.
async fn partitions(node: &TestServer, number: usize, version: i16) -> Vec<MetadataResponsePartition> {
    let answer = metadata(&mut node.connect_to(number).await, version).await;
    let topic = answer.topics.into_iter().find(|topic| topic.name.as_deref() == Some("t")).unwrap();
    topic.partitions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_cluster_are_told_the_nodes_that_have_their_listener() {
    let mut nodes = cluster().await;
    let port = |node: &TestServer, number| node.listener(number).port();
    let inside: BTreeSet<_> =
        [(1, port(&nodes[0], 0)), (2, port(&nodes[1], 0)), (3, port(&nodes[2], 0))].into();
    let outside: BTreeSet<_> = [(1, port(&nodes[0], 1)), (2, port(&nodes[1], 1))].into();
    // A listener without a name counts as the first one of the others.
    for node in &nodes {
        eventually("clients inside learn of three nodes", || async { told(node, 0).await == inside }).await;
    }
    for node in &nodes[..2] {
        eventually("clients outside learn of two", || async { told(node, 1).await == outside }).await;
    }

    let mut client = nodes[0].connect_to(0).await;
    client.create_topic("t", 6, &[]).await;
    let is_led = |found: &Vec<MetadataResponsePartition>| found.iter().all(|one| one.leader_id > 0);
    eventually("all are led", || async { is_led(&partitions(&nodes[0], 0, 12).await) }).await;
    let led = partitions(&nodes[0], 0, 12).await;
    let by_third = |one: &MetadataResponsePartition| one.leader_id == 3;
    assert!(led.iter().any(by_third) && !led.iter().all(by_third), "{led:?}");
    for (version, missing) in [(12, ErrorCode::ListenerNotFound), (5, ErrorCode::LeaderNotAvailable)] {
        for (inside, outside) in led.iter().zip(partitions(&nodes[0], 1, version).await) {
            assert_eq!(outside.replica_nodes, inside.replica_nodes);
            if by_third(inside) {
                assert_eq!((error(outside.error_code), outside.leader_id), (missing, -1), "{outside:?}");
                assert_eq!(outside.offline_replicas, [3]);
            } else {
                assert_eq!((error(outside.error_code), outside.leader_id), (OK, inside.leader_id));
                assert_eq!(outside.offline_replicas, [0; 0]);
            }
        }
    }
    let request = DescribeTopicPartitionsRequest { response_partition_limit: 100, ..Default::default() };
    let pages = nodes[0].connect_to(1).await.call(0, &request).await;
    let described = pages.topics.iter().find(|topic| topic.name.as_deref() == Some("t")).unwrap();
    for (inside, outside) in led.iter().zip(&described.partitions) {
        let expected = if by_third(inside) { ErrorCode::ListenerNotFound } else { OK };
        assert_eq!(error(outside.error_code), expected);
    }

    // The third node gets the second listener, too.
    nodes[2].restart_with(&TWO).await;
    let outside: BTreeSet<_> = (0..3).map(|n| (n as i32 + 1, port(&nodes[n], 1))).collect();
    for node in &nodes {
        eventually("clients outside learn of three", || async { told(node, 1).await == outside }).await;
    }
    let is_whole = || async { is_led(&partitions(&nodes[0], 1, 12).await) };
    eventually("clients outside reach all partitions", is_whole).await;
}

/// What happens when the cluster's level is raised: until then, registrations have no names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_registers_its_listeners_again_where_their_names_are_missing() {
    let settings = [("cluster.listen", "127.0.0.1:0"), ("nats", "off"), TWO[0], TWO[1]];
    let server = TestServer::with(&settings).await;
    let listeners = || -> Vec<KafkaEndpoint> {
        server.node().image().node(NodeId(1)).unwrap().registration.listeners.clone()
    };
    eventually("the names are registered", || async { listeners().len() == 2 }).await;
    let before = server.node().image().node(NodeId(1)).unwrap().registration.clone();
    assert_eq!(before.kafka, before.listeners[0].address);
    assert_eq!(before.listeners[1].address, server.listener(1).to_string());
    let nameless = RegisterNode {
        node: before.node,
        directory: before.directory,
        cluster: before.cluster.clone(),
        kafka: before.kafka.clone(),
        listeners: Vec::new(),
        nats: before.nats.clone(),
        http: before.http.clone(),
        rack: before.rack.clone(),
        levels: before.levels,
        replica: None,
        renews: false,
    };
    server.node().execute(Caller::internal(), Command::RegisterNode(nameless)).await.unwrap();
    eventually("they are registered again", || async { listeners() == before.listeners }).await;
    assert!(server.node().image().node(NodeId(1)).unwrap().registration.epoch > before.epoch + 1);
}
