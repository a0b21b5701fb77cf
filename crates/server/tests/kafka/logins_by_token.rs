//! Logins of Kafka clients with a token (OAUTHBEARER): what counts, how a refusal is told, and how a session
//! ends with its token.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tailrace_kafka_wire::messages::{
    CreateTopicsRequest, MetadataRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
};
use tailrace_server::{Startup, start};
use tempfile::TempDir;

use crate::common::issuer::{Issuer, claims, encoded, now};
use crate::common::logins::{handshake, token};
use crate::common::{Client, TestServer, local_disk, topic};

const FAILED: i16 = 58;
const REFUSED: &str = r#"{"status":"invalid_token"}"#;
const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

fn message(token: &str) -> Bytes {
    format!("n,,\x01auth=Bearer {token}\x01\x01").into()
}

/// Settings of logins with tokens only, and the file of keys.
fn settings(folder: &TempDir, issuer: &Issuer) -> (Vec<(&'static str, String)>, PathBuf) {
    let file = folder.path().join("keys.json");
    std::fs::write(&file, issuer.keys()).unwrap();
    let settings = [
        ("tailrace.kafka.authentication", "required".to_owned()),
        ("sasl.enabled.mechanisms", "OAUTHBEARER".to_owned()),
        ("sasl.oauthbearer.jwks.endpoint.url", format!("file://{}", file.display())),
        ("sasl.oauthbearer.expected.issuer", "https://idp".to_owned()),
        ("sasl.oauthbearer.expected.audience", "kafka,events".to_owned()),
    ];
    (settings.into(), file)
}

/// A server, its identity provider, and the file of keys.
struct Rig {
    server: TestServer,
    issuer: Issuer,
    file: PathBuf,
    _folder: TempDir,
}

impl Rig {
    async fn new(more: &[(&str, &str)]) -> Self {
        let (folder, issuer) = (TempDir::new().unwrap(), Issuer::new("one"));
        let (settings, file) = settings(&folder, &issuer);
        let mut all: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        all.extend_from_slice(more);
        Self { server: TestServer::with(&all).await, issuer, file, _folder: folder }
    }

    /// Logs in with a token. Returns the client, and the answer to its first message.
    async fn log_in(&self, text: &str) -> (Client, SaslAuthenticateResponse) {
        let mut client = self.server.connect().await;
        let answer = log_in(&mut client, text).await;
        (client, answer)
    }
}

async fn log_in(client: &mut Client, text: &str) -> SaslAuthenticateResponse {
    assert_eq!(handshake(client, "OAUTHBEARER").await, 0);
    token(client, message(text)).await.unwrap()
}

async fn is_served(client: &mut Client) -> bool {
    client.try_call(9, &MetadataRequest { topics: None, ..Default::default() }).await.is_some()
}

/// Creates a topic, and returns the error.
async fn create(client: &mut Client, name: &str) -> i16 {
    let request = CreateTopicsRequest { topics: vec![topic(name, 1, &[])], ..Default::default() };
    client.call(7, &request).await.topics[0].error_code
}

#[tokio::test]
async fn a_token_names_its_user_with_the_prefix() {
    let rules = [
        ("authorizer.class.name", AUTHORIZER),
        ("super.users", "User:idp:orders;User:admin"),
        ("nats", "off"),
        ("tailrace.nats.websocket", "false"),
        ("tailrace.oauthbearer.name.prefix", "idp:"),
    ];
    let rig = Rig::new(&rules).await;
    let (mut client, answer) = rig.log_in(&rig.issuer.token(&claims("orders", 600))).await;
    assert_eq!((answer.error_code, answer.auth_bytes.len()), (0, 0), "{:?}", answer.error_message);
    assert!((590_000..=600_000).contains(&answer.session_lifetime_ms), "{}", answer.session_lifetime_ms);
    assert_eq!(create(&mut client, "t").await, 0);
    let (mut client, answer) = rig.log_in(&rig.issuer.token(&claims("admin", 600))).await;
    assert_eq!(answer.error_code, 0);
    assert_ne!(create(&mut client, "u").await, 0, "this is idp:admin");
}

#[tokio::test]
async fn a_refused_token_is_told_in_json_and_then_the_login_fails() {
    let rig = Rig::new(&[]).await;
    let changed = |claim: &str, value: Value| {
        let mut claims = claims("orders", 600);
        claims[claim] = value;
        rig.issuer.token(&claims)
    };
    let valid = rig.issuer.token(&claims("orders", 600));
    let unsigned = encoded(json!({ "alg": "none" }).to_string());
    let payload = valid.split('.').nth(1).unwrap();
    for (what, text) in [
        ("another key", Issuer::new("one").token(&claims("orders", 600))),
        ("an unknown key", Issuer::new("two").token(&claims("orders", 600))),
        ("another issuer", changed("iss", json!("https://other"))),
        ("another audience", changed("aud", json!("orders"))),
        ("expired", changed("exp", json!(now() - 60))),
        ("expired within the clock skew", changed("exp", json!(now() - 5))),
        ("issued in the future", changed("iat", json!(now() + 300))),
        ("a name that no user may have", changed("sub", json!("ANONYMOUS"))),
        ("no signature", format!("{unsigned}.{payload}.AA")),
        ("truncated", valid[..valid.len() - 4].to_owned()),
        ("not a token", "abc".to_owned()),
    ] {
        let (mut client, answer) = rig.log_in(&text).await;
        assert_eq!((answer.error_code, &answer.auth_bytes[..]), (0, REFUSED.as_bytes()), "{what}");
        assert!(token(&mut client, "\x01").await.is_some_and(|answer| {
            (answer.error_code, answer.error_message.as_deref()) == (FAILED, Some(REFUSED))
        }));
        assert!(!is_served(&mut client).await, "{what}");
    }
    let (mut client, answer) = rig.log_in("abc").await;
    assert_eq!(answer.error_code, 0);
    let second = token(&mut client, message(&valid)).await.unwrap();
    assert_eq!(second.error_code, FAILED, "no second attempt on the same connection");
    let (mut client, answer) = rig.log_in("abc").await;
    assert_eq!(answer.error_code, 0);
    assert!(!is_served(&mut client).await, "nor anything else");
}

#[tokio::test]
async fn a_client_cannot_have_the_rights_of_another_user() {
    let rig = Rig::new(&[]).await;
    let text = rig.issuer.token(&claims("orders", 600));
    for (authzid, expected) in [("orders", 0), ("admin", FAILED), ("Orders", FAILED)] {
        let mut client = rig.server.connect().await;
        assert_eq!(handshake(&mut client, "OAUTHBEARER").await, 0);
        let message = format!("n,a={authzid},\x01auth=Bearer {text}\x01\x01");
        assert_eq!(token(&mut client, message).await.unwrap().error_code, expected, "{authzid}");
    }
}

#[tokio::test]
async fn tokens_follow_the_first_version_of_the_handshake_too() {
    let rig = Rig::new(&[]).await;
    let start = async || {
        let mut client = rig.server.connect().await;
        let request = SaslHandshakeRequest { mechanism: "OAUTHBEARER".to_owned() };
        assert_eq!(client.call(0, &request).await.error_code, 0);
        client
    };
    let mut client = start().await;
    let text = rig.issuer.token(&claims("orders", 600));
    assert_eq!(client.raw(&message(&text)).await.as_deref(), Some(&b""[..]));
    assert!(is_served(&mut client).await);
    let mut client = start().await;
    assert_eq!(client.raw(&message("abc")).await.as_deref(), Some(REFUSED.as_bytes()));
    assert_eq!(client.raw(b"\x01").await, None, "closed without a word");
}

#[tokio::test]
async fn a_session_ends_with_its_token_unless_a_newer_one_comes() {
    let rig = Rig::new(&[]).await;
    let (mut left, _) = rig.log_in(&rig.issuer.token(&claims("orders", 4))).await;
    let (mut renewed, answer) = rig.log_in(&rig.issuer.token(&claims("orders", 4))).await;
    assert!((1..=4_000).contains(&answer.session_lifetime_ms), "{}", answer.session_lifetime_ms);
    let (mut other, _) = rig.log_in(&rig.issuer.token(&claims("orders", 4))).await;
    // A login may be repeated after a second.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(log_in(&mut renewed, &rig.issuer.token(&claims("orders", 600))).await.error_code, 0);
    let answer = log_in(&mut other, &rig.issuer.token(&claims("stock", 600))).await;
    let message = "Cannot change principals during re-authentication from User.orders: User.stock";
    assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(message)));
    // The first token has expired by then.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!is_served(&mut left).await);
    assert!(is_served(&mut renewed).await);
}

