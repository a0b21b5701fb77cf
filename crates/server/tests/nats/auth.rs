//! Which clients may connect to the NATS listener, and what they may do there: with `async-nats`, and line by
//! line.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::TestServer;
use crate::common::lines::Lines;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerError};
use futures_util::StreamExt;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

const VIOLATION: &str = "-ERR 'Authorization Violation'";

struct WithUsers {
    server: TestServer,
    _folder: TempDir,
}

async fn with_users(users: &str, more: &[(&str, &str)]) -> WithUsers {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), users);
    let settings = [&[("tailrace.nats.users.file", path.as_str())], more].concat();
    WithUsers { server: TestServer::with(&settings).await, _folder: folder }
}

fn write(folder: &Path, users: &str) -> String {
    let path = folder.join("users.toml");
    std::fs::write(&path, users).unwrap();
    path.display().to_string()
}

async fn connect(server: &TestServer, options: ConnectOptions) -> Result<Client, ConnectErrorKind> {
    let options = options.connection_timeout(Duration::from_secs(5));
    options.connect(format!("nats://{}", server.nats())).await.map_err(|error| error.kind())
}

fn user(name: &str, password: &str) -> ConnectOptions {
    ConnectOptions::with_user_and_password(name.to_owned(), password.to_owned())
}

async fn lines(server: &TestServer) -> Lines<TcpStream> {
    let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    lines.info().await;
    lines
}

/// Returns what the server answers to this first line, up to the end of the connection.
async fn refusal(server: &TestServer, first: &str) -> Vec<String> {
    let mut lines = lines(server).await;
    lines.send(first).await;
    lines.until_end().await
}

async fn login(server: &TestServer, name: &str) -> Lines<TcpStream> {
    let mut lines = lines(server).await;
    let options = format!("{{\"verbose\":false,\"user\":\"{name}\",\"pass\":\"p\",\"headers\":true}}");
    lines.send(&format!("CONNECT {options}\r\n")).await;
    assert!(lines.until_pong().await.is_empty());
    lines
}

async fn works(client: &Client) {
    let mut subscription = client.subscribe("works").await.unwrap();
    client.publish("works", "yes".into()).await.unwrap();
    let message = tokio::time::timeout(Duration::from_secs(5), subscription.next()).await.unwrap().unwrap();
    assert_eq!(&message.payload[..], b"yes");
}

#[tokio::test]
async fn a_user_of_the_settings_and_nobody_else() {
    let settings = [("tailrace.nats.user", "alice"), ("tailrace.nats.password", "s3sam open")];
    let server = TestServer::with(&settings).await;
    works(&connect(&server, user("alice", "s3sam open")).await.unwrap()).await;
    for options in [
        ConnectOptions::new(),
        user("alice", "s3sam"),
        user("alice", ""),
        user("bob", "s3sam open"),
        ConnectOptions::with_token("s3sam open".to_owned()),
        ConnectOptions::with_nkey(nkeys::KeyPair::new_user().seed().unwrap()),
    ] {
        let found = connect(&server, options).await.unwrap_err();
        assert!(
            matches!(found, ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication),
            "{found:?}"
        );
    }
    let mut asked = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    let info = asked.info().await;
    assert_eq!((&info["auth_required"], info.get("nonce")), (&true.into(), None));
    // Nothing that follows a refusal is carried out.
    let mut watching = lines(&server).await;
    watching
        .send("CONNECT {\"verbose\":false,\"user\":\"alice\",\"pass\":\"s3sam open\"}\r\nSUB > 1\r\n")
        .await;
    watching.until_pong().await;
    let wrong = "CONNECT {\"user\":\"alice\",\"pass\":\"x\"}\r\nPUB a 1\r\nx\r\nPING\r\n";
    assert_eq!(refusal(&server, wrong).await, [VIOLATION]);
    assert_eq!(refusal(&server, "PUB a 1\r\nx\r\n").await, [VIOLATION]);
    assert!(watching.until_pong().await.is_empty());
}

/// The server accepts nothing from a client that has not identified itself. The first byte that cannot start
/// a CONNECT ends the connection.
#[tokio::test]
async fn what_comes_before_connect_is_not_waited_for() {
    let settings = [("tailrace.nats.user", "alice"), ("tailrace.nats.password", "s3sam open")];
    let server = TestServer::with(&settings).await;
    for first in ["PUB a 1048576\r\n", "P", "\r\n", "SUB > 1"] {
        assert_eq!(refusal(&server, first).await, ["-ERR 'Authorization Violation'"], "{first:?}");
    }
}

