//! Attacks on logins: names of others, repeated messages, guesses, logins that stop halfway, what is sent
//! along with them, and settings that would make the server read files or load code. See
//! docs/security-tests.md.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
use tailrace_identity::scram::ScramMechanism::{self, Sha256, Sha512};
use tailrace_identity::scram::message::{ClientFinal, ServerFirst};
use tailrace_kafka_wire::messages::describe_configs_request::DescribeConfigsResource;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use tailrace_kafka_wire::messages::{
    CreateTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest, MetadataRequest,
    SaslAuthenticateRequest, SaslHandshakeRequest,
};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::common::certificates::{self, Authority};
use crate::common::lines::Lines;
use crate::common::logins::{add_user, handshake, plain, proven, salted, scram, token};
use crate::common::{Client, TestServer, topic};

const FAILED: i16 = 58;
const PASSWORD: &str = "open sesame";

/// A server that requires a login, and the users admin and alice.
async fn server(more: &[(&str, &str)]) -> TestServer {
    let settings = [
        ("tailrace.first.user", "admin"),
        ("tailrace.first.password", PASSWORD),
        ("tailrace.kafka.authentication", "required"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"),
        ("connection.failed.authentication.delay.ms", "0"),
    ];
    let server = TestServer::with(&[&settings[..], more].concat()).await;
    let mut admin = admin(&server).await;
    for mechanism in [Sha256, Sha512] {
        add_user(&mut admin, "alice", mechanism, PASSWORD).await;
    }
    server
}

/// The first user is made after the start.
async fn admin(server: &TestServer) -> Client {
    loop {
        let mut client = server.connect().await;
        if plain(&mut client, "admin", PASSWORD).await.error_code == 0 {
            return client;
        }
    }
}

fn metadata() -> MetadataRequest {
    MetadataRequest { topics: None, ..Default::default() }
}

/// What a client says in the place of the right words.
struct Said<'a> {
    what: &'static str,
    /// The first message, with the user's name and a nonce.
    first: &'a str,
    /// Changes the final message, from the challenge, before the proof is made of it.
    last: fn(&ServerFirst, ClientFinal) -> ClientFinal,
    /// Changes the final message as it is sent.
    sent: fn(String) -> String,
    works: bool,
}

impl Default for Said<'_> {
    fn default() -> Self {
        Self { what: "", first: "n,,n=alice,r=abcdef", last: |_, last| last, sent: |text| text, works: false }
    }
}

/// Logs in with the right password and these words. Returns the last code, and whether requests work then.
async fn says(server: &TestServer, mechanism: ScramMechanism, said: &Said<'_>) -> (i16, bool) {
    let mut client = server.connect().await;
    assert_eq!(handshake(&mut client, mechanism.name()).await, 0);
    let challenge = token(&mut client, said.first.to_owned()).await.unwrap();
    let mut code = challenge.error_code;
    if code == 0 {
        let challenge = ServerFirst::parse(&challenge.auth_bytes).unwrap();
        let gs2_bytes = said.first.find("n=").unwrap();
        let last = ClientFinal {
            channel_binding: base64_of(&said.first[..gs2_bytes]),
            nonce: challenge.nonce.clone(),
            proof: vec![0; mechanism.hash_bytes()].into(),
        };
        let salted = salted(mechanism, PASSWORD, &challenge.salt, challenge.iterations);
        let last = (said.last)(&challenge, last);
        let (last, _) = proven(mechanism, &said.first[gs2_bytes..], &challenge, last, &salted);
        code = token(&mut client, (said.sent)(last.message())).await.unwrap().error_code;
    }
    (code, client.try_call(9, &metadata()).await.is_some())
}

