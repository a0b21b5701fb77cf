use std::collections::BTreeMap;
use tailrace_env::time;
use tailrace_env::time::Duration;

use tailrace_config::DynamicConfigs;

use super::settings::unreachable_topics;
use super::*;
use tailrace_identity::nats_accounts::jwt::ConnectionKind;

fn load(settings: &[(&str, &str)]) -> Result<Auth, AuthError> {
    tailrace_runtime::install();
    let settings: BTreeMap<_, _> = settings.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    Auth::load(&BrokerConfig::resolve(&settings, &DynamicConfigs::default()).unwrap())
}

fn load_file(text: &str) -> Result<Auth, AuthError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    load(&[("tailrace.nats.users.file", &file.path().display().to_string())])
}

/// A client at a server without a node, so that there are no users of the cluster.
fn nobody() -> Asker {
    let client = Caller::client(tailrace_node::Door::Nats, ([127, 0, 0, 1], 1).into());
    let connection = Connection {
        kind: ConnectionKind::Standard,
        address: Some([127, 0, 0, 1].into()),
        has_trusted_proxy: false,
    };
    Asker { node: Weak::new(), client, connection, certificate: None }
}

fn options(user: &str, password: &str) -> ConnectOptions {
    ConnectOptions { user: Some(user.to_owned()), pass: Some(password.to_owned()), ..Default::default() }
}

async fn permissions(auth: &Auth, user: &str) -> Arc<Permissions> {
    auth.authenticate(&options(user, "p"), "", &nobody()).await.unwrap()
}

async fn denied(auth: &Auth, connect: &ConnectOptions) -> Denied {
    reason(auth.authenticate(connect, "nonce", &nobody()).await).expect_err("must be denied")
}

/// Finds the reason in the text of a refusal.
fn reason(result: Result<Arc<Permissions>, Refused>) -> Result<Arc<Permissions>, Denied> {
    use Denied::{NoCredentials, Unknown, WrongSecret, WrongSignature};
    result.map_err(|refused| {
        let text = refused.to_string();
        let all = [NoCredentials, Unknown, WrongSecret, WrongSignature];
        all.into_iter().find(|denied| text.ends_with(&denied.to_string())).unwrap_or_else(|| panic!("{text}"))
    })
}

#[tokio::test]
async fn without_users_everybody_may_do_everything() {
    let auth = load(&[]).unwrap();
    assert!(!auth.required() && !auth.wants_nonce());
    let permissions = auth.authenticate(&options("anyone", "whatever"), "", &nobody()).await.unwrap();
    assert!(permissions.may_publish(b"a") && permissions.may_subscribe(b">", None));
    assert!(!permissions.filters(b">", Some(b"q")) && !permissions.tracks_replies());
    assert_eq!(permissions.user().name(), None);
}

/// Without a node, nobody knows the users of the cluster.
#[tokio::test]
async fn settings_decide_whether_users_of_the_cluster_and_guests_are_let_in() {
    const RULES: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let with_rules = [("authorizer.class.name", RULES), ("super.users", "User:a")];
    let required = [("tailrace.nats.authentication", "required")];
    let user = [("tailrace.nats.user", "alice"), ("tailrace.nats.password", "p")];
    // Settings, whether credentials are checked, whether they are required, and whether there is a guest.
    for (settings, checks, required, has_guest) in [
        (vec![], false, false, true),
        (user.to_vec(), true, true, false),
        (with_rules.to_vec(), true, false, true),
        (required.to_vec(), true, true, false),
        ([&with_rules[..], &user].concat(), true, true, false),
        ([&with_rules[..], &required].concat(), true, true, false),
    ] {
        let auth = load(&settings).unwrap();
        assert_eq!(
            (auth.checks(), auth.required(), auth.has_guest()),
            (checks, required, has_guest),
            "{settings:?}"
        );
        assert_eq!(auth.asks(), required && !has_guest);
        let nothing = auth.authenticate(&ConnectOptions::default(), "", &nobody()).await;
        assert_eq!(nothing.is_ok(), has_guest, "{settings:?}");
        let stranger = auth.authenticate(&options("bob", "p"), "", &nobody()).await;
        assert_eq!(stranger.is_ok(), !checks, "{settings:?}");
        let has_rights = auth.guest(&nobody()).map(|guest| guest.has_rights());
        assert_eq!(has_rights, has_guest.then_some(checks), "{settings:?}");
    }
}