#[tokio::test]
async fn the_shorter_of_two_lifetimes_counts() {
    let rig = Rig::new(&[("connections.max.reauth.ms", "60000")]).await;
    let (_, answer) = rig.log_in(&rig.issuer.token(&claims("orders", 600))).await;
    assert_eq!(answer.session_lifetime_ms, 60_000);
    let (_, answer) = rig.log_in(&rig.issuer.token(&claims("orders", 30))).await;
    assert!((1..=30_000).contains(&answer.session_lifetime_ms), "{}", answer.session_lifetime_ms);
}

#[tokio::test]
async fn new_keys_are_used_when_a_token_names_one_and_a_bad_file_changes_nothing() {
    let rig = Rig::new(&[]).await;
    let next = Issuer::new("two");
    let text = next.token(&claims("orders", 600));
    std::fs::write(&rig.file, "half a file").unwrap();
    assert_eq!(rig.log_in(&text).await.1.auth_bytes, REFUSED.as_bytes());
    assert_eq!(rig.server.metric("tailrace_token_key_reads_total{result=\"refused\"}").await, 1.0);
    assert_eq!(rig.log_in(&rig.issuer.token(&claims("orders", 600))).await.1.auth_bytes.len(), 0);
    let third = Issuer::new("three");
    std::fs::write(&rig.file, third.keys()).unwrap();
    let (mut client, answer) = rig.log_in(&third.token(&claims("orders", 600))).await;
    assert_eq!(answer.auth_bytes.len(), 0);
    assert!(is_served(&mut client).await);
    let old = rig.issuer.token(&claims("orders", 600));
    assert_eq!(rig.log_in(&old).await.1.auth_bytes, REFUSED.as_bytes(), "the old key is gone");
}

