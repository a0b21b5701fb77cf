//! No secret is told anywhere: not in the log at any level, not on a page, not in the audit log, not in
//! answers of DescribeConfigs. Each way to log in is used once with the right secret and once with a wrong
//! one, which may be the right one of another system (CVE-2026-33558). `token_secrets` and
//! `nats_secrets` have more.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tailrace_identity::scram::ScramMechanism::{Sha256, Sha512};
use tailrace_kafka_wire::messages::DescribeConfigsRequest;
use tailrace_kafka_wire::messages::describe_configs_request::DescribeConfigsResource;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::listener::{Planted, listen};
use super::pages::{AUTHORIZER, page};
use crate::common::issuer::{Answer, Issuer, KeyServer, claims};
use crate::common::logins::{add_user, handshake, plain, scram, token};
use crate::common::{PATIENCE, TestServer};

const FIRST: &str = "first-9d1f-open-sesame";
const ALICE: &str = "alice-77aa-open-sesame";
const WRONG: &str = "wrong-55cc-open-sesame";
const NATS: &str = "nats-31be-open-sesame";

#[tokio::test]
async fn no_planted_secret_is_told() {
    listen();
    let (folder, issuer) = (TempDir::new().unwrap(), Issuer::new("one"));
    let audit = folder.path().join("audit.log");
    let (valid, foreign) =
        (issuer.token(&claims("admin", 600)), Issuer::new("one").token(&claims("admin", 600)));
    let mut planted = Planted::default();
    for secret in [FIRST, ALICE, WRONG, NATS] {
        planted.add(secret);
    }
    for text in [&valid, &foreign] {
        // Who has a signature has the token: the other parts are no secrets.
        planted.add(text.rsplit('.').next().unwrap());
    }
    let keys = KeyServer::start(None, Answer::Keys(issuer.keys())).await;
    let settings = keys.settings("http");
    let mut settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    settings.extend([
        ("tailrace.oauthbearer.jwks.http.loopback", "true"),
        ("tailrace.kafka.authentication", "requested"),
        ("authorizer.class.name", AUTHORIZER),
        ("super.users", "User:admin"),
        ("tailrace.first.user", "admin"),
        ("tailrace.first.password", FIRST),
        ("tailrace.nats.user", "nats"),
        ("tailrace.nats.password", NATS),
        ("tailrace.audit.log.file", audit.to_str().unwrap()),
        ("connection.failed.authentication.delay.ms", "0"),
    ]);
    let mut server = TestServer::with(&settings).await;
    let mut admin = server.connect().await;
    assert_eq!(plain(&mut admin, "admin", FIRST).await.error_code, 0);
    for mechanism in [Sha256, Sha512] {
        add_user(&mut admin, "alice", mechanism, ALICE).await;
    }
    kafka_logins(&server, &valid, &foreign).await;
    let mut seen = nats_logins(&server).await;
    seen.extend(pages(&server, &valid, &foreign).await);
    for resource in [4, 8] {
        let resources = vec![DescribeConfigsResource {
            resource_type: resource,
            resource_name: "1".to_owned(),
            configuration_keys: None,
            ..Default::default()
        }];
        let request = DescribeConfigsRequest { resources, include_synonyms: true, ..Default::default() };
        seen.push(format!("{:?}", admin.call(4, &request).await));
    }
    server.stop().await;
    seen.push(std::fs::read_to_string(&audit).unwrap());
    assert!(seen.last().unwrap().lines().count() > 10, "the audit log has the logins");
    planted.check(&seen, WRONG);
}

async fn kafka_logins(server: &TestServer, valid: &str, foreign: &str) {
    for (password, is_right) in [(ALICE, true), (WRONG, false)] {
        let mut client = server.connect().await;
        assert_eq!(plain(&mut client, "alice", password).await.error_code == 0, is_right);
        for mechanism in [Sha256, Sha512] {
            let mut client = server.connect().await;
            assert_eq!(scram(&mut client, mechanism, "alice", password).await.error_code == 0, is_right);
        }
    }
    for (text, is_right) in [(valid, true), (foreign, false)] {
        let mut client = server.connect().await;
        assert_eq!(handshake(&mut client, "OAUTHBEARER").await, 0);
        let answer = token(&mut client, format!("n,,\x01auth=Bearer {text}\x01\x01")).await.unwrap();
        assert_eq!(answer.auth_bytes.is_empty(), is_right);
    }
    // Malformed messages with secrets in them.
    for (mechanism, message) in [
        ("PLAIN", format!("alice\0{WRONG}")),
        ("SCRAM-SHA-256", format!("n,,n=alice,r={WRONG},x")),
        ("OAUTHBEARER", format!("n,,\x01auth=Basic {WRONG}\x01\x01")),
        ("OAUTHBEARER", format!("n,,\x01auth=Bearer {WRONG}\x01\x01")),
    ] {
        let mut client = server.connect().await;
        assert_eq!(handshake(&mut client, mechanism).await, 0);
        let _ = token(&mut client, message).await;
    }
}

async fn nats_logins(server: &TestServer) -> Vec<String> {
    let mut seen = Vec::new();
    for connect in [
        format!(r#"{{"user":"nats","pass":"{NATS}"}}"#),
        format!(r#"{{"user":"alice","pass":"{ALICE}"}}"#),
        format!(r#"{{"user":"nats","pass":"{WRONG}"}}"#),
        format!(r#"{{"auth_token":"{WRONG}"}}"#),
        format!(r#"{{"user":"nats","pass":"{WRONG}""#),
        format!(r#"{{"user":"nats","pass":7,"auth_token":"{WRONG}"}}"#),
    ] {
        let mut stream = TcpStream::connect(server.nats()).await.unwrap();
        stream.write_all(format!("CONNECT {connect}\r\nPING\r\n").as_bytes()).await.unwrap();
        // INFO, and then PONG or an error.
        let mut answer = Vec::new();
        let said = |answer: &[u8]| {
            let text = String::from_utf8_lossy(answer).into_owned();
            text.contains("PONG") || text.contains("-ERR")
        };
        while !said(&answer) {
            let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut answer)).await;
            if read.unwrap().unwrap_or(0) == 0 {
                break;
            }
        }
        seen.push(String::from_utf8_lossy(&answer).into_owned());
    }
    seen
}

async fn pages(server: &TestServer, valid: &str, foreign: &str) -> Vec<String> {
    let basic = |login: String| format!("Basic {}", STANDARD.encode(login));
    let mut seen = Vec::new();
    for authorization in [
        basic(format!("admin:{FIRST}")),
        basic(format!("admin:{WRONG}")),
        basic(WRONG.to_owned()),
        format!("Bearer {valid}"),
        format!("Bearer {foreign}"),
        format!("Bearer {WRONG}"),
        format!("Digest {WRONG}"),
    ] {
        for path in [
            "/metrics",
            "/varz",
            "/connz?auth=true&subs=detail&state=all",
            "/clusterz",
            "/routez",
            "/accountz",
        ] {
            let stream = TcpStream::connect(server.http()).await.unwrap();
            let (_, head, body) = page(stream, path, Some(&authorization)).await;
            seen.push(head + &body);
            if authorization.contains("Digest") {
                break;
            }
        }
    }
    seen
}
