//! Operator mode: users log in with claims that their account has signed. The tokens are made here, as
//! github.com/nats-io/jwt makes them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::common::lines::Lines;
use crate::common::{TestServer, local_disk};
use tailrace_server::{Startup, start};

const VIOLATION: &str = "-ERR 'Authorization Violation'";

pub(crate) type Talker = Lines<TcpStream>;

pub(crate) fn now_s() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// Signs claims. `more` are added to the registered ones.
pub(crate) fn token(issuer: &KeyPair, subject: &str, kind: &str, nats: Value, more: Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut claims = json!({
        "jti": "ID", "iat": now_s(), "iss": issuer.public_key(), "name": "name", "sub": subject, "nats": nats,
    });
    (claims["nats"]["type"], claims["nats"]["version"]) = (json!(kind), json!(2));
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let text = format!("{}.{}", encode(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), encode(&claims));
    let signature = issuer.sign(text.as_bytes()).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

const UNLIMITED: i64 = -1;

fn account_limits(more: Value) -> Value {
    let mut limits = json!({ "subs": UNLIMITED, "data": UNLIMITED, "payload": UNLIMITED, "imports": UNLIMITED,
        "exports": UNLIMITED, "wildcards": true, "conn": UNLIMITED, "leaf": UNLIMITED });
    limits.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    limits
}

pub(crate) struct World {
    pub(crate) operator: KeyPair,
    pub(crate) system: KeyPair,
    pub(crate) account: KeyPair,
    pub(crate) other: KeyPair,
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (operator, system) = (KeyPair::new_operator(), KeyPair::new_account());
        let (account, other) = (KeyPair::new_account(), KeyPair::new_account());
        Self { operator, system, account, other, folder }
    }

    pub(crate) fn claims(&self, account: &KeyPair, nats: Value) -> String {
        let mut nats = nats;
        if nats.get("limits").is_none() {
            nats["limits"] = account_limits(json!({}));
        }
        token(&self.operator, &account.public_key(), "account", nats, json!({}))
    }

    pub(crate) fn write(&self, name: &str, tokens: &[String]) -> String {
        let (path, new) = (self.folder.path().join(name), self.folder.path().join("new"));
        std::fs::write(&new, tokens.join("\n")).unwrap();
        std::fs::rename(new, &path).unwrap();
        path.display().to_string()
    }

    pub(crate) fn write_accounts(&self, account: Value) -> String {
        let plain = |key| self.claims(key, json!({}));
        let tokens = [plain(&self.system), plain(&self.other), self.claims(&self.account, account)];
        self.write("accounts.jwt", &tokens)
    }

    pub(crate) fn write_operator(&self) -> String {
        let nats = json!({ "system_account": self.system.public_key() });
        let own = token(&self.operator, &self.operator.public_key(), "operator", nats, json!({}));
        self.write("operator.jwt", &[own])
    }

    pub(crate) async fn start(&self, account: Value, more: &[(&str, &str)]) -> TestServer {
        let operator = self.write_operator();
        let accounts = self.write_accounts(account);
        let settings = [
            ("tailrace.nats.operator.file", &*operator),
            ("tailrace.nats.operator.accounts.file", &*accounts),
        ];
        TestServer::with(&[&settings, more].concat()).await
    }

    pub(crate) fn user(&self, user: &KeyPair, nats: Value, more: Value) -> String {
        user_of(&self.account, user, nats, more)
    }
}

pub(crate) fn user_of(issuer: &KeyPair, user: &KeyPair, nats: Value, more: Value) -> String {
    let mut full = json!({ "subs": UNLIMITED, "data": UNLIMITED, "payload": UNLIMITED });
    full.as_object_mut().unwrap().extend(nats.as_object().unwrap().clone());
    token(issuer, &user.public_key(), "user", full, more)
}

/// Sends CONNECT with claims, and the nonce signed by `signer`.
pub(crate) async fn connect(server: &TestServer, jwt: &str, signer: Option<&KeyPair>) -> Talker {
    let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    let info = lines.info().await;
    let nonce = info["nonce"].as_str().unwrap();
    let mut options = json!({ "verbose": false, "headers": true, "no_responders": true, "jwt": jwt });
    if let Some(signer) = signer {
        options["sig"] = URL_SAFE_NO_PAD.encode(signer.sign(nonce.as_bytes()).unwrap()).into();
    }
    lines.send(&format!("CONNECT {options}\r\n")).await;
    lines
}