#[tokio::test]
async fn a_user_of_the_settings_needs_the_password() {
    let auth = load(&[("tailrace.nats.user", "alice"), ("tailrace.nats.password", "sesame")]).unwrap();
    let permissions = auth.authenticate(&options("alice", "sesame"), "", &nobody()).await.unwrap();
    assert_eq!(permissions.user().name().map(|name| &**name), Some("alice"));
    for (user, password, why) in [
        ("alice", "sesam", Denied::WrongSecret),
        ("alice", "sesamee", Denied::WrongSecret),
        ("alice", "", Denied::WrongSecret),
        ("bob", "sesame", Denied::Unknown),
        ("", "sesame", Denied::Unknown),
        ("", "", Denied::NoCredentials),
    ] {
        assert_eq!(denied(&auth, &options(user, password)).await, why, "{user} {password}");
    }
    let token = ConnectOptions { auth_token: Some("sesame".to_owned()), ..Default::default() };
    assert_eq!(denied(&auth, &token).await, Denied::Unknown);
    assert!(!format!("{auth:?}").contains("sesame"));
}

#[tokio::test]
async fn a_token_lets_in_every_holder() {
    let auth = load(&[("tailrace.nats.token", "t0ken")]).unwrap();
    let with = |token: &str| ConnectOptions { auth_token: Some(token.to_owned()), ..Default::default() };
    assert!(auth.authenticate(&with("t0ken"), "", &nobody()).await.is_ok());
    assert_eq!(denied(&auth, &with("token")).await, Denied::WrongSecret);
    assert_eq!(denied(&auth, &options("t0ken", "t0ken")).await, Denied::NoCredentials);
}

/// The event loop has one thread, and continues meanwhile.
#[tokio::test]
async fn slow_passwords_are_compared_elsewhere() {
    let hash = bcrypt::hash_with_result("sesame", 10).unwrap().to_string();
    let auth = load(&[("tailrace.nats.user", "alice"), ("tailrace.nats.password", &hash)]).unwrap();
    for (user, password, expected) in [
        ("alice", "sesamE", Err(Denied::WrongSecret)),
        ("mallory", "sesame", Err(Denied::Unknown)),
        ("alice", "sesame", Ok(())),
    ] {
        let connect = options(user, password);
        let nobody = nobody();
        let mut check = std::pin::pin!(auth.authenticate(&connect, "", &nobody));
        let mut turns = 0;
        let found = loop {
            tokio::select! {
                biased;
                found = &mut check => break found,
                () = tokio::task::yield_now() => turns += 1,
            }
        };
        assert_eq!(reason(found).map(|_| ()), expected, "{user} {password}");
        assert!(turns > 0, "{user} {password}");
    }
    // An accepted password is cached, and needs no thread.
    let (connect, nobody) = (options("alice", "sesame"), nobody());
    let again = tokio::select! {
        biased;
        found = auth.authenticate(&connect, "", &nobody) => found.is_ok(),
        () = std::future::ready(()) => false,
    };
    assert!(again);
}