fn base64_of(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// CVE-2017-12610: the name of another. CVE-2024-56128: the nonce was not compared. The password is right in
/// all of these.
#[tokio::test]
async fn a_login_with_scram_fails_by_each_field_that_is_not_as_it_must_be() {
    let server = server(&[]).await;
    let cases = [
        Said { what: "nothing is wrong", works: true, ..Said::default() },
        Said { what: "one's own name", first: "n,a=alice,n=alice,r=abcdef", works: true, ..Said::default() },
        Said { what: "the name of another", first: "n,a=admin,n=alice,r=abcdef", ..Said::default() },
        Said { what: "nearly one's name", first: "n,a=Alice,n=alice,r=abcdef", ..Said::default() },
        Said { what: "channel binding", first: "p=tls-exporter,,n=alice,r=abcdef", ..Said::default() },
        Said { what: "channel binding if offered", first: "y,,n=alice,r=abcdef", ..Said::default() },
        Said { what: "an unknown extension", first: "n,,n=alice,r=abcdef,x=y", ..Said::default() },
        Said { what: "a token that is none", first: "n,,n=alice,r=abcdef,tokenauth=true", ..Said::default() },
        Said {
            what: "the nonce of the client",
            last: |_, last| ClientFinal { nonce: "abcdef".to_owned(), ..last },
            ..Said::default()
        },
        Said {
            what: "the nonce of the server",
            last: |server, last| ClientFinal { nonce: server.nonce["abcdef".len()..].to_owned(), ..last },
            ..Said::default()
        },
        Said {
            what: "more than the nonce",
            last: |server, last| ClientFinal { nonce: server.nonce.clone() + "x", ..last },
            ..Said::default()
        },
        Said {
            what: "another channel binding than before",
            last: |_, last| ClientFinal { channel_binding: base64_of("n,a=alice,"), ..last },
            ..Said::default()
        },
        Said { what: "a mandatory extension", sent: |text| format!("m=x,{text}"), ..Said::default() },
        Said { what: "a proof cut off", sent: |text| text[..text.len() - 4].to_owned(), ..Said::default() },
        Said {
            what: "no proof",
            sent: |text| text[..text.find(",p=").unwrap()].to_owned(),
            ..Said::default()
        },
    ];
    for mechanism in [Sha256, Sha512] {
        for case in &cases {
            let expected = if case.works { (0, true) } else { (FAILED, false) };
            assert_eq!(says(&server, mechanism, case).await, expected, "{mechanism:?}: {}", case.what);
        }
    }
}

/// What was overheard is of no use: each login has a nonce of its own.
#[tokio::test]
async fn messages_of_a_login_that_succeeded_are_refused_the_second_time() {
    let server = server(&[]).await;
    let mut client = server.connect().await;
    assert_eq!(handshake(&mut client, Sha256.name()).await, 0);
    let first = "n,,n=alice,r=abcdef";
    let challenge = ServerFirst::parse(&token(&mut client, first).await.unwrap().auth_bytes).unwrap();
    let last = ClientFinal {
        channel_binding: base64_of("n,,"),
        nonce: challenge.nonce.clone(),
        proof: vec![0; 32].into(),
    };
    let salted = salted(Sha256, PASSWORD, &challenge.salt, challenge.iterations);
    let (last, _) = proven(Sha256, &first[3..], &challenge, last, &salted);
    assert_eq!(token(&mut client, last.message()).await.unwrap().error_code, 0);

    let mut thief = server.connect().await;
    assert_eq!(handshake(&mut thief, Sha256.name()).await, 0);
    let again = ServerFirst::parse(&token(&mut thief, first).await.unwrap().auth_bytes).unwrap();
    assert_ne!(again.nonce, challenge.nonce, "two logins have one nonce");
    assert_eq!(token(&mut thief, last.message()).await.unwrap().error_code, FAILED);
    let mut thief = server.connect().await;
    assert_eq!(handshake(&mut thief, Sha256.name()).await, 0);
    assert_eq!(token(&mut thief, last.message()).await.unwrap().error_code, FAILED, "at once");
    assert!(thief.try_call(9, &metadata()).await.is_none());
}

/// Returns the frames of a login and of a request that creates a topic, to be sent at once.
fn together(client: &mut Client, password: &str, name: &str) -> Vec<u8> {
    let handshake = SaslHandshakeRequest { mechanism: "PLAIN".to_owned() };
    let auth_bytes = Bytes::from(format!("\0alice\0{password}"));
    let token = SaslAuthenticateRequest { auth_bytes, ..Default::default() };
    let creation =
        CreateTopicsRequest { topics: vec![topic(name, 1, &[])], timeout_ms: 5_000, ..Default::default() };
    [client.frame(1, &handshake), client.frame(2, &token), client.frame(7, &creation)].concat()
}

#[tokio::test]
async fn what_is_sent_along_with_a_login_is_carried_out_only_if_the_login_succeeds() {
    let server = server(&[]).await;
    for (password, name) in [("open barley", "never"), (PASSWORD, "made")] {
        let mut client = server.connect().await;
        let frames = together(&mut client, password, name);
        client.stream().write_all(&frames).await.unwrap();
        let (_, chosen) = client.answer::<SaslHandshakeRequest>(1).await;
        assert_eq!(chosen.error_code, 0);
        let (_, answer) = client.answer::<SaslAuthenticateRequest>(2).await;
        if name == "made" {
            assert_eq!(answer.error_code, 0);
            let (_, created) = client.answer::<CreateTopicsRequest>(7).await;
            assert_eq!(created.topics[0].error_code, 0);
        } else {
            assert_eq!(answer.error_code, FAILED);
            assert!(client.is_closed().await);
        }
    }
    let image = server.node().image();
    assert!(image.topic("never").is_none() && image.topic("made").is_some());
}

/// Whatever is asked before the login, and in its middle, the connection ends before a byte of it is read.
/// That includes requests that no server has.
#[tokio::test]
async fn no_request_of_any_api_is_answered_before_the_login() {
    const OF_LOGINS: [i16; 3] = [17, 18, 36];
    let server = server(&[]).await;
    let before = server.node().image();
    for key in (-1..=100).filter(|key| !OF_LOGINS.contains(key)) {
        for (number, version) in [0, 1, 5, 9, 13].into_iter().enumerate() {
            let mut client = server.connect().await;
            // One of them in the middle of a login.
            if number == 2 {
                assert_eq!(handshake(&mut client, Sha256.name()).await, 0);
            }
            let header =
                [&i16::to_be_bytes(key)[..], &i16::to_be_bytes(version), &[0, 0, 0, 7, 0, 0]].concat();
            let frame = [&header[..], &[0; 48]].concat();
            assert_eq!(client.raw(&frame).await, None, "key {key}, version {version}");
        }
    }
    assert!(std::sync::Arc::ptr_eq(&before, &server.node().image()));
}

/// Connects from another address of this machine.
async fn from(address: Ipv4Addr, to: SocketAddr) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((address, 0).into()).unwrap();
    Client::over(socket.connect(to).await.unwrap())
}

