//! Logins and refusals of NATS clients in the file of the audit log: with users of a file, claims, and a
//! callout.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::callout;
use crate::common::TestServer;
use crate::common::lines::Lines;
use crate::operator::{self, World};

/// Everything that clients present and nobody else may see.
const SECRET: &str = "open-sesame";

struct Log {
    _folder: TempDir,
    path: PathBuf,
}

impl Log {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("audit.log");
        Self { _folder: folder, path }
    }

    fn setting(&self) -> (&'static str, &str) {
        ("tailrace.audit.log.file", self.path.to_str().unwrap())
    }

    /// Stops the server, and returns its events.
    async fn events(&self, mut server: TestServer) -> Vec<Value> {
        server.stop().await;
        let text = read(&self.path);
        assert!(!text.contains(SECRET), "{text}");
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["door"] == "nats").collect()
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Returns `event outcome principal mechanism` of logins, in order.
fn logins(events: &[Value]) -> Vec<String> {
    let text = |event: &Value, member: &str| event[member].as_str().unwrap_or_default().to_owned();
    let logins = events.iter().filter(|event| event["event"] == "login");
    logins
        .map(|event| ["outcome", "principal", "mechanism"].map(|member| text(event, member)).join(" "))
        .collect()
}

fn reasons(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["reason"].as_str()).collect()
}

async fn open(server: &TestServer) -> (Lines<TcpStream>, String) {
    let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    let info = lines.info().await;
    (lines, info["nonce"].as_str().unwrap_or_default().to_owned())
}

async fn connect(server: &TestServer, mut options: Value) -> Lines<TcpStream> {
    let (mut lines, _) = open(server).await;
    options["verbose"] = false.into();
    lines.send(&format!("CONNECT {options}\r\n")).await;
    lines
}

async fn refused(server: &TestServer, options: Value) {
    assert_eq!(connect(server, options).await.until_end().await, ["-ERR 'Authorization Violation'"]);
}

#[tokio::test]
async fn users_of_the_file_are_there_with_what_they_may_not_do() {
    let (log, pair) = (Log::new(), KeyPair::new_user());
    let key = pair.public_key();
    let users = format!(
        "no_auth_user = 'guest'\n[[users]]\nuser = 'guest'\npassword = '{SECRET}-guest'\n\
         [[users]]\nuser = 'alice'\npassword = '{SECRET}'\npublish = {{ deny = ['secret.>'] }}\n\
         subscribe = {{ allow = ['open', 'jobs workers'] }}\n[[users]]\nnkey = '{key}'\n"
    );
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("users.toml");
    std::fs::write(&path, users).unwrap();
    let server =
        TestServer::with(&[("tailrace.nats.users.file", path.to_str().unwrap()), log.setting()]).await;
    let mut alice = connect(&server, json!({ "user": "alice", "pass": SECRET })).await;
    alice.send("PUB secret.x 1\r\n!\r\nSUB closed 1\r\nSUB jobs others 2\r\nSUB open 3\r\n").await;
    alice.until_pong().await;
    let (mut signer, nonce) = open(&server).await;
    let sig = URL_SAFE_NO_PAD.encode(pair.sign(nonce.as_bytes()).unwrap());
    signer.send(&format!("CONNECT {}\r\n", json!({ "verbose": false, "nkey": key, "sig": sig }))).await;
    signer.until_pong().await;
    // A guest has not logged in.
    connect(&server, json!({})).await.until_pong().await;
    refused(&server, json!({ "user": "alice", "pass": format!("{SECRET}x") })).await;
    refused(&server, json!({ "user": "bob", "pass": SECRET })).await;
    refused(&server, json!({ "nkey": key, "sig": sig })).await;
    // A seed where a public key belongs.
    refused(&server, json!({ "nkey": format!("SU{SECRET}"), "sig": sig })).await;
    let events = log.events(server).await;
    assert_eq!(
        logins(&events),
        [
            "succeeded User:alice NATS".to_owned(),
            format!("succeeded User:{key} NATS-NKEY"),
            "failed User:ANONYMOUS NATS".to_owned(),
            "failed User:ANONYMOUS NATS".to_owned(),
            "failed User:ANONYMOUS NATS-NKEY".to_owned(),
            "failed User:ANONYMOUS NATS-NKEY".to_owned(),
        ]
    );
    let refusals: Vec<_> = events.iter().filter(|event| event["event"] == "refusal").collect();
    let found: Vec<_> =
        refusals.iter().map(|event| format!("{} {}", event["operation"], event["name"])).collect();
    assert_eq!(found, ["\"write\" \"secret.x\"", "\"read\" \"closed\"", "\"read\" \"jobs\""]);
    for event in &refusals {
        assert_eq!((&event["principal"], &event["address"]), (&"User:alice".into(), &"127.0.0.1".into()));
        assert_eq!((&event["resource"], &event["outcome"]), (&"subject".into(), &"refused".into()));
    }
    let reasons = reasons(&events);
    assert!(reasons.contains(&"user alice: its password or token is wrong"), "{reasons:?}");
    assert!(reasons.contains(&"user bob: it presented an unknown user or key"), "{reasons:?}");
}

