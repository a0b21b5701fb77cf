//! The same for what NATS clients show: claims and seeds, cookies, and the passwords about which an auth
//! callout asks.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tailrace_server::{Startup, start};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::listener::{Planted, listen};
use super::token_secrets::pages;
use crate::common::lines::Lines;
use crate::common::{PATIENCE, TestServer, local_disk};

// No secret of another test of this binary.
const USER: &str = "user-17aa-close-sesame";
const SERVICE: &str = "service-b0d2-close-sesame";
const COOKIE: &str = "cookie-5a5e-close-sesame";

/// Signs claims, as github.com/nats-io/jwt does. `more` are registered ones.
fn signed(issuer: &KeyPair, subject: &str, kind: &str, nats: Value, more: Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let issued_by = issuer.public_key();
    let mut claims = json!({ "jti": "ID", "iat": 1_700_000_000, "iss": issued_by, "name": "name" });
    (claims["sub"], claims["nats"]) = (json!(subject), nats);
    (claims["nats"]["type"], claims["nats"]["version"]) = (json!(kind), json!(2));
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let text = format!("{}.{}", encode(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), encode(&claims));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(text.as_bytes()).unwrap());
    format!("{text}.{signature}")
}

fn user_claims(issuer: &KeyPair, user: &str, more: Value) -> String {
    let mut nats = json!({ "subs": -1, "data": -1, "payload": -1, "bearer_token": true });
    nats.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    signed(issuer, user, "user", nats, json!({}))
}

/// Files of an operator with a system account and another one.
fn operator(folder: &TempDir, account: &KeyPair) -> [String; 2] {
    let (operator, system) = (KeyPair::new_operator(), KeyPair::new_account());
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let limits = json!({ "limits": { "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
        "wildcards": true, "conn": -1, "leaf": -1 } });
    let of = |key: &KeyPair| signed(&operator, &key.public_key(), "account", limits.clone(), json!({}));
    let nats = json!({ "system_account": system.public_key() });
    [
        write("operator.jwt", &signed(&operator, &operator.public_key(), "operator", nats, json!({}))),
        write("accounts.jwt", &[of(&system), of(account)].join("\n")),
    ]
}

async fn tcp(server: &TestServer) -> Lines<TcpStream> {
    Lines::over(TcpStream::connect(server.nats()).await.unwrap())
}

/// Sends CONNECT, and returns the connection if the server lets it in. What it says is kept.
async fn login(server: &TestServer, connect: &str, seen: &mut Vec<String>) -> Option<Lines<TcpStream>> {
    let mut lines = tcp(server).await;
    lines.info().await;
    lines.send(&format!("CONNECT {connect}\r\nPING\r\n")).await;
    while let Some(line) = lines.line().await {
        seen.push(line.clone());
        if line == "PONG\r\n" {
            return Some(lines);
        }
    }
    None
}

/// Connects by WebSocket with cookies, and returns whether the server lets it in.
async fn with_cookies(server: &TestServer, cookies: &str, seen: &mut Vec<String>) -> bool {
    let mut stream = TcpStream::connect(server.http()).await.unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Cookie: {cookies}\r\n\r\n"
    );
    let said = b"CONNECT {\"verbose\":false}\r\nPING\r\n";
    // One frame, with a mask of zeros.
    let frame = [&[0x82, 0x80 | u8::try_from(said.len()).unwrap(), 0, 0, 0, 0], &said[..]].concat();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(&frame).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if text.contains("PONG") || text.contains("-ERR") {
            seen.push(text.clone());
            return text.contains("PONG");
        }
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut answer)).await.unwrap().unwrap();
        assert!(read > 0, "an answer: {text}");
    }
}

/// Adds claims. Who has their signature has them: the other parts are no secrets.
fn plant(planted: &mut Planted, jwt: &str) {
    planted.add(jwt.rsplit('.').next().unwrap());
}