/// Logins that stop at each of their steps.
async fn stop_halfway(server: &TestServer) -> Vec<Client> {
    let mut all = Vec::new();
    // Nothing, half a length, a length, and half a frame.
    for bytes in [&b""[..], &[0, 0], &[0, 0, 0, 40], &[0, 0, 0, 40, 0, 17, 0, 1, 0]] {
        let mut stream = server.stream().await;
        stream.write_all(bytes).await.unwrap();
        all.push(Client::over(stream));
    }
    for first in [None, Some("n,,n=alice,r=abcdef")] {
        let mut client = server.connect().await;
        assert_eq!(handshake(&mut client, Sha256.name()).await, 0);
        if let Some(first) = first {
            assert_eq!(token(&mut client, first).await.unwrap().error_code, 0);
        }
        all.push(client);
    }
    all
}

/// Places are few here. Without a login they come free after its time, and meanwhile others are not in need
/// of them.
#[tokio::test]
async fn logins_that_stop_halfway_take_the_places_of_their_address_only_and_not_for_long() {
    let server = server(&[
        ("tailrace.kafka.logins.max", "12"),
        ("tailrace.kafka.logins.max.per.ip", "6"),
        ("tailrace.kafka.login.timeout.ms", "3000"),
    ])
    .await;
    let mut before = admin(&server).await;
    // Those that are logged in take no place.
    let began = Instant::now();
    let strangers = stop_halfway(&server).await;
    assert_eq!(strangers.len(), 6);
    let mut beyond = server.connect().await;
    let refused = beyond.try_call(1, &SaslHandshakeRequest { mechanism: "PLAIN".to_owned() }).await;
    if began.elapsed() < Duration::from_secs(3) {
        assert!(refused.is_none(), "the address has more places than it may have");
        let mut other = from(Ipv4Addr::new(127, 0, 0, 2), server.kafka()).await;
        assert_eq!(scram(&mut other, Sha256, "alice", PASSWORD).await.error_code, 0);
        assert!(other.try_call(9, &metadata()).await.is_some());
    }
    assert!(before.try_call(9, &metadata()).await.is_some());
    let name = "tailrace_kafka_connections_refused_total{reason=\"tailrace.kafka.logins.max\"}";
    assert!(began.elapsed() > Duration::from_secs(3) || server.metric(name).await >= 1.0);
    for mut stranger in strangers {
        assert!(stranger.is_closed().await);
    }
    let mut again = server.connect().await;
    assert_eq!(scram(&mut again, Sha256, "alice", PASSWORD).await.error_code, 0);
}

