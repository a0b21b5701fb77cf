//! Keys of tokens from a web server: over TLS, rotated, and while the web server fails.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::KeyPair;
use serde_json::{Value, json};
use tailrace_server::{Startup, start};
use tempfile::TempDir;

use crate::common::certificates::Authority;
use crate::common::issuer::{Answer, Issuer, KeyServer, claims, encoded, now};
use crate::common::logins::{handshake, token};
use crate::common::rig::eventually;
use crate::common::{TestServer, local_disk};

struct Rig {
    server: TestServer,
    keys: KeyServer,
    issuer: Issuer,
    _authority: Authority,
}

async fn rig(answer: Option<Answer>, more: &[(&'static str, &str)]) -> Rig {
    let (authority, issuer) = (Authority::new(), Issuer::new("one"));
    let keys = KeyServer::start(Some(&authority), answer.unwrap_or(Answer::Keys(issuer.keys()))).await;
    let mut settings = keys.settings("https");
    settings.push(("tailrace.oauthbearer.jwks.ca.file", authority.path("ca.pem").display().to_string()));
    settings.push(("tailrace.kafka.authentication", "requested".to_owned()));
    // Many logins fail here, and each would be delayed for longer.
    settings.push(("connection.failed.authentication.delay.ms", "0".to_owned()));
    settings.extend(more.iter().map(|&(key, value)| (key, value.to_owned())));
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    Rig { server: TestServer::with(&settings).await, keys, issuer, _authority: authority }
}

impl Rig {
    /// Reports whether a token logs in.
    async fn admits(&self, text: &str) -> bool {
        let mut client = self.server.connect().await;
        assert_eq!(handshake(&mut client, "OAUTHBEARER").await, 0);
        let answer = token(&mut client, format!("n,,\x01auth=Bearer {text}\x01\x01")).await.unwrap();
        answer.error_code == 0 && answer.auth_bytes.is_empty()
    }

    async fn reads(&self, result: &str) -> f64 {
        self.server.metric(&format!("tailrace_token_key_reads_total{{result=\"{result}\"}}")).await
    }
}

#[tokio::test]
async fn keys_come_over_tls_and_a_new_one_is_used_by_the_first_token_that_names_it() {
    let rig = rig(None, &[]).await;
    let old = rig.issuer.token(&claims("orders", 600));
    assert!(rig.admits(&old).await);
    let next = Issuer::new("two");
    let new = next.token(&claims("orders", 600));
    assert!(!rig.admits(&new).await, "not published yet");
    rig.keys.answers(Answer::Keys(Issuer::new("three").keys()));
    assert!(!rig.admits(&Issuer::new("four").token(&claims("orders", 600))).await);
    assert!(!rig.admits(&old).await, "its key was withdrawn");
    rig.keys.answers(Answer::Keys(next.keys()));
    // Each id is a reason once a minute, and this one was.
    assert!(!rig.admits(&new).await);
    let _ = rig.admits(&Issuer::new("five").token(&claims("orders", 600))).await;
    assert!(rig.admits(&new).await);
}

/// A small message of a stranger must not cost the identity provider a request each.
#[tokio::test]
async fn invented_keys_cause_few_fetches() {
    let rig = rig(None, &[]).await;
    assert!(rig.admits(&rig.issuer.token(&claims("orders", 600))).await);
    let before = rig.keys.requests();
    for number in 0..60 {
        let header = json!({ "alg": "ES256", "kid": format!("invented {number}") });
        assert!(!rig.admits(&rig.issuer.token_with(&header, &claims("orders", 600))).await);
    }
    let fetches = rig.keys.requests() - before;
    assert!((1..=16).contains(&fetches), "{fetches}");
    assert!(rig.admits(&rig.issuer.token(&claims("orders", 600))).await, "others are not disturbed");
}

#[tokio::test]
async fn while_the_web_server_fails_the_last_keys_count_until_their_time_is_over() {
    let times = [
        ("sasl.oauthbearer.jwks.endpoint.refresh.ms", "1000"),
        ("tailrace.oauthbearer.jwks.keep.ms", "4000"),
    ];
    let rig = rig(None, &times).await;
    let text = rig.issuer.token(&claims("orders", 600));
    assert!(rig.admits(&text).await);
    rig.keys.answers(Answer::Status(503));
    eventually("a fetch fails", || async { rig.reads("failed").await >= 1.0 }).await;
    assert!(rig.admits(&text).await, "the last keys count");
    let failing = Instant::now();
    eventually("the keys are too old", || async { !rig.admits(&text).await }).await;
    assert!(failing.elapsed() < Duration::from_secs(20));
    rig.keys.answers(Answer::Keys(rig.issuer.keys()));
    eventually("the web server is back", || async { rig.admits(&text).await }).await;
}

#[tokio::test]
async fn no_bad_answer_changes_the_keys() {
    let rig = rig(None, &[]).await;
    let text = rig.issuer.token(&claims("orders", 600));
    assert!(rig.admits(&text).await);
    // The other set would be used if the redirect were followed.
    let other = Issuer::new("other");
    let elsewhere = KeyServer::start(None, Answer::Keys(other.keys())).await;
    let mut counts = BTreeMap::from([("failed", 0.0), ("refused", 0.0)]);
    for (number, (answer, result)) in [
        (Answer::Redirect(format!("http://localhost:{}/keys", elsewhere.address.port())), "failed"),
        (Answer::Keys("<html>Sign in".to_owned()), "refused"),
        (Answer::Keys(json!({ "keys": [] }).to_string()), "refused"),
        (Answer::Long, "failed"),
        (Answer::Status(404), "failed"),
    ]
    .into_iter()
    .enumerate()
    {
        rig.keys.answers(Answer::Keys(rig.issuer.keys()));
        eventually("the keys are back", || async { rig.reads("used").await >= (number + 1) as f64 }).await;
        rig.keys.answers(answer.clone());
        // After a burst, an unknown key is a reason each 5 s.
        eventually("the bad answer is there", || async {
            let header = json!({ "alg": "ES256", "kid": format!("{number} {:?}", Instant::now()) });
            assert!(!rig.admits(&rig.issuer.token_with(&header, &claims("orders", 600))).await);
            rig.reads(result).await > counts[result]
        })
        .await;
        assert!(rig.admits(&text).await, "{}", format!("{answer:?}").get(..20).unwrap_or_default());
        assert!(!rig.admits(&other.token(&claims("orders", 600))).await);
        rig.keys.answers(Answer::Keys(rig.issuer.keys()));
        for (result, count) in &mut counts {
            *count = rig.reads(result).await;
        }
    }
    assert_eq!(elsewhere.requests(), 0, "the redirect was not followed");
}

#[tokio::test]
async fn a_node_starts_without_the_keys_and_a_web_server_that_stalls_holds_up_nobody_else() {
    let rig = rig(Some(Answer::Stall), &[]).await;
    let text = rig.issuer.token(&claims("orders", 600));
    let began = Instant::now();
    assert!(!rig.admits(&text).await);
    assert!(began.elapsed() < Duration::from_secs(8), "a login waits a bounded time");
    let mut client = rig.server.connect().await;
    client.create_topic("t", 1, &[]).await;
    rig.server.is_healthy("t").await;
    rig.keys.answers(Answer::Keys(rig.issuer.keys()));
    eventually("the keys are there", || async { rig.admits(&text).await }).await;
}

/// CVE-2026-33557: any token was accepted. Each of these has a single fault.
#[tokio::test]
async fn a_token_with_a_single_fault_is_refused() {
    let rig = rig(None, &[]).await;
    let with = |claim: &str, value: Value| {
        let mut all = claims("orders", 600);
        all[claim] = value;
        rig.issuer.token(&all)
    };
    let without = |claim: &str| {
        let mut all = claims("orders", 600);
        all.as_object_mut().unwrap().remove(claim);
        rig.issuer.token(&all)
    };
    let with_header = |header: Value| rig.issuer.token_with(&header, &claims("orders", 600));
    let valid = rig.issuer.token(&claims("orders", 600));
    let [_, payload, signature] = valid.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    // The public key as the secret of HS256.
    let hs256 = {
        let signed = format!("{}.{payload}", encoded(json!({ "alg": "HS256", "kid": "one" }).to_string()));
        let key = hmac::Key::new(hmac::HMAC_SHA256, rig.issuer.key.public_key().as_ref());
        format!("{signed}.{}", encoded(hmac::sign(&key, signed.as_bytes())))
    };
    let mut other_signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    other_signature[10] ^= 1;
    let header = |header: &Value| encoded(header.to_string());
    let twice = encoded(r#"{"sub":"a","sub":"orders"}"#);
    for (fault, text) in [
        ("issuer", with("iss", json!("https://idp/"))),
        ("no issuer", without("iss")),
        ("audience", with("aud", json!(["kafka2"]))),
        ("no audience", without("aud")),
        ("expired", with("exp", json!(now() - 60))),
        ("no expiry", without("exp")),
        ("expiry as text", with("exp", json!((now() + 600).to_string()))),
        ("not yet valid", with("nbf", json!(now() + 300))),
        ("issued in the future", with("iat", json!(now() + 300))),
        ("no issue time", without("iat")),
        ("blank subject", with("sub", json!(" "))),
        ("subject as number", with("sub", json!(7))),
        ("no subject", without("sub")),
        ("anonymous", with("sub", json!("ANONYMOUS"))),
        ("scope as number", with("scope", json!(7))),
        ("scope twice", with("scope", json!(["a", "a"]))),
        ("alg none", format!("{}.{payload}.", header(&json!({ "alg": "none", "kid": "one" })))),
        ("alg none with a signature", with_header(json!({ "alg": "none", "kid": "one" }))),
        ("HS256 with the public key", hs256),
        ("key of another type", with_header(json!({ "alg": "RS256", "kid": "one" }))),
        ("another curve", with_header(json!({ "alg": "ES384", "kid": "one" }))),
        ("unknown kid", with_header(json!({ "alg": "ES256", "kid": "nobody's" }))),
        ("no kid", with_header(json!({ "alg": "ES256" }))),
        ("crit", with_header(json!({ "alg": "ES256", "kid": "one", "crit": ["x"] }))),
        ("another key of the same id", Issuer::new("one").token(&claims("orders", 600))),
        (
            "another signature",
            format!("{}{}", &valid[..valid.len() - signature.len()], encoded(&other_signature)),
        ),
        ("truncated", valid[..valid.len() - 2].to_owned()),
        ("no signature", valid[..valid.len() - signature.len() - 1].to_owned()),
        ("a claim twice", format!("{}.{twice}.{signature}", valid.split('.').next().unwrap())),
    ] {
        assert!(!rig.admits(&text).await, "{fault}");
    }
    assert!(rig.admits(&valid).await);
}

#[tokio::test]
async fn addresses_and_authorities_that_are_not_safe_are_refused_at_the_start() {
    let folder = TempDir::new().unwrap();
    let keys = KeyServer::start(None, Answer::Stall).await;
    let base = keys.settings("https");
    let ca = "tailrace.oauthbearer.jwks.ca.file";
    let url = "sasl.oauthbearer.jwks.endpoint.url";
    let loopback = "tailrace.oauthbearer.jwks.http.loopback";
    for (changes, part) in [
        (&[(url, "http://localhost/keys")][..], "http:// is not safe"),
        (&[(url, "http://idp/keys"), (loopback, "true")], "http:// is not safe"),
        (&[(url, "https://user:open-sesame@idp/keys")], "must not have a user or a password"),
        (&[(url, "https:///keys")], "expected https://HOST"),
        (&[(ca, "/nowhere/ca.pem")], "/nowhere/ca.pem"),
        (&[("tailrace.oauthbearer.jwks.keep.ms", "3600000")], "must be longer than"),
        (&[("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "20000")], "must not be longer than"),
        (
            &[
                (url, "http://localhost:1/keys"),
                (loopback, "true"),
                ("tailrace.audit.log.file", "/nowhere/audit.log"),
            ],
            "tailrace.audit.log.file",
        ),
    ] {
        let mut all: BTreeMap<_, _> =
            base.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        for listener in ["kafka", "http", "nats"] {
            all.insert(listener.to_owned(), "127.0.0.1:0".to_owned());
        }
        all.insert("data.dir".to_owned(), folder.path().join("data").display().to_string());
        all.extend(changes.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())));
        tailrace_runtime::install();
        let Err(error) = start(Startup { settings: all, disk: local_disk() }).await else {
            panic!("started with {changes:?}");
        };
        assert!(error.to_string().contains(part), "{changes:?}: {error}");
    }
}

#[tokio::test]
async fn keys_may_come_without_tls_from_this_machine_if_a_setting_says_so() {
    let issuer = Issuer::new("one");
    let keys = KeyServer::start(None, Answer::Keys(issuer.keys())).await;
    let mut settings = keys.settings("http");
    settings.push(("tailrace.kafka.authentication", "requested".to_owned()));
    settings.push(("tailrace.oauthbearer.jwks.http.loopback", "true".to_owned()));
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let server = TestServer::with(&settings).await;
    let rig = Rig { server, keys, issuer, _authority: Authority::new() };
    assert!(rig.admits(&rig.issuer.token(&claims("orders", 600))).await);
}