#[tokio::test]
async fn an_nkey_must_sign_this_connections_nonce() {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    let (pair, other) = (nkeys::KeyPair::new_user(), nkeys::KeyPair::new_user());
    let auth = load(&[("tailrace.nats.nkey", &pair.public_key())]).unwrap();
    assert!(auth.required() && auth.wants_nonce());
    let nonce = nonce();
    assert_eq!(nonce.len(), 22);
    let signed = |pair: &nkeys::KeyPair, nonce: &str| pair.sign(nonce.as_bytes()).unwrap();
    let with = |key: &nkeys::KeyPair, sig: String| ConnectOptions {
        nkey: Some(key.public_key()),
        sig: Some(sig),
        ..Default::default()
    };
    for sig in [URL_SAFE_NO_PAD.encode(signed(&pair, &nonce)), STANDARD.encode(signed(&pair, &nonce))] {
        let permissions = auth.authenticate(&with(&pair, sig), &nonce, &nobody()).await.unwrap();
        assert_eq!(permissions.user().name().map(|name| &**name), Some(pair.public_key().as_str()));
    }
    for (connect, why) in [
        (with(&pair, URL_SAFE_NO_PAD.encode(signed(&pair, "earlier"))), Denied::WrongSignature),
        (with(&pair, URL_SAFE_NO_PAD.encode(signed(&other, &nonce))), Denied::WrongSignature),
        (with(&other, URL_SAFE_NO_PAD.encode(signed(&other, &nonce))), Denied::Unknown),
        (with(&pair, String::new()), Denied::WrongSignature),
        (with(&pair, "?".repeat(5000)), Denied::WrongSignature),
        // The key is not the name of a user with a password.
        (options(&pair.public_key(), "x"), Denied::Unknown),
    ] {
        let found = reason(auth.authenticate(&connect, &nonce, &nobody()).await).expect_err("must be denied");
        assert_eq!(found, why);
    }
}