#[tokio::test]
async fn a_token() {
    let server = TestServer::with(&[("tailrace.nats.token", "t0ken")]).await;
    works(&connect(&server, ConnectOptions::with_token("t0ken".to_owned())).await.unwrap()).await;
    for first in [
        "CONNECT {}\r\n",
        "CONNECT {\"auth_token\":\"token\"}\r\n",
        "CONNECT {\"auth_token\":\"\"}\r\n",
        "CONNECT {\"user\":\"t0ken\"}\r\n",
        "CONNECT {\"user\":\"t0ken\",\"pass\":\"t0ken\"}\r\n",
    ] {
        assert_eq!(refusal(&server, first).await, [VIOLATION], "{first}");
    }
}

#[tokio::test]
async fn an_nkey_signs_the_nonce_of_its_connection() {
    let pair = nkeys::KeyPair::new_user();
    let server = TestServer::with(&[("tailrace.nats.nkey", &pair.public_key())]).await;
    works(&connect(&server, ConnectOptions::with_nkey(pair.seed().unwrap())).await.unwrap()).await;
    let stranger = nkeys::KeyPair::new_user().seed().unwrap();
    assert!(connect(&server, ConnectOptions::with_nkey(stranger)).await.is_err());
    // An intercepted signature does not open another connection.
    let sign = |nonce: &str| {
        use base64::Engine;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(pair.sign(nonce.as_bytes()).unwrap())
    };
    let mut nonces = Vec::new();
    let mut connect_line = String::new();
    for attempt in 0..2 {
        let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
        let info = lines.info().await;
        nonces.push(info["nonce"].as_str().unwrap().to_owned());
        if attempt == 0 {
            let sig = sign(&nonces[0]);
            connect_line = format!(
                "CONNECT {{\"verbose\":false,\"nkey\":\"{}\",\"sig\":\"{sig}\"}}\r\n",
                pair.public_key()
            );
            lines.send(&connect_line).await;
            assert!(lines.until_pong().await.is_empty());
        } else {
            lines.send(&connect_line).await;
            assert_eq!(lines.until_end().await, [VIOLATION]);
        }
    }
    assert_ne!(nonces[0], nonces[1]);
}

#[tokio::test]
async fn passwords_kept_as_bcrypt_and_a_hundred_clients_at_once() {
    let hash = bcrypt::hash("s3sam", 5).unwrap();
    let users = format!("[[users]]\nuser = \"alice\"\npassword = \"{hash}\"\n");
    let with = with_users(&users, &[("tailrace.nats.auth.timeout.ms", "20000")]).await;
    let server = &with.server;
    let clients =
        (0..100).map(|_| async move { works(&connect(server, user("alice", "s3sam")).await.unwrap()).await });
    futures_util::future::join_all(clients).await;
    assert_eq!(
        connect(server, user("alice", &hash)).await.unwrap_err(),
        ConnectErrorKind::AuthorizationViolation
    );
}

