//! Auth callout: a service decides who a client is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::common::TestServer;
use crate::common::lines::Lines;
use crate::operator::token;

const VIOLATION: &str = "-ERR 'Authorization Violation'";

type Talker = Lines<TcpStream>;

pub(crate) async fn server(issuer: &KeyPair, folder: &TempDir, more: &[(&str, &str)]) -> TestServer {
    let users = format!(
        "[auth_callout]\nissuer = \"{}\"\naccount = \"AUTH\"\nauth_users = [\"auth\"]\n\
         [[accounts]]\nname = \"AUTH\"\n[[accounts]]\nname = \"APP\"\n\
         [[users]]\nuser = \"auth\"\npassword = \"p\"\naccount = \"AUTH\"\n\
         [[users]]\nuser = \"known\"\npassword = \"p\"\naccount = \"APP\"\n",
        issuer.public_key()
    );
    let path = folder.path().join("users.toml");
    std::fs::write(&path, users).unwrap();
    let settings =
        [("tailrace.nats.users.file", path.to_str().unwrap()), ("tailrace.nats.auth.timeout.ms", "3000")];
    TestServer::with(&[&settings, more].concat()).await
}

pub(crate) async fn connect(server: &TestServer, options: &str) -> Talker {
    let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    lines.info().await;
    lines.send(&format!("CONNECT {{\"verbose\":false,{options}}}\r\n")).await;
    lines
}

/// The next question: its claims, and where the answer goes.
pub(crate) async fn question(service: &mut Talker) -> (Value, String) {
    loop {
        let lines = service.until_pong().await;
        if let [first, body] = &lines[..] {
            let payload = URL_SAFE_NO_PAD.decode(body.split('.').nth(1).unwrap()).unwrap();
            let reply = first.split(' ').nth(3).unwrap().to_owned();
            return (serde_json::from_slice(&payload).unwrap(), reply);
        }
    }
}

pub(crate) fn answer(issuer: &KeyPair, asked: &Value, nats: Value) -> String {
    let server = asked["nats"]["server_id"]["id"].as_str().unwrap();
    let user = asked["nats"]["user_nkey"].as_str().unwrap();
    token(issuer, user, "authorization_response", nats, json!({ "aud": server }))
}

pub(crate) fn user(issuer: &KeyPair, asked: &Value, account: &str) -> String {
    let user = asked["nats"]["user_nkey"].as_str().unwrap();
    let nats = json!({ "subs": -1, "data": -1, "payload": -1, "pub": { "deny": ["secret"] } });
    token(issuer, user, "user", nats, json!({ "aud": account, "name": "alice" }))
}

pub(crate) async fn say(service: &mut Talker, reply: &str, text: &str) {
    service.send(&format!("PUB {reply} {}\r\n{text}\r\n", text.len())).await;
    assert_eq!(service.until_pong().await, [""; 0]);
}

#[tokio::test]
async fn a_service_decides_who_is_let_in_and_where() {
    let (issuer, folder) = (KeyPair::new_account(), tempfile::tempdir().unwrap());
    let server = server(&issuer, &folder, &[]).await;
    // Nobody is let in as long as the service is not there.
    let mut early = connect(&server, "\"user\":\"known\",\"pass\":\"p\"").await;
    assert_eq!(early.until_end().await, [VIOLATION]);
    let mut service = connect(&server, "\"user\":\"auth\",\"pass\":\"p\"").await;
    service.send("SUB $SYS.REQ.USER.AUTH 1\r\n").await;
    assert_eq!(service.until_pong().await, [""; 0]);
    let mut alice = connect(&server, "\"user\":\"alice\",\"pass\":\"secret\"").await;
    let (asked, reply) = question(&mut service).await;
    assert_eq!(asked["aud"], "nats-authorization-request");
    assert_eq!(asked["iss"], asked["nats"]["server_id"]["id"]);
    let presented = &asked["nats"]["connect_opts"];
    assert_eq!((&presented["user"], &presented["pass"]), (&"alice".into(), &"secret".into()));
    let jwt = user(&issuer, &asked, "APP");
    say(&mut service, &reply, &answer(&issuer, &asked, json!({ "jwt": jwt }))).await;
    alice.send("SUB _INBOX 1\r\nPUB $SYS.REQ.USER.INFO _INBOX 0\r\n\r\nPUB secret 0\r\n\r\n").await;
    let mut said = Vec::new();
    while !said.iter().any(|line: &String| line.starts_with('{')) {
        said.extend(alice.until_pong().await);
    }
    assert!(said.contains(&"-ERR 'Permissions Violation for Publish to \"secret\"'".to_owned()), "{said:?}");
    let body = said.iter().find(|line| line.starts_with('{')).unwrap();
    let info: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&info["data"]["user"], &info["data"]["account"]), (&"alice".into(), &"APP".into()));
    // Nobody else asks the service.
    alice.send("PUB $SYS.REQ.USER.AUTH 1\r\n?\r\n").await;
    assert_eq!(
        alice.until_pong().await,
        ["-ERR 'Permissions Violation for Publish to \"$SYS.REQ.USER.AUTH\"'"]
    );
}

#[tokio::test]
async fn answers_that_are_not_as_expected_let_nobody_in() {
    let (issuer, folder) = (KeyPair::new_account(), tempfile::tempdir().unwrap());
    let server = server(&issuer, &folder, &[]).await;
    let stranger = KeyPair::new_account();
    let mut service = connect(&server, "\"user\":\"auth\",\"pass\":\"p\"").await;
    service.send("SUB $SYS.REQ.USER.AUTH 1\r\n").await;
    assert_eq!(service.until_pong().await, [""; 0]);
    for wrong in 0..6 {
        // It is asked about users that the server knows, too.
        let mut client = connect(&server, "\"user\":\"known\",\"pass\":\"p\"").await;
        let (mut asked, reply) = question(&mut service).await;
        let good = user(&issuer, &asked, "APP");
        let text = match wrong {
            0 => answer(&issuer, &asked, json!({ "error": "no" })),
            1 => answer(&stranger, &asked, json!({ "jwt": good })),
            2 => answer(&issuer, &asked, json!({ "jwt": user(&stranger, &asked, "APP") })),
            3 => answer(&issuer, &asked, json!({ "jwt": user(&issuer, &asked, "NONE") })),
            4 => {
                asked["nats"]["user_nkey"] = KeyPair::new_user().public_key().into();
                answer(&issuer, &asked, json!({ "jwt": good }))
            }
            _ => "x".to_owned(),
        };
        say(&mut service, &reply, &text).await;
        assert_eq!(client.until_end().await, [VIOLATION], "{wrong}");
    }
    let mut unanswered = connect(&server, "\"user\":\"known\",\"pass\":\"p\"").await;
    assert_eq!(unanswered.until_end().await, [VIOLATION]);
}