#[test]
fn settings_that_are_wrong_are_named() {
    for (key, value, part) in [
        ("tailrace.nats.nkey", "UABC", "expected a public user nkey"),
        ("tailrace.nats.token", "$2b$99$s3cret", "bcrypt"),
    ] {
        let said = load(&[(key, value)]).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{key}: ")) && said.contains(part), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    let user = [("tailrace.nats.user", "alice"), ("tailrace.nats.password", "$2b$99$s3cret")];
    let said = load(&user).unwrap_err().to_string();
    assert!(said.starts_with("tailrace.nats.password: ") && !said.contains("s3cret"), "{said}");
}

/// Verdicts of nats-server 2.15.2 with the same users, obtained over the wire. `!` marks where tailrace
/// differs. See `grants`.
const VERDICTS: &str = "
a sub foo.* yes
a sub foo.> no!
a sub foo.a yes
a sub > no
a sub q.x no
a sub q.x,workers yes
a sub q.x,other no
a sub q.d,workers yes
a sub q.d,other no
a sub foo.secret no
a sub foo.secret,workers no
a sub deep.*.x yes
a sub deep.> no
a sub foo.a,any yes
a sub q.*,workers yes
a sub q.>,workers yes
a sub q.> no
a sub *.x no
a sub * no
a pub foo.a yes
a pub foo.a.b no
a pub bar.x no
a pub bar.* yes
a pub bar.x.y yes
a pub foo.> yes
a pub foo..a no
a pub zip no
b sub s.* yes
b get s.one no
b get s.two yes
b sub s.one no
b sub s.*.x no
b sub s.> yes
b get s.a.x no
b get s.a.y yes
b sub t.a,dq no
b sub t.a,other yes
b sub t.> yes
b get t.a yes
b get t.a,other yes
b get t.a,dq no
b sub t.*,dq no
b sub *.a,dq yes
b pub no.a no
b pub no yes
b pub no.* no
o sub a yes
o pub b no
w sub > no!
w sub * yes
w sub a yes
w sub a.b no
w pub > yes
w pub a.b no
w sub *.> no
";

const USERS: &str = r#"
[[users]]
user = "a"
password = "p"
publish = { allow = ["foo.*", "bar.>"], deny = ["bar.x"] }
subscribe = { allow = ["foo.*", "q.> workers", "deep.*.x", "_INBOX.>"], deny = ["foo.secret", "q.d other"] }

[[users]]
user = "b"
password = "p"
publish = { deny = ["no.>"] }
subscribe = { deny = ["s.one", "s.*.x", "t.> dq"] }

[[users]]
user = "r"
password = "p"
publish = { allow = ["plain"] }
subscribe = { allow = ["req.>"] }
allow_responses = { max = 2, expires = "50ms" }

[[users]]
user = "s"
password = "p"
publish = { allow = ["plain"] }
allow_responses = { max = 2, expires = "1h" }

[[users]]
user = "o"
password = "p"
allow_responses = true

[[users]]
user = "w"
password = "p"
publish = { allow = ["*"] }
subscribe = { allow = ["*"] }
"#;

#[tokio::test]
async fn permissions_are_those_of_nats_server() {
    let auth = load_file(USERS).unwrap();
    for line in VERDICTS.lines().filter(|line| !line.is_empty()) {
        let [user, verb, what, verdict] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let permissions = permissions(&auth, user).await;
        let (subject, queue) = what.split_once(',').map_or((what, None), |(s, q)| (s, Some(q.as_bytes())));
        let subject = subject.as_bytes();
        // Twice: once decided, once from the cache.
        for _ in 0..2 {
            let allowed = match verb {
                "sub" => permissions.may_subscribe(subject, queue),
                "get" => permissions.may_deliver(subject, queue),
                _ => permissions.may_publish(subject),
            };
            assert_eq!(allowed, verdict == "yes", "{line}");
        }
    }
}

#[tokio::test]
async fn deliveries_are_looked_at_only_where_something_is_denied_within() {
    let auth = load_file(USERS).unwrap();
    let b = permissions(&auth, "b").await;
    for (pattern, queue, expected) in [
        ("s.*", None, true),
        (">", None, true),
        ("*.a", None, true),
        ("s.two", None, false),
        ("u.>", None, false),
        ("t.a", Some("dq"), true),
        ("t.a", None, false),
        ("s.a.b.*", None, false),
    ] {
        assert_eq!(b.filters(pattern.as_bytes(), queue.map(str::as_bytes)), expected, "{pattern} {queue:?}");
    }
}

#[tokio::test]
async fn a_request_that_was_delivered_may_be_answered_as_often_and_as_long_as_is_allowed() {
    let auth = load_file(USERS).unwrap();
    let [r, s] = [permissions(&auth, "r").await, permissions(&auth, "s").await];
    assert!(s.tracks_replies());
    assert!(s.may_publish(b"plain") && !s.may_publish(b"_INBOX.1"));
    s.delivered(b"_INBOX.1");
    assert!(s.may_publish(b"_INBOX.1") && s.may_publish(b"_INBOX.1") && !s.may_publish(b"_INBOX.1"));
    // In one turn, too.
    let mut turn = TurnSubjects::default();
    turn.begin();
    s.delivered(b"_INBOX.1");
    let answered = [(); 3].map(|()| s.may_publish_in(&mut turn, b"_INBOX.1"));
    assert_eq!(answered, [true, true, false]);
    assert!([(); 3].iter().all(|()| s.may_publish_in(&mut turn, b"plain")));
    assert!(!s.may_publish_in(&mut turn, b"$NRG.x"), "subjects of servers");
    r.delivered(b"_INBOX.2");
    // The permission to answer must expire on its own.
    time::sleep(Duration::from_millis(60)).await;
    assert!(!r.may_publish(b"_INBOX.2"));
    // Another connection of the same user has its own permissions.
    let other = permissions(&auth, "s").await;
    s.delivered(b"_INBOX.3");
    assert!(!other.may_publish(b"_INBOX.3") && s.may_publish(b"_INBOX.3"));
    // Requests that are never answered do not pile up, even if their time is long.
    let o = permissions(&auth, "o").await;
    for number in 0..200_000 {
        o.delivered(format!("_INBOX.many.{number}").as_bytes());
    }
    assert!(o.may_publish(b"_INBOX.many.199999") && !o.may_publish(b"_INBOX.many.0"));
}

#[tokio::test]
async fn defaults_are_for_users_without_permissions_and_for_the_no_auth_user() {
    let text = r#"
no_auth_user = "guest"
[default_permissions]
subscribe = { allow = ["public.>"] }
publish = { deny = [">"] }
[[users]]
user = "guest"
password = "never used"
[[users]]
user = "own"
password = "p"
publish = { allow = ["x"] }
"#;
    let auth = load_file(text).unwrap();
    let guest = auth.authenticate(&ConnectOptions::default(), "", &nobody()).await.unwrap();
    assert_eq!(guest.user().name().map(|name| &**name), Some("guest"));
    assert!(
        guest.may_subscribe(b"public.a", None)
            && !guest.may_subscribe(b"a", None)
            && !guest.may_publish(b"a")
    );
    let own = permissions(&auth, "own").await;
    assert!(own.may_publish(b"x") && !own.may_publish(b"y") && own.may_subscribe(b"a", None));
    // A client with wrong credentials is not the guest.
    assert_eq!(denied(&auth, &options("guest", "guess")).await, Denied::WrongSecret);
    let token = ConnectOptions { auth_token: Some("x".to_owned()), ..Default::default() };
    assert_eq!(denied(&auth, &token).await, Denied::Unknown);
}

#[test]
fn a_file_that_is_wrong_or_missing_is_named() {
    let said = load_file("[[users]]\nuser = \"a\"\npasword = \"s3cret\"").unwrap_err().to_string();
    assert!(said.contains(", line 3: unknown field `pasword`") && !said.contains("s3cret"), "{said}");
    let missing = load(&[("tailrace.nats.users.file", "/nowhere/users.toml")]).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read /nowhere/users.toml (tailrace.nats.users.file)"), "{missing}");
}

#[test]
fn a_warning_says_that_topics_are_in_no_account_of_the_operator() {
    let warning = |account: &str| {
        let settings = [("tailrace.nats.topics.account".to_owned(), account.to_owned())];
        let config = BrokerConfig::resolve(&settings.into(), &DynamicConfigs::default()).unwrap();
        unreachable_topics(&config)
    };
    assert_eq!(warning(&nkeys::KeyPair::new_account().public_key()), None);
    for account in ["$G", "SHOP", &nkeys::KeyPair::new_user().public_key()] {
        let said = warning(account).unwrap();
        assert!(said.contains("tailrace.nats.topics.account must be the public key"), "{said}");
    }
}

/// What a certificate decides, and what it does not.
#[tokio::test]
async fn with_certificates_a_client_without_one_is_refused_whatever_it_presents() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[[users]]\nuser = 'CN=a'\n[[users]]\nuser = 'bob'\npassword = 'p'\n")
        .unwrap();
    let auth = load(&[
        ("tailrace.nats.users.file", &file.path().display().to_string()),
        ("tailrace.nats.tls.verify.and.map", "true"),
        ("tailrace.nats.tls", "required"),
        ("tailrace.tls.client.auth", "required"),
        ("tailrace.tls.ca.file", "ca.pem"),
        ("tailrace.tls.certificate.file", "c.pem"),
        ("tailrace.tls.key.file", "k.pem"),
    ])
    .unwrap();
    assert!(auth.required() && auth.checks() && auth.asks() && !auth.has_guest());
    for connect in [ConnectOptions::default(), options("CN=a", ""), options("bob", "p")] {
        let refused = auth.authenticate(&connect, "", &nobody()).await.expect_err("it is refused");
        assert_eq!(refused.to_string(), "it shows no certificate");
    }
    let broken = Asker { certificate: Some([0; 8].into()), ..nobody() };
    let refused = auth.authenticate(&options("bob", "p"), "", &broken).await.expect_err("it is refused");
    assert_eq!(refused.to_string(), "its certificate is malformed");
}