#[tokio::test]
async fn a_password_that_takes_too_long_to_check_is_a_timeout() {
    // At this cost, a check takes seconds in a test build.
    let hash = "$2b$14$abcdefghijklmnopqrstuu7MZNGM1jGgq5SI0.Wf9dnvSJbxHZp2O";
    let users = format!("[[users]]\nuser = \"alice\"\npassword = \"{hash}\"\n");
    let with = with_users(&users, &[("tailrace.nats.auth.timeout.ms", "300")]).await;
    let began = Instant::now();
    let said = refusal(&with.server, "CONNECT {\"user\":\"alice\",\"pass\":\"x\"}\r\n").await;
    assert_eq!(said, ["-ERR 'Authentication Timeout'"]);
    assert!(began.elapsed() < Duration::from_secs(5));
    // Other clients are not held up.
    let began = Instant::now();
    let silent = refusal(&with.server, "").await;
    assert_eq!(silent, ["-ERR 'Authentication Timeout'"]);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

const USERS: &str = r#"
no_auth_user = "guest"

[[users]]
user = "guest"
password = "not known"
publish = { allow = ["public.>"] }
subscribe = { allow = ["public.>"] }

[[users]]
user = "admin"
password = "p"

[[users]]
user = "worker"
password = "p"
publish = { deny = [">"] }
subscribe = { allow = ["jobs.> workers", "jobs.free"], deny = ["jobs.secret"] }

[[users]]
user = "reader"
password = "p"
subscribe = { deny = ["data.hidden", "data.*.hidden", "data.q hiders"] }

[[users]]
user = "service"
password = "p"
subscribe = { allow = ["service.>"] }
allow_responses = { max = 2, expires = "300ms" }
"#;

#[tokio::test]
async fn what_is_not_allowed_is_refused_with_nats_servers_words() {
    let with = with_users(USERS, &[]).await;
    let mut worker = login(&with.server, "worker").await;
    for (line, said) in [
        ("SUB jobs.a workers 1", None),
        ("SUB jobs.a 2", Some("Subscription to \"jobs.a\"")),
        ("SUB jobs.a others 3", Some("Subscription to \"jobs.a\" using queue \"others\"")),
        ("SUB jobs.free 4", None),
        // As in nats-server, a named queue group must be one of the permitted groups.
        ("SUB jobs.free others 5", Some("Subscription to \"jobs.free\" using queue \"others\"")),
        ("SUB jobs.secret workers 6", Some("Subscription to \"jobs.secret\" using queue \"workers\"")),
        ("SUB > 7", Some("Subscription to \">\"")),
        ("PUB any 1\r\nx", Some("Publish to \"any\"")),
        ("HPUB any 12 13\r\nNATS/1.0\r\n\r\nx", Some("Publish to \"any\"")),
    ] {
        worker.send(&format!("{line}\r\n")).await;
        let expected = said.map(|said| format!("-ERR 'Permissions Violation for {said}'"));
        assert_eq!(worker.until_pong().await, Vec::from_iter(expected), "{line}");
    }
}

#[tokio::test]
async fn a_deny_within_a_wildcard_holds_back_what_would_be_delivered() {
    let with = with_users(USERS, &[]).await;
    let mut reader = login(&with.server, "reader").await;
    reader.send("SUB data.> 1\r\nSUB data.* hiders 2\r\nSUB data.* others 3\r\nSUB > 4\r\n").await;
    reader.send("SUB data.hidden 5\r\nSUB data.q hiders 6\r\n").await;
    assert_eq!(
        reader.until_pong().await,
        [
            "-ERR 'Permissions Violation for Subscription to \"data.hidden\"'",
            "-ERR 'Permissions Violation for Subscription to \"data.q\" using queue \"hiders\"'"
        ]
    );
    let mut admin = login(&with.server, "admin").await;
    let got = |lines: Vec<String>| {
        let mut sids: Vec<_> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("MSG ")?.split(' ').nth(1).map(str::to_owned))
            .collect();
        sids.sort();
        sids.join(" ")
    };
    for (subject, expected) in [
        ("data.hidden", ""),
        ("data.x.hidden", ""),
        ("data.x.open", "1 4"),
        ("data.open", "1 2 3 4"),
        ("data.q", "1 3 4"),
    ] {
        admin.send(&format!("PUB {subject} 0\r\n\r\n")).await;
        admin.until_pong().await;
        assert_eq!(got(reader.until_pong().await), expected, "{subject}");
    }
}

#[tokio::test]
async fn a_service_answers_what_it_was_asked_and_nothing_else() {
    let with = with_users(USERS, &[]).await;
    let (service, admin) = (
        connect(&with.server, user("service", "p")).await.unwrap(),
        connect(&with.server, user("admin", "p")).await.unwrap(),
    );
    let mut requests = service.subscribe("service.echo").await.unwrap();
    service.flush().await.unwrap();
    let serving = tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            service.publish(request.reply.unwrap(), request.payload).await.unwrap();
        }
    });
    for number in 0..100 {
        let text = format!("request {number}");
        let answer = admin.request("service.echo", text.clone().into()).await.unwrap();
        assert_eq!(answer.payload, text.as_bytes());
    }
    serving.abort();

    let mut service = login(&with.server, "service").await;
    service.send("SUB service.raw 1\r\n").await;
    service.until_pong().await;
    let mut asking = login(&with.server, "admin").await;
    asking
        .send("SUB answers.> 1\r\nPUB service.raw answers.1 0\r\n\r\nPUB service.raw answers.2 0\r\n\r\n")
        .await;
    asking.until_pong().await;
    assert_eq!(service.line().await.unwrap(), "MSG service.raw 1 answers.1 0\r\n");
    let violation = |subject: &str| format!("-ERR 'Permissions Violation for Publish to \"{subject}\"'");
    service.send("PUB answers.1 1\r\na\r\nPUB answers.1 1\r\nb\r\nPUB answers.1 1\r\nc\r\nPUB elsewhere 1\r\nd\r\n").await;
    let said: Vec<_> = service.until_pong().await.into_iter().filter(|line| line.starts_with('-')).collect();
    assert_eq!(said, [violation("answers.1"), violation("elsewhere")]);
    // The permission to answer must expire. Nothing reports that it has.
    tokio::time::sleep(Duration::from_millis(400)).await;
    service.send("PUB answers.2 1\r\nx\r\n").await;
    assert_eq!(service.until_pong().await, [violation("answers.2")]);
    let got: Vec<_> = asking.until_pong().await.into_iter().filter(|line| line.len() == 1).collect();
    assert_eq!(got, ["a", "b"]);
}