pub(crate) async fn login(server: &TestServer, jwt: &str, user: &KeyPair) -> Talker {
    let mut lines = connect(server, jwt, Some(user)).await;
    assert_eq!(lines.until_pong().await, [""; 0]);
    lines
}

async fn refused(server: &TestServer, jwt: &str, signer: Option<&KeyPair>) {
    assert_eq!(connect(server, jwt, signer).await.until_end().await, [VIOLATION], "{jwt}");
}

#[tokio::test]
async fn a_user_is_let_in_by_claims_of_an_account_that_the_operator_has_signed() {
    let world = World::new();
    let server = world.start(json!({}), &[]).await;
    let user = KeyPair::new_user();
    let jwt = world.user(&user, json!({}), json!({}));
    let mut first = login(&server, &jwt, &user).await;
    first.send("SUB > 1\r\n").await;
    // Another account does not hear it.
    let stranger = KeyPair::new_user();
    let mut other = login(&server, &user_of(&world.other, &stranger, json!({}), json!({})), &stranger).await;
    other.send("SUB > 1\r\nPUB x 1\r\n!\r\n").await;
    assert_eq!(other.until_pong().await, ["MSG x 1 1", "!"]);
    assert_eq!(first.until_pong().await, [""; 0]);
    first.send("PUB y 1\r\n!\r\n").await;
    assert_eq!(first.until_pong().await, ["MSG y 1 1", "!"]);
    assert_eq!(other.until_pong().await, [""; 0]);
    // No signature, another key's, claims of an unknown account, and none.
    refused(&server, &jwt, None).await;
    refused(&server, &jwt, Some(&stranger)).await;
    let nobody = KeyPair::new_account();
    refused(&server, &user_of(&nobody, &user, json!({}), json!({})), Some(&user)).await;
    let issuer_account = json!({ "issuer_account": world.account.public_key() });
    refused(&server, &user_of(&nobody, &user, issuer_account, json!({})), Some(&user)).await;
    refused(&server, "", None).await;
    let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    assert_eq!(lines.info().await["auth_required"], true);
    lines.send("PUB x 1\r\n!\r\n").await;
    assert_eq!(lines.until_end().await, [VIOLATION]);
    // Expired, not valid yet, of another kind of connection, and from another network.
    for (nats, more) in [
        (json!({}), json!({ "exp": now_s() - 1 })),
        (json!({}), json!({ "nbf": now_s() + 60 })),
        (json!({ "allowed_connection_types": ["WEBSOCKET"] }), json!({})),
        (json!({ "src": ["10.0.0.0/8"] }), json!({})),
    ] {
        refused(&server, &world.user(&user, nats, more), Some(&user)).await;
    }
    // A bearer needs no signature.
    let bearer = world.user(&user, json!({ "bearer_token": true }), json!({}));
    assert_eq!(connect(&server, &bearer, None).await.until_pong().await, [""; 0]);
}

#[tokio::test]
async fn claims_limit_what_a_user_may_do() {
    let world = World::new();
    let limits = account_limits(json!({ "conn": 2 }));
    let server = world.start(json!({ "limits": limits }), &[]).await;
    let user = KeyPair::new_user();
    let nats =
        json!({ "subs": 1, "payload": 4, "pub": { "allow": ["ok"] }, "sub": { "allow": ["ok", "also"] } });
    let mut limited = login(&server, &world.user(&user, nats, json!({})), &user).await;
    limited.send("SUB no 1\r\nSUB ok 2\r\nSUB also 3\r\nPUB no 1\r\n!\r\n").await;
    assert_eq!(
        limited.until_pong().await,
        [
            "-ERR 'Permissions Violation for Subscription to \"no\"'",
            "-ERR 'maximum subscriptions exceeded'",
            "-ERR 'Permissions Violation for Publish to \"no\"'",
        ]
    );
    let jwt = world.user(&user, json!({}), json!({}));
    let _second = login(&server, &jwt, &user).await;
    let mut third = connect(&server, &jwt, Some(&user)).await;
    assert_eq!(third.until_end().await, ["-ERR 'maximum account active connections exceeded'"]);
    limited.send("PUB ok 5\r\n12345\r\n").await;
    assert_eq!(limited.until_end().await, ["-ERR 'Maximum Payload Violation'"]);
}