#[tokio::test]
async fn settings_that_would_let_in_too_many_are_refused_at_the_start() {
    let folder = TempDir::new().unwrap();
    let (settings, _) = settings(&folder, &Issuer::new("one"));
    for (key, value, part) in [
        ("sasl.oauthbearer.expected.issuer", "", "expected.issuer must be set"),
        ("sasl.oauthbearer.expected.audience", "", "expected.audience must be set"),
        ("sasl.oauthbearer.jwks.endpoint.url", "", "jwks.endpoint.url must be set"),
        ("sasl.oauthbearer.jwks.endpoint.url", "ftp://idp/keys", "file:///PATH"),
        ("sasl.oauthbearer.jwks.endpoint.url", "file://host/keys", "file:///PATH"),
        ("sasl.oauthbearer.jwks.endpoint.url", "file:///nowhere/keys", "cannot read /nowhere/keys"),
        ("sasl.oauthbearer.sub.claim.name", "", "must be named"),
        ("tailrace.oauthbearer.name.prefix", "a;b", "prefix"),
        ("ssl.principal.mapping.rules", "RULE:a", "ssl.principal.mapping.rules: rule 1"),
    ] {
        let mut all: BTreeMap<_, _> =
            settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        for listener in ["kafka", "http", "nats"] {
            all.insert(listener.to_owned(), "127.0.0.1:0".to_owned());
        }
        all.insert("data.dir".to_owned(), folder.path().join("data").display().to_string());
        all.insert(key.to_owned(), value.to_owned());
        let Err(error) = start(Startup { settings: all, disk: local_disk() }).await else {
            panic!("started with {key}={value}");
        };
        assert!(error.to_string().contains(part), "{key}={value}: {error}");
    }
}