/// Guesses at any door slow down the next one at each, and those of another address none.
#[tokio::test]
async fn each_guess_of_an_address_waits_longer_whichever_door_it_knocks_at() {
    let server = server(&[
        ("connection.failed.authentication.delay.ms", "40"),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin;User:alice"),
    ])
    .await;
    let wait = async |client: &mut Client, mechanism: &str| {
        let began = Instant::now();
        let code = match mechanism {
            "PLAIN" => plain(client, "alice", "open barley").await.error_code,
            _ => scram(client, Sha256, "alice", "open barley").await.error_code,
        };
        assert_eq!(code, FAILED);
        began.elapsed()
    };
    for (number, mechanism) in ["PLAIN", "SCRAM", "PLAIN", "SCRAM"].into_iter().enumerate() {
        let least = Duration::from_millis(40 << number);
        let took = wait(&mut server.connect().await, mechanism).await;
        assert!(took >= least, "guess {number} took {took:?}");
    }
    // A page, which needs the same password.
    let began = Instant::now();
    let mut stream = TcpStream::connect(server.http()).await.unwrap();
    let login = base64_of("alice:open barley");
    let request =
        format!("GET /varz HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(began.elapsed() >= Duration::from_millis(40 << 4), "{:?}", began.elapsed());
    let began = Instant::now();
    let mut nats = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    nats.info().await;
    nats.send("CONNECT {\"user\":\"alice\",\"pass\":\"open barley\"}\r\n").await;
    assert_eq!(nats.until_end().await, ["-ERR 'Authorization Violation'"]);
    assert!(began.elapsed() >= Duration::from_millis(40 << 5), "{:?}", began.elapsed());
    let mut other = from(Ipv4Addr::new(127, 0, 0, 3), server.kafka()).await;
    let took = wait(&mut other, "PLAIN").await;
    assert!(took >= Duration::from_millis(40));
    // The right password is not guessed, and waits for nothing.
    assert_eq!(plain(&mut server.connect().await, "alice", PASSWORD).await.error_code, 0);
}

/// CVE-2023-25194, CVE-2025-27818 and others: settings made servers load code, and read files and addresses
/// of the client's choice. Settings that can be changed over the wire name none of these.
#[tokio::test]
async fn no_setting_that_clients_can_change_names_code_a_file_or_an_address() {
    let server = server(&[]).await;
    let mut admin = admin(&server).await;
    let broker = |name: &str| DescribeConfigsResource {
        resource_type: 4,
        resource_name: name.to_owned(),
        ..Default::default()
    };
    let described = DescribeConfigsRequest { resources: vec![broker("1")], ..Default::default() };
    let mut described = admin.call(4, &described).await.results;
    let all = described.remove(0).configs;
    assert!(all.len() > 100, "{}", all.len());
    let changeable: Vec<_> = all.iter().filter(|one| !one.read_only).map(|one| one.name.as_str()).collect();
    assert!(changeable.len() > 10, "{changeable:?}");
    for name in &changeable {
        let words: Vec<_> = name.split('.').collect();
        let named = [
            "file",
            "class",
            "url",
            "path",
            "dir",
            "dirs",
            "jaas",
            "config",
            "command",
            "location",
            "key",
            "secret",
            "password",
            "users",
            "listen",
            "listeners",
            "host",
            "origins",
            "operator",
        ];
        assert!(!named.iter().any(|word| words.contains(word)), "{name} can be changed over the wire");
    }
    for name in [
        "sasl.jaas.config",
        "listener.name.kafka.scram-sha-256.sasl.jaas.config",
        "sasl.server.callback.handler.class",
        "sasl.login.class",
        "principal.builder.class",
        "authorizer.class.name",
        "metric.reporters",
        "ssl.keystore.location",
        "ssl.engine.factory.class",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.expected.issuer",
        "super.users",
        "tailrace.first.user",
        "tailrace.kafka.authentication",
        "tailrace.nats.users.file",
        "tailrace.nats.operator.file",
        "tailrace.audit.log.file",
        "tailrace.tls.key.file",
        "delegation.token.secret.key",
        "data.dir",
        "log.dirs",
    ] {
        for node in ["", "1"] {
            let change = AlterableConfig {
                name: name.to_owned(),
                value: Some("com.sun.security.auth.module.JndiLoginModule required;".to_owned()),
                ..Default::default()
            };
            let resource = AlterConfigsResource {
                resource_type: 4,
                resource_name: node.to_owned(),
                configs: vec![change],
                ..Default::default()
            };
            let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
            let before = server.node().image();
            let answer = admin.call(1, &request).await.responses.remove(0);
            assert_ne!(answer.error_code, 0, "{name} of node {node:?} was changed");
            assert!(std::sync::Arc::ptr_eq(&before, &server.node().image()), "{name}");
        }
    }
}

/// Names that would lead out of a folder are none of a topic, and names that may be anything are in no path.
#[tokio::test]
async fn names_do_not_become_paths() {
    let mut server = server(&[]).await;
    let mut admin = admin(&server).await;
    for name in ["..", ".", "../x", "a/b", "a\\b", "/etc/x", "a\0b", ""] {
        let request = CreateTopicsRequest { topics: vec![topic(name, 1, &[])], ..Default::default() };
        assert_ne!(admin.call(7, &request).await.topics[0].error_code, 0, "{name:?}");
    }
    let climbing = "../../../climbed";
    add_user(&mut admin, climbing, Sha256, PASSWORD).await;
    admin.create_topic("t", 1, &[]).await;
    let mut user = server.connect().await;
    assert_eq!(plain(&mut user, climbing, PASSWORD).await.error_code, 0);
    drop((admin, user));
    server.stop().await;
    let folder = server.data();
    let mut found = vec![folder.parent().unwrap().to_owned()];
    let mut names = Vec::new();
    while let Some(path) = found.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            names.push(entry.file_name().to_string_lossy().into_owned());
            if entry.file_type().unwrap().is_dir() {
                found.push(entry.path());
            }
        }
    }
    assert!(names.iter().any(|name| name == "t-0" || name.starts_with("t-")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("climbed")), "{names:?}");
    for above in folder.ancestors().skip(1).take(3) {
        assert!(!above.join("climbed").exists());
    }
}