#[tokio::test]
async fn a_client_that_does_not_begin_with_connect_or_has_no_place_is_there() {
    let log = Log::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("users.toml");
    let users = format!(
        "[[accounts]]\nname = 'A'\nmax_connections = 1\n[[users]]\nuser = 'alice'\npassword = '{SECRET}'\naccount = 'A'\n"
    );
    std::fs::write(&path, users).unwrap();
    let server =
        TestServer::with(&[("tailrace.nats.users.file", path.to_str().unwrap()), log.setting()]).await;
    let (mut early, _) = open(&server).await;
    early.send("PUB x 0\r\n\r\n").await;
    early.until_end().await;
    let mut first = connect(&server, json!({ "user": "alice", "pass": SECRET })).await;
    first.until_pong().await;
    connect(&server, json!({ "user": "alice", "pass": SECRET })).await.until_end().await;
    let events = log.events(server).await;
    let expected = ["failed User:ANONYMOUS NATS", "succeeded User:alice NATS", "failed User:ANONYMOUS NATS"];
    assert_eq!(logins(&events), expected);
    let expected =
        ["it did not begin with CONNECT", "user alice: its account has as many connections as it may have"];
    assert_eq!(reasons(&events), expected);
}

#[tokio::test]
async fn the_shared_token_is_there_and_what_is_wrong_with_it() {
    let log = Log::new();
    let server = TestServer::with(&[("tailrace.nats.token", SECRET), log.setting()]).await;
    connect(&server, json!({ "auth_token": SECRET })).await.until_pong().await;
    refused(&server, json!({ "auth_token": format!("{SECRET}x") })).await;
    refused(&server, json!({})).await;
    let events = log.events(server).await;
    let failed = "failed User:ANONYMOUS";
    let expected = [
        "succeeded User:token NATS-TOKEN".to_owned(),
        format!("{failed} NATS-TOKEN"),
        format!("{failed} NATS"),
    ];
    assert_eq!(logins(&events), expected);
    assert_eq!(reasons(&events), ["its password or token is wrong", "it presented no credentials"]);
}