#[tokio::test]
async fn a_connection_ends_when_its_claims_do() {
    let world = World::new();
    let server = world.start(json!({}), &[]).await;
    let user = KeyPair::new_user();
    let jwt = world.user(&user, json!({}), json!({ "exp": now_s() + 2 }));
    let mut lines = login(&server, &jwt, &user).await;
    assert_eq!(lines.until_end().await, ["-ERR 'User Authentication Expired'"]);
    refused(&server, &jwt, Some(&user)).await;
}

#[tokio::test]
async fn changed_claims_of_an_account_hold_on_open_connections() {
    let world = World::new();
    let server = world.start(json!({}), &[]).await;
    let (user, stays) = (KeyPair::new_user(), KeyPair::new_user());
    let jwt = world.user(&user, json!({}), json!({}));
    let mut revoked = login(&server, &jwt, &user).await;
    let mut kept = login(&server, &world.user(&stays, json!({}), json!({})), &stays).await;
    let bearer = KeyPair::new_user();
    let bearers = world.user(&bearer, json!({ "bearer_token": true }), json!({}));
    let mut without = connect(&server, &bearers, None).await;
    assert_eq!(without.until_pong().await, [""; 0]);
    world.write_accounts(json!({
        "revocations": { user.public_key(): now_s() },
        "limits": account_limits(json!({ "disallow_bearer": true })),
    }));
    assert_eq!(revoked.until_end().await, ["-ERR 'User Authentication Revoked'"]);
    assert_eq!(without.until_end().await, [VIOLATION]);
    refused(&server, &jwt, Some(&user)).await;
    assert_eq!(kept.until_pong().await, [""; 0]);
    // A file that cannot be believed changes nothing.
    let forged =
        token(&KeyPair::new_operator(), &world.account.public_key(), "account", json!({}), json!({}));
    world.write("accounts.jwt", &[forged]);
    // The server looks at the file twice a second, so it has read this one by then.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(kept.until_pong().await, [""; 0]);
}

#[tokio::test]
async fn accounts_share_by_their_claims() {
    let world = World::new();
    let exports = json!({ "exports": [
        { "name": "s", "subject": "news.>", "type": "stream" },
        { "name": "q", "subject": "ask", "type": "service" },
    ]});
    let server = world.start(exports, &[]).await;
    let imports = json!({ "imports": [
        { "name": "s", "subject": "news.>", "account": world.account.public_key(), "type": "stream",
          "local_subject": "in.>" },
        { "name": "q", "subject": "ask", "account": world.account.public_key(), "type": "service",
          "local_subject": "question" },
    ]});
    let (user, other) = (KeyPair::new_user(), KeyPair::new_user());
    let mut b = login(&server, &user_of(&world.other, &other, json!({}), json!({})), &other).await;
    b.send("SUB in.> 1\r\nSUB _INBOX.> 2\r\n").await;
    let exporter = json!({ "exports": [
        { "name": "s", "subject": "news.>", "type": "stream" },
        { "name": "q", "subject": "ask", "type": "service" },
    ]});
    let tokens = [
        world.claims(&world.system, json!({})),
        world.claims(&world.account, exporter),
        world.claims(&world.other, imports),
    ];
    world.write("accounts.jwt", &tokens);
    let mut a = login(&server, &world.user(&user, json!({}), json!({})), &user).await;
    a.send("SUB ask 1\r\n").await;
    let mut said = Vec::new();
    while said.is_empty() {
        a.send("PUB news.x 1\r\n!\r\n").await;
        a.until_pong().await;
        said = b.until_pong().await;
    }
    assert_eq!(said[..2], ["MSG in.x 1 1", "!"]);
    b.send("PUB question _INBOX.1 1\r\n?\r\n").await;
    b.until_pong().await;
    let asked = a.until_pong().await;
    let reply = asked[0].split(' ').nth(3).unwrap();
    a.send(&format!("PUB {reply} 2\r\n42\r\n")).await;
    a.until_pong().await;
    assert_eq!(b.until_pong().await, ["MSG _INBOX.1 2 2", "42"]);
}

/// Returns the JSON of the only message.
pub(crate) async fn answer(talker: &mut Talker) -> Value {
    loop {
        let lines = talker.until_pong().await;
        if let Some(body) = lines.iter().find(|line| line.starts_with('{')) {
            return serde_json::from_str(body).unwrap();
        }
    }
}