/// A certificate that has expired, or that is not valid yet, names nobody at any door.
#[tokio::test]
async fn certificates_count_between_their_times_only() {
    let authority = Authority::new();
    authority.issue_valid("now", ClientAuth, (2020, 2090));
    authority.issue_valid("expired", ClientAuth, (2020, 2021));
    authority.issue_valid("early", ClientAuth, (2089, 2090));
    let settings = authority.settings(&[
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:CN=test"),
        ("tailrace.kafka.tls", "true"),
        ("tailrace.http.tls", "true"),
        ("tailrace.nats.tls", "required"),
        ("tailrace.nats.tls.handshake.first", "true"),
        ("tailrace.tls.client.auth", "required"),
    ]);
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let server = TestServer::with(&settings).await;
    for (name, expected) in [("now", true), ("expired", false), ("early", false)] {
        for (door, address) in [("kafka", server.kafka()), ("nats", server.nats()), ("http", server.http())] {
            let stream = TcpStream::connect(address).await.unwrap();
            let config = authority.client(Some((&authority, name)));
            assert_eq!(is_let_in(config, stream, door).await, expected, "{name} at {door}");
        }
    }
}

/// With TLS 1.3 a client hears of the refusal only when it reads.
async fn is_let_in(config: std::sync::Arc<rustls::ClientConfig>, stream: TcpStream, door: &str) -> bool {
    use tokio::io::AsyncReadExt;
    let Ok(mut stream) = certificates::handshake(config, stream).await else { return false };
    if door == "kafka" {
        return Client::over(stream).try_call(9, &metadata()).await.is_some();
    }
    let asked = if door == "http" { "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" } else { "" };
    let _ = stream.write_all(asked.as_bytes()).await;
    matches!(stream.read_u8().await, Ok(b'I' | b'H'))
}
