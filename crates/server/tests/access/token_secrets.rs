//! The same for what users and delegation tokens are made of: salted passwords, the secrets of tokens, and
//! their key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tailrace_identity::scram::ScramMechanism::{Sha256, Sha512};
use tailrace_kafka_wire::messages::describe_configs_request::DescribeConfigsResource;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use tailrace_kafka_wire::messages::*;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::listener::{Planted, listen};
use super::pages::{AUTHORIZER, page};
use crate::common::logins::{add_user, begin, password, plain, scram};
use crate::common::{Client, TestServer};

// No secret of another test of this binary.
const ADMIN: &str = "admin-2c81-close-sesame";
const ALICE: &str = "alice-6d3f-close-sesame";
const GUESS: &str = "guess-90be-close-sesame";
const KEY: &str = "key-of-tokens-4e2b-close-sesame";

/// All pages.
pub(crate) async fn pages(server: &TestServer, login: Option<&str>) -> Vec<String> {
    let login = login.map(|login| format!("Basic {}", STANDARD.encode(login)));
    let mut seen = Vec::new();
    for path in [
        "/metrics",
        "/varz",
        "/connz?auth=true&subs=detail&state=all",
        "/clusterz",
        "/routez",
        "/accountz",
        "/accstatz",
        "/subsz?subs=true",
        "/healthz",
    ] {
        let (_, head, body) =
            page(TcpStream::connect(server.http()).await.unwrap(), path, login.as_deref()).await;
        seen.push(head + &body);
    }
    seen
}

#[tokio::test]
async fn salted_passwords_and_delegation_tokens_are_not_told() {
    listen();
    let folder = TempDir::new().unwrap();
    let audit = folder.path().join("audit.log");
    let mut planted = Planted::default();
    for secret in [ADMIN, ALICE, GUESS, KEY] {
        planted.add(secret);
    }
    let mut server = TestServer::with(&[
        ("tailrace.kafka.authentication", "requested"),
        ("authorizer.class.name", AUTHORIZER),
        ("super.users", "User:admin"),
        ("tailrace.first.user", "admin"),
        ("tailrace.first.password", ADMIN),
        ("delegation.token.secret.key", KEY),
        ("tailrace.audit.log.file", audit.to_str().unwrap()),
        ("connection.failed.authentication.delay.ms", "0"),
    ])
    .await;
    let mut admin = server.connect().await;
    assert_eq!(plain(&mut admin, "admin", ADMIN).await.error_code, 0);
    let mut seen = passwords(&mut admin, &mut planted).await;
    seen.extend(delegation_tokens(&server, &mut planted).await);
    seen.extend(configs(&mut admin).await);
    seen.extend(pages(&server, Some(&format!("admin:{ADMIN}"))).await);
    server.stop().await;
    seen.push(std::fs::read_to_string(&audit).unwrap());
    assert!(seen.last().unwrap().lines().count() > 10, "the audit log has the changes");
    planted.check(&seen, GUESS);
}

/// Changes that are carried out, and changes that are refused.
async fn passwords(admin: &mut Client, planted: &mut Planted) -> Vec<String> {
    let mut seen = Vec::new();
    for mechanism in [Sha256, Sha512] {
        let good = password("alice", mechanism, ALICE);
        planted.add_bytes(&good.upsertions[0].salted_password);
        add_user(admin, "alice", mechanism, ALICE).await;
        let (mut few, mut unknown, mut twice, mut short) = (good.clone(), good.clone(), good.clone(), good);
        few.upsertions[0].iterations = 1;
        unknown.upsertions[0].mechanism = 9;
        twice.upsertions.push(twice.upsertions[0].clone());
        short.upsertions[0].salted_password = short.upsertions[0].salted_password.slice(1..);
        for request in [few, unknown, twice, short] {
            let answer = admin.call(0, &request).await;
            seen.push(format!("{answer:?}"));
        }
    }
    let users = DescribeUserScramCredentialsRequest { users: None, ..Default::default() };
    seen.push(format!("{:?}", admin.call(0, &users).await));
    seen
}

/// Uses a token in every way, right and wrong. Only the answers that are to have its secret have it.
async fn delegation_tokens(server: &TestServer, planted: &mut Planted) -> Vec<String> {
    let mut alice = server.connect().await;
    assert_eq!(scram(&mut alice, Sha256, "alice", ALICE).await.error_code, 0);
    let creation = CreateDelegationTokenRequest { max_lifetime_ms: -1, ..Default::default() };
    let made = alice.call(3, &creation).await;
    assert_eq!(made.error_code, 0);
    let secret = STANDARD.encode(&made.hmac);
    planted.add(&secret);
    planted.add_bytes(&made.hmac);
    let mut seen = Vec::new();
    for mechanism in [Sha256, Sha512] {
        for (text, is_right) in [(secret.as_str(), true), (GUESS, false)] {
            let mut client = server.connect().await;
            let begun = begin(&mut client, mechanism, &made.token_id, true).await;
            let answer = begun.finish(&mut client, text).await;
            assert_eq!(answer.error_code == 0, is_right);
            seen.push(format!("{answer:?}"));
        }
    }
    // PLAIN does not take tokens.
    let mut client = server.connect().await;
    assert_ne!(plain(&mut client, &made.token_id, &secret).await.error_code, 0);
    let hmac = made.hmac.clone();
    let renew = RenewDelegationTokenRequest { hmac, renew_period_ms: -1, ..Default::default() };
    let hmac = made.hmac.clone();
    let expire = ExpireDelegationTokenRequest { hmac, expiry_time_period_ms: -1, ..Default::default() };
    for is_there in [true, false] {
        let renewed = alice.call(2, &renew).await;
        assert_eq!(renewed.error_code == 0, is_there);
        let ended = alice.call(2, &expire).await;
        assert_eq!(ended.error_code == 0, is_there);
        seen.extend([format!("{renewed:?}"), format!("{ended:?}")]);
    }
    seen
}

/// Describes and changes settings that are secrets.
async fn configs(admin: &mut Client) -> Vec<String> {
    let mut seen = Vec::new();
    for name in ["1", ""] {
        let resources = vec![DescribeConfigsResource {
            resource_type: 4,
            resource_name: name.to_owned(),
            configuration_keys: None,
            ..Default::default()
        }];
        let request = DescribeConfigsRequest { resources, include_synonyms: true, ..Default::default() };
        let told = format!("{:?}", admin.call(4, &request).await);
        assert!(name.is_empty() || told.contains("delegation.token.secret.key"), "the setting is described");
        seen.push(told);
        for key in ["delegation.token.secret.key", "tailrace.nats.password", "no.such.password"] {
            let value = Some(GUESS.to_owned());
            let configs = vec![AlterableConfig { name: key.to_owned(), value, ..Default::default() }];
            let resources = vec![AlterConfigsResource {
                resource_type: 4,
                resource_name: name.to_owned(),
                configs,
                ..Default::default()
            }];
            let request = IncrementalAlterConfigsRequest { resources, ..Default::default() };
            seen.push(format!("{:?}", admin.call(1, &request).await));
        }
    }
    seen
}