#[tokio::test]
async fn a_client_without_credentials_is_the_guest_even_without_a_connect() {
    let with = with_users(USERS, &[]).await;
    let mut asked = Lines::over(TcpStream::connect(with.server.nats()).await.unwrap());
    assert_eq!(asked.info().await.get("auth_required"), None);
    let guest = connect(&with.server, ConnectOptions::new()).await.unwrap();
    let mut public = guest.subscribe("public.>").await.unwrap();
    guest.publish("public.a", "hello".into()).await.unwrap();
    assert_eq!(&public.next().await.unwrap().payload[..], b"hello");
    asked.send("PUB private 1\r\nx\r\n").await;
    let said = asked.until_pong().await;
    assert_eq!(said, ["+OK", "-ERR 'Permissions Violation for Publish to \"private\"'"][1..], "{said:?}");
    assert_eq!(refusal(&with.server, "CONNECT {\"user\":\"guest\"}\r\n").await, [VIOLATION]);
}

#[tokio::test]
async fn async_nats_learns_of_permission_errors_and_stays_connected() {
    let with = with_users(USERS, &[]).await;
    let (events, mut heard) = mpsc::unbounded_channel();
    let options = user("service", "p").event_callback(move |event| {
        let events = events.clone();
        async move { drop(events.send(event)) }
    });
    let client = connect(&with.server, options).await.unwrap();
    client.publish("not.mine", "x".into()).await.unwrap();
    client.flush().await.unwrap();
    let deadline = Duration::from_secs(5);
    loop {
        let event = tokio::time::timeout(deadline, heard.recv()).await.unwrap().unwrap();
        if let Event::ServerError(ServerError::Other(text)) = event {
            assert!(
                text.to_lowercase().contains("permissions violation for publish to \"not.mine\""),
                "{text}"
            );
            break;
        }
    }
    assert_eq!(client.connection_state(), async_nats::connection::State::Connected);
}

#[tokio::test]
async fn secrets_are_shown_to_nobody() {
    let settings = [("tailrace.nats.user", "alice"), ("tailrace.nats.password", "s3sam")];
    let server = TestServer::with(&settings).await;
    let _client = connect(&server, user("alice", "s3sam")).await.unwrap();
    for page in ["/", "/healthz", "/metrics", "/varz", "/connz?auth=1&subs=1"] {
        let (status, body) = server.get(page).await;
        assert_eq!(status, 200, "{page}: {body}");
        assert!(!body.contains("s3sam"), "{page}: {body}");
        assert_eq!(
            body.contains("alice"),
            page.starts_with("/connz"),
            "{page} shows who is connected: {body}"
        );
    }
    let mut kafka = server.connect().await;
    let resource = tailrace_kafka_wire::messages::describe_configs_request::DescribeConfigsResource {
        resource_type: 4,
        resource_name: "1".to_owned(),
        ..Default::default()
    };
    let request = tailrace_kafka_wire::messages::DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        ..Default::default()
    };
    let answer = kafka.call(4, &request).await;
    let configs = &answer.results[0].configs;
    let password = configs.iter().find(|config| config.name == "tailrace.nats.password").unwrap();
    assert!(password.is_sensitive && password.value.is_none());
    assert!(!format!("{answer:?}").contains("s3sam"));
}