#[tokio::test]
async fn the_system_account_hears_of_connections_and_asks_the_server() {
    let world = World::new();
    let server = world.start(json!({}), &[]).await;
    let (admin, user) = (KeyPair::new_user(), KeyPair::new_user());
    let mut system = login(&server, &user_of(&world.system, &admin, json!({}), json!({})), &admin).await;
    let account = world.account.public_key();
    system.send(&format!("SUB $SYS.ACCOUNT.{account}.* 1\r\nSUB $SYS.SERVER.*.CLIENT.AUTH.ERR 2\r\n")).await;
    system.send("SUB _INBOX.> 3\r\n").await;
    system.until_pong().await;
    let jwt = world.user(&user, json!({}), json!({}));
    let mut client = login(&server, &jwt, &user).await;
    let event = answer(&mut system).await;
    assert_eq!(event["type"], "io.nats.server.advisory.v1.client_connect");
    assert_eq!(event["client"]["acc"], account);
    assert_eq!(event["client"]["user"], user.public_key(), "beside the account");
    // Who am I?
    client.send("SUB _INBOX.> 1\r\nPUB $SYS.REQ.USER.INFO _INBOX.1 0\r\n\r\n").await;
    assert_eq!(answer(&mut client).await["data"]["account"], account);
    // An account sees its own connections alone.
    client.send("PUB $SYS.REQ.SERVER.PING.CONNZ _INBOX.2 0\r\n\r\n").await;
    let page = answer(&mut client).await;
    assert_eq!(page["data"]["num_connections"], 1, "{page}");
    system.send("PUB $SYS.REQ.SERVER.PING.CONNZ _INBOX.2 0\r\n\r\n").await;
    assert_eq!(answer(&mut system).await["data"]["num_connections"], 2);
    client.send("PUB $SYS.REQ.SERVER.PING.VARZ _INBOX.3 0\r\n\r\n").await;
    let said = client.until_pong().await;
    assert!(said.iter().any(|line| line.contains("503")), "{said:?}");
    // Events of the system account are not heard elsewhere.
    refused(&server, "", None).await;
    let event = answer(&mut system).await;
    assert_eq!(event["reason"], "Authentication Failure");
    assert!(!event.to_string().contains(&jwt), "no event shows a token");
    drop(client);
    let event = answer(&mut system).await;
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&"io.nats.server.advisory.v1.client_disconnect".into(), &"Client Closed".into())
    );
}

/// Returns why a server with these settings does not start.
pub(crate) async fn refusal(world: &World, settings: &[(&str, &str)]) -> String {
    let data = world.folder.path().join("data").display().to_string();
    let ports = ["kafka", "nats", "http"].map(|name| (name, "127.0.0.1:0"));
    let folder = [("data.dir", &*data)];
    let settings = settings.iter().chain(&ports).chain(&folder);
    let settings = settings.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let started = start(Startup { settings, disk: local_disk() }).await;
    started.err().expect("it does not start").to_string()
}

/// Sends a request and returns its answer.
pub(crate) async fn ask(talker: &mut Talker, subject: &str, body: &str) -> Value {
    talker.send(&format!("PUB $SYS.REQ.{subject} _INBOX.1 {}\r\n{body}\r\n", body.len())).await;
    answer(talker).await
}

/// As `nsc push` and `nsc delete account` do.
#[tokio::test]
async fn accounts_are_pushed_into_the_metadata_and_deleted() {
    let world = World::new();
    let mut server = world.start(json!({}), &[]).await;
    let admin = KeyPair::new_user();
    let admins = user_of(&world.system, &admin, json!({}), json!({}));
    let mut system = login(&server, &admins, &admin).await;
    system.send("SUB _INBOX.> 1\r\n").await;
    // An account that is not in the file.
    let (added, user) = (KeyPair::new_account(), KeyPair::new_user());
    let jwt = user_of(&added, &user, json!({}), json!({}));
    refused(&server, &jwt, Some(&user)).await;
    let (id, claims) = (added.public_key(), world.claims(&added, json!({})));
    let forged = token(&KeyPair::new_operator(), &id, "account", json!({}), json!({}));
    for (subject, body) in [
        ("CLAIMS.UPDATE".to_owned(), forged.as_str()),
        (format!("ACCOUNT.{}.CLAIMS.UPDATE", world.other.public_key()), claims.as_str()),
        ("CLAIMS.UPDATE".to_owned(), "x"),
        ("CLAIMS.DELETE".to_owned(), claims.as_str()),
    ] {
        let said = ask(&mut system, &subject, body).await;
        assert_eq!(said["error"]["code"], 500, "{said}");
    }
    refused(&server, &jwt, Some(&user)).await;
    let said = ask(&mut system, "CLAIMS.UPDATE", &claims).await;
    assert_eq!(said["data"], json!({ "account": id, "code": 200, "message": "jwt updated" }));
    drop(login(&server, &jwt, &user).await);
    assert!(ask(&mut system, "CLAIMS.LIST", "").await["data"].to_string().contains(&id));
    system.send(&format!("PUB $SYS.REQ.ACCOUNT.{id}.CLAIMS.LOOKUP _INBOX.2 0\r\n\r\n")).await;
    let mut said = Vec::new();
    while said.is_empty() {
        said = system.until_pong().await;
    }
    assert_eq!(said[1], claims);
    // They are there after a restart.
    server.restart().await;
    let mut lines = login(&server, &jwt, &user).await;
    let mut system = login(&server, &admins, &admin).await;
    system.send("SUB _INBOX.> 1\r\n").await;
    let own = world.operator.public_key();
    let deletion = token(&world.operator, &own, "generic", json!({ "accounts": [id] }), json!({}));
    let said = ask(&mut system, "CLAIMS.DELETE", &deletion).await;
    assert_eq!(said["data"]["code"], 200, "{said}");
    assert_eq!(lines.until_end().await, [VIOLATION]);
    refused(&server, &jwt, Some(&user)).await;
}