#[tokio::test]
async fn users_of_claims_are_there_by_account_and_key() {
    let (log, world) = (Log::new(), World::new());
    let server = world.start(json!({}), &[log.setting()]).await;
    let (user, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let jwt = world.user(&user, json!({}), json!({}));
    let expired = world.user(&user, json!({}), json!({ "exp": operator::now_s() - 1 }));
    operator::login(&server, &jwt, &user).await;
    for (jwt, signer) in [(&jwt, Some(&stranger)), (&jwt, None), (&expired, Some(&user))] {
        operator::connect(&server, jwt, signer).await.until_end().await;
    }
    refused(&server, json!({ "user": "alice", "pass": SECRET })).await;
    refused(&server, json!({ "jwt": SECRET })).await;
    let events = log.events(server).await;
    let name = format!("{}/{}", world.account.public_key(), user.public_key());
    let mut expected = vec![format!("succeeded User:{name} NATS-JWT")];
    expected.extend(vec!["failed User:ANONYMOUS NATS-JWT".to_owned(); 5]);
    assert_eq!(logins(&events), expected);
    let reasons = reasons(&events);
    for reason in ["its signature does not match", "it has not signed the nonce", "its token has expired"] {
        let expected = format!("user {name}: {reason}");
        assert!(reasons.iter().any(|found| found.starts_with(&expected)), "{expected}: {reasons:?}");
    }
    assert_eq!(reasons[3], "it presented no credentials");
    // No part of a token is there.
    let text = read(&log.path);
    assert!(!text.contains(jwt.split('.').nth(1).unwrap()) && !text.contains("eyJ"), "{text}");
}

#[tokio::test]
async fn what_a_callout_decides_is_there_once() {
    let (log, issuer, folder) = (Log::new(), KeyPair::new_account(), TempDir::new().unwrap());
    let server = callout::server(&issuer, &folder, &[log.setting()]).await;
    let alice = format!("\"user\":\"alice\",\"pass\":\"{SECRET}\"");
    callout::connect(&server, &alice).await.until_end().await;
    let mut service = callout::connect(&server, "\"user\":\"auth\",\"pass\":\"p\"").await;
    service.send("SUB $SYS.REQ.USER.AUTH 1\r\n").await;
    service.until_pong().await;
    for wrong in [true, false] {
        let mut client = callout::connect(&server, &alice).await;
        let (asked, reply) = callout::question(&mut service).await;
        let says = match wrong {
            true => json!({ "error": "no such user" }),
            false => json!({ "jwt": callout::user(&issuer, &asked, "APP") }),
        };
        callout::say(&mut service, &reply, &callout::answer(&issuer, &asked, says)).await;
        if wrong { drop(client.until_end().await) } else { drop(client.until_pong().await) }
    }
    // Nobody answers.
    callout::connect(&server, &alice).await.until_end().await;
    let events = log.events(server).await;
    assert_eq!(
        logins(&events),
        [
            "failed User:ANONYMOUS NATS-CALLOUT",
            "succeeded User:auth NATS",
            "failed User:ANONYMOUS NATS-CALLOUT",
            "succeeded User:APP/alice NATS-CALLOUT",
            "failed User:ANONYMOUS NATS-CALLOUT",
        ]
    );
    assert_eq!(
        reasons(&events),
        [
            "user alice: the callout's service is not connected",
            "user alice: the service refuses: \"no such user\"",
            "user alice: nothing was decided within tailrace.nats.auth.timeout.ms",
        ]
    );
}

/// The bounds are those of all events: of one kind, address and user, 20 in a window.
#[tokio::test]
async fn a_flood_of_failed_logins_and_refusals_is_bounded() {
    let log = Log::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("users.toml");
    let users = format!("[[users]]\nuser = 'alice'\npassword = '{SECRET}'\npublish = {{ deny = ['no'] }}\n");
    std::fs::write(&path, users).unwrap();
    let server =
        TestServer::with(&[("tailrace.nats.users.file", path.to_str().unwrap()), log.setting()]).await;
    let mut alice = connect(&server, json!({ "user": "alice", "pass": SECRET })).await;
    alice.send(&"PUB no 0\r\n\r\n".repeat(2_000)).await;
    assert_eq!(alice.until_pong().await.len(), 2_000);
    for _ in 0..60 {
        refused(&server, json!({ "user": "alice" })).await;
    }
    let written = server.metric("tailrace_audit_events_total{result=\"left_out\"}").await;
    assert!(written >= 2_000.0, "{written}");
    let events = log.events(server).await;
    let count = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    // At most one more window, if the machine is slow.
    assert!(count("refusal") <= 40 && count("login") <= 41, "{} {}", count("refusal"), count("login"));
}