#[tokio::test]
async fn claims_seeds_and_cookies_are_not_told() {
    listen();
    let (folder, account, user) = (TempDir::new().unwrap(), KeyPair::new_account(), KeyPair::new_user());
    let [operator_file, accounts_file] = operator(&folder, &account);
    let audit = folder.path().join("audit.log");
    let server = TestServer::with(&[
        ("tailrace.nats.operator.file", operator_file.as_str()),
        ("tailrace.nats.operator.accounts.file", accounts_file.as_str()),
        ("tailrace.nats.websocket.jwt.cookie", "claims"),
        ("tailrace.nats.websocket.pass.cookie", "pass"),
        ("tailrace.nats.websocket.token.cookie", "token"),
        ("tailrace.audit.log.file", audit.to_str().unwrap()),
    ])
    .await;
    let key = user.public_key();
    let valid = user_claims(&account, &key, json!({}));
    let needs_key = user_claims(&account, &key, json!({ "bearer_token": false }));
    let foreign = user_claims(&KeyPair::new_account(), &key, json!({}));
    let (seed, mut planted) = (user.seed().unwrap(), Planted::default());
    for secret in [&*seed, COOKIE] {
        planted.add(secret);
    }
    for jwt in [&valid, &needs_key, &foreign] {
        plant(&mut planted, jwt);
    }
    let mut seen = Vec::new();
    let _open = login(&server, &format!(r#"{{"jwt":"{valid}"}}"#), &mut seen).await.expect("it is let in");
    for connect in [
        format!(r#"{{"jwt":"{needs_key}"}}"#),
        format!(r#"{{"jwt":"{needs_key}","sig":"AAAA"}}"#),
        format!(r#"{{"jwt":"{foreign}"}}"#),
        format!(r#"{{"jwt":"{valid}x"}}"#),
        format!(r#"{{"jwt":"{valid}""#),
        // Mistakes of people who configure clients.
        format!(r#"{{"jwt":"{seed}"}}"#),
        format!(r#"{{"jwt":"{needs_key}","nkey":"{seed}","sig":"{seed}"}}"#),
        format!(r#"{{"nkey":"{seed}","sig":"{seed}"}}"#),
        format!(r#"{{"pass":"{seed}","auth_token":"{seed}"}}"#),
    ] {
        assert!(login(&server, &connect, &mut seen).await.is_none(), "{connect}");
    }
    for (cookies, is_right) in [
        (format!("claims={valid}; pass={COOKIE}"), true),
        (format!("claims={foreign}"), false),
        (format!("claims={COOKIE}"), false),
        (format!("token={COOKIE}"), false),
    ] {
        assert_eq!(with_cookies(&server, &cookies, &mut seen).await, is_right, "{cookies}");
    }
    seen.extend(pages(&server, None).await);
    seen.push(std::fs::read_to_string(&audit).unwrap());
    assert!(seen.last().unwrap().lines().count() > 10, "the audit log has the logins");
    planted.check(&seen, COOKIE);
}

#[tokio::test]
async fn what_an_auth_callout_asks_is_not_told() {
    listen();
    let (issuer, folder) = (KeyPair::new_account(), TempDir::new().unwrap());
    let users = format!(
        "[auth_callout]\nissuer = \"{}\"\naccount = \"AUTH\"\nauth_users = [\"auth\"]\n\
         [[accounts]]\nname = \"AUTH\"\n[[accounts]]\nname = \"APP\"\n\
         [[users]]\nuser = \"auth\"\npassword = \"{SERVICE}\"\naccount = \"AUTH\"\n",
        issuer.public_key()
    );
    let (path, audit) = (folder.path().join("users.toml"), folder.path().join("audit.log"));
    std::fs::write(&path, users).unwrap();
    let server = TestServer::with(&[
        ("tailrace.nats.users.file", path.to_str().unwrap()),
        ("tailrace.nats.websocket.user.cookie", "user"),
        ("tailrace.nats.websocket.pass.cookie", "pass"),
        ("tailrace.audit.log.file", audit.to_str().unwrap()),
    ])
    .await;
    let (mut planted, mut seen) = (Planted::default(), Vec::new());
    for secret in [SERVICE, USER] {
        planted.add(secret);
    }
    let connect = format!(r#"{{"verbose":false,"user":"auth","pass":"{SERVICE}"}}"#);
    let mut service = login(&server, &connect, &mut seen).await.expect("the service is let in");
    service.send("SUB $SYS.REQ.USER.AUTH 1\r\n").await;
    assert_eq!(service.until_pong().await, [""; 0]);
    for (is_right, is_cookie) in [(true, false), (false, false), (true, true), (false, true)] {
        let client = async {
            let mut seen = Vec::new();
            let is_in = if is_cookie {
                with_cookies(&server, &format!("user=alice; pass={USER}"), &mut seen).await
            } else {
                let connect = format!(r#"{{"user":"alice","pass":"{USER}"}}"#);
                login(&server, &connect, &mut seen).await.is_some()
            };
            assert_eq!(is_in, is_right);
            seen
        };
        let (said, jwt) = tokio::join!(client, answered(&mut service, &issuer, is_right));
        seen.extend(said);
        plant(&mut planted, &jwt);
    }
    seen.extend(pages(&server, None).await);
    seen.push(std::fs::read_to_string(&audit).unwrap());
    assert!(seen.last().unwrap().lines().count() >= 4, "the audit log has the logins");
    planted.check(&seen, USER);
}

/// Answers the next question, with claims or with an error. Returns the claims.
async fn answered(service: &mut Lines<TcpStream>, issuer: &KeyPair, is_right: bool) -> String {
    let (asked, reply) = loop {
        if let [first, body] = &service.until_pong().await[..] {
            let payload = URL_SAFE_NO_PAD.decode(body.split('.').nth(1).unwrap()).unwrap();
            break (
                serde_json::from_slice::<Value>(&payload).unwrap(),
                first.split(' ').nth(3).unwrap().to_owned(),
            );
        }
    };
    assert_eq!(asked["nats"]["connect_opts"]["pass"], USER, "the service is asked about it");
    let (server, user) = (&asked["nats"]["server_id"]["id"], asked["nats"]["user_nkey"].as_str().unwrap());
    let nats = json!({ "subs": -1, "data": -1, "payload": -1 });
    let jwt = signed(issuer, user, "user", nats, json!({ "aud": "APP", "name": "alice" }));
    let says = if is_right { json!({ "jwt": jwt }) } else { json!({ "error": "no" }) };
    let answer = signed(issuer, user, "authorization_response", says, json!({ "aud": server }));
    service.send(&format!("PUB {reply} {}\r\n{answer}\r\n", answer.len())).await;
    jwt
}

#[tokio::test]
async fn a_seed_where_a_public_key_belongs_is_not_told_when_the_start_fails() {
    listen();
    tailrace_runtime::install();
    let (user, account) = (KeyPair::new_user(), KeyPair::new_account());
    let mut planted = Planted::default();
    for seed in [&user, &account].map(|key| key.seed().unwrap()) {
        planted.add(&seed);
    }
    let (user_seed, account_seed) = (user.seed().unwrap(), account.seed().unwrap());
    let folder = TempDir::new().unwrap();
    let users = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let file = "tailrace.nats.users.file";
    let mut seen = Vec::new();
    for (key, value) in [
        ("tailrace.nats.nkey", user_seed.clone()),
        (file, users("nkey.toml", format!("[[users]]\nnkey = \"{user_seed}\"\n"))),
        (
            file,
            users(
                "twice.toml",
                format!("[[users]]\nuser = \"a\"\npassword = \"p\"\nnkey = \"{user_seed}\"\n"),
            ),
        ),
        (
            file,
            users(
                "issuer.toml",
                format!("[auth_callout]\nissuer = \"{account_seed}\"\nauth_users = [\"a\"]\n"),
            ),
        ),
        (file, users("broken.toml", format!("[[users]]\nuser = \"a\"\npassword = \"{user_seed}\n"))),
    ] {
        let folder = folder.path().join("data").display().to_string();
        let mut settings: BTreeMap<_, _> = ["kafka", "nats", "http"]
            .map(|door| (door.to_owned(), "127.0.0.1:0".to_owned()))
            .into_iter()
            .chain([("data.dir".to_owned(), folder)])
            .collect();
        settings.insert(key.to_owned(), value);
        let error = start(Startup { settings, disk: local_disk() }).await.err().expect("it does not start");
        seen.extend([error.to_string(), format!("{error:?}")]);
    }
    planted.check(&seen, &user_seed);
}