/// As in nats-server: the limits of an open connection change, and it stays.
#[tokio::test]
async fn pushed_limits_hold_for_open_connections_when_the_push_is_answered() {
    let world = World::new();
    let server = world.start(json!({}), &[]).await;
    let (admin, user) = (KeyPair::new_user(), KeyPair::new_user());
    let admins = user_of(&world.system, &admin, json!({}), json!({}));
    let mut system = login(&server, &admins, &admin).await;
    system.send("SUB _INBOX.> 1\r\n").await;
    let jwt = world.user(&user, json!({}), json!({}));
    let mut open = login(&server, &jwt, &user).await;
    let push = async |system: &mut Talker, limits: Value| {
        let claims = world.claims(&world.account, json!({ "limits": account_limits(limits) }));
        assert_eq!(ask(system, "CLAIMS.UPDATE", &claims).await["data"]["message"], "jwt updated");
    };
    push(&mut system, json!({ "subs": 1, "payload": 3, "conn": 1 })).await;
    let mut second = connect(&server, &jwt, Some(&user)).await;
    let too_many = ["-ERR 'maximum account active connections exceeded'"];
    assert_eq!(second.until_end().await, too_many);
    open.send("SUB a 1\r\nSUB b 2\r\n").await;
    assert_eq!(open.until_pong().await, ["-ERR 'maximum subscriptions exceeded'"]);
    push(&mut system, json!({ "subs": 2 })).await;
    drop(login(&server, &jwt, &user).await);
    open.send("SUB b 2\r\nPUB b 5\r\nhello\r\n").await;
    assert_eq!(open.until_pong().await, ["MSG b 2 5", "hello"]);
    push(&mut system, json!({ "payload": 3 })).await;
    open.send("PUB b 5\r\nhello\r\n").await;
    assert_eq!(open.until_end().await, ["-ERR 'Maximum Payload Violation'"]);
}

#[tokio::test]
async fn settings_that_an_operator_excludes_are_refused() {
    let world = World::new();
    let nats = json!({ "system_account": world.system.public_key() });
    let own = token(&world.operator, &world.operator.public_key(), "operator", nats, json!({}));
    let operator = world.write("operator.jwt", &[own]);
    let forged =
        token(&KeyPair::new_operator(), &world.account.public_key(), "account", json!({}), json!({}));
    let accounts = world.write("accounts.jwt", &[forged]);
    let file = ("tailrace.nats.operator.file", &*operator);
    for (settings, expected) in [
        (vec![file, ("tailrace.nats.token", "t")], "remove tailrace.nats.token"),
        (vec![file, ("tailrace.nats.operator.accounts.file", &*accounts)], "not a trusted operator"),
        (
            vec![("tailrace.nats.operator.accounts.file", &*accounts)],
            "tailrace.nats.operator.file must be set",
        ),
        (vec![("tailrace.nats.operator.file", &*accounts)], "operator"),
        (vec![("tailrace.nats.topics.account", "X")], "there is no account X"),
    ] {
        let error = refusal(&world, &settings).await;
        assert!(error.contains(expected), "{error}");
    }
}
