//! Who may see the pages, with each way to log in.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
use tailrace_identity::scram::ScramMechanism::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::TestServer;
use crate::common::certificates::{Authority, handshake};
use crate::common::issuer::{Answer, Issuer, KeyServer, claims};
use crate::common::logins::{add_user, plain};

pub(crate) const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// The status, the head and the body of a page.
pub(crate) async fn page(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    authorization: Option<&str>,
) -> (u16, String, String) {
    let login = authorization.map(|login| format!("Authorization: {login}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{login}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The end of TLS without its own word for it is no matter here.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
}

async fn plain_page(server: &TestServer, path: &str, authorization: Option<&str>) -> (u16, String, String) {
    page(TcpStream::connect(server.http()).await.unwrap(), path, authorization).await
}

fn basic(login: &str) -> String {
    format!("Basic {}", STANDARD.encode(login))
}

/// A server with rules, the super user admin, the user alice, and a topic.
async fn with_rules(more: &[(&str, &str)]) -> TestServer {
    let mut settings = vec![
        ("tailrace.kafka.authentication", "requested"),
        ("authorizer.class.name", AUTHORIZER),
        ("super.users", "User:admin"),
        ("tailrace.first.user", "admin"),
        ("tailrace.first.password", "open sesame"),
    ];
    settings.extend_from_slice(more);
    let server = TestServer::with(&settings).await;
    let mut admin = server.connect().await;
    assert_eq!(plain(&mut admin, "admin", "open sesame").await.error_code, 0);
    add_user(&mut admin, "alice", Sha256, "p").await;
    admin.create_topic("orders", 1, &[]).await;
    server
}

#[tokio::test]
async fn metrics_are_without_names_for_who_may_not_describe_them() {
    let server = with_rules(&[]).await;
    let (status, head, _) = plain_page(&server, "/metrics", None).await;
    assert_eq!(status, 401);
    assert!(head.contains("www-authenticate: basic realm=\"tailrace\""), "{head}");
    assert!(!head.contains("www-authenticate: bearer"), "{head}");
    let (status, _, whole) = plain_page(&server, "/metrics", Some(&basic("admin:open sesame"))).await;
    assert!(status == 200 && whole.contains("topic=\"orders\""), "{status}");
    let (status, _, page) = plain_page(&server, "/metrics", Some(&basic("alice:p"))).await;
    assert!(status == 200 && !page.contains("orders"), "{status} {page}");
    assert!(page.contains("tailrace_logins_total") && page.ends_with("# EOF\n"));
    assert_eq!(plain_page(&server, "/connz", Some(&basic("alice:p"))).await.0, 403);
}

#[tokio::test]
async fn tokens_open_the_pages_as_their_users() {
    let issuer = Issuer::new("one");
    let keys = KeyServer::start(None, Answer::Keys(issuer.keys())).await;
    let settings = keys.settings("http");
    let mut settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    settings.push(("tailrace.oauthbearer.jwks.http.loopback", "true"));
    let server = with_rules(&settings).await;
    let bearer = |user: &str, seconds| format!("Bearer {}", issuer.token(&claims(user, seconds)));
    assert_eq!(plain_page(&server, "/connz", Some(&bearer("admin", 600))).await.0, 200);
    assert_eq!(plain_page(&server, "/connz", Some(&bearer("alice", 600))).await.0, 403);
    let other = format!("Bearer {}", Issuer::new("one").token(&claims("admin", 600)));
    let twice = format!("{}\r\nAuthorization: {}", bearer("admin", 600), bearer("alice", 600));
    for wrong in [other.as_str(), "Bearer ", "Bearer abc", "Digest x", twice.as_str()] {
        let (status, head, _) = plain_page(&server, "/connz", Some(wrong)).await;
        assert_eq!(status, 401, "{wrong}");
        assert!(head.contains("www-authenticate: bearer"), "{head}");
    }
}

#[tokio::test]
async fn a_certificate_opens_the_pages_as_its_user_unless_the_request_says_otherwise() {
    let authority = Authority::new();
    let tls = authority.settings(&[
        ("tailrace.http.tls", "true"),
        ("tailrace.tls.client.auth", "required"),
        ("ssl.principal.mapping.rules", "RULE:^CN=team-(.*)$/$1/"),
    ]);
    let tls: Vec<_> = tls.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let server = with_rules(&tls).await;
    for name in ["team-admin", "team-alice", "other"] {
        authority.issue_to(name, ClientAuth, name);
    }
    let page = async |name: &str, path: &str, authorization: Option<&str>| {
        let stream = TcpStream::connect(server.http()).await.unwrap();
        let stream = handshake(authority.client(Some((&authority, name))), stream).await.unwrap();
        page(stream, path, authorization).await.0
    };
    assert_eq!(page("team-admin", "/connz", None).await, 200);
    assert_eq!(page("team-alice", "/connz", None).await, 403);
    assert_eq!(page("team-alice", "/metrics", None).await, 200);
    assert_eq!(page("other", "/connz", None).await, 401, "no rule names it");
    assert_eq!(page("other", "/healthz", None).await, 200);
    assert_eq!(page("team-alice", "/connz", Some(&basic("admin:open sesame"))).await, 200);
    assert_eq!(page("team-admin", "/connz", Some(&basic("alice:p"))).await, 403);
    assert_eq!(page("team-admin", "/connz", Some(&basic("admin:wrong"))).await, 401, "no way back");
}

/// Guessing is slow, and does not keep probes out.
#[tokio::test]
async fn failed_logins_are_delayed_and_give_way_to_others() {
    let server = with_rules(&[]).await;
    let wrong = basic("admin:wrong");
    let began = Instant::now();
    for _ in 0..4 {
        assert_eq!(plain_page(&server, "/metrics", Some(&wrong)).await.0, 401);
    }
    // 100, 200, 400 and 800 ms.
    assert!(began.elapsed() > Duration::from_millis(1_400), "{:?}", began.elapsed());
    let mut guesses = Vec::new();
    for _ in 0..70 {
        let mut stream = TcpStream::connect(server.http()).await.unwrap();
        let request = format!("GET /connz HTTP/1.1\r\nHost: x\r\nAuthorization: {wrong}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        guesses.push(stream);
    }
    let probe = tokio::time::timeout(Duration::from_secs(4), server.get("/healthz")).await;
    assert_eq!(probe.unwrap().0, 200);
}
