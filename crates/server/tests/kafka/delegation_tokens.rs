//! Delegation tokens (KIP-48): who may make, see, renew and end them, logins with them, and how those end.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tailrace_identity::acl::{Acl, Operation, PatternKind, Permission, ResourceKind};
use tailrace_identity::scram::ScramMechanism::{self, Sha256, Sha512};
use tailrace_identity::scram::ScramVerifier;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::create_delegation_token_request::CreatableRenewers;
use tailrace_kafka_wire::messages::describe_delegation_token_request::DescribeDelegationTokenOwner;
use tailrace_kafka_wire::messages::*;
use tailrace_metadata::{Command, ScramChange};
use tailrace_node::Caller;

use crate::common::logins::{begin, plain};
use crate::common::rig::now;
use crate::common::{Client, OK, TestServer, error};

const KEY: (&str, &str) = ("delegation.token.secret.key", "a key with more than sixteen bytes");
const PASSWORD: &str = "open sesame";
const FAILED: i16 = 58;

async fn server(more: &[(&str, &str)]) -> TestServer {
    let settings = [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
        ("tailrace.kafka.authentication", "requested"),
    ];
    let server = TestServer::with(&[&settings[..], more].concat()).await;
    for user in ["admin", "alice", "bob"] {
        let verifier =
            ScramVerifier::from_password(Sha256, PASSWORD, b"salt", 4096).expect("a legal password");
        let change = ScramChange::Set { verifier, keep_previous_until: None };
        let (user, by) = (user.to_owned(), "User:admin".to_owned());
        execute(&server, Command::AlterScramCredential { user, change, by, now: now() }).await;
    }
    server
}

async fn execute(server: &TestServer, command: Command) {
    server.node().execute(Caller::internal(), command).await.expect("the command is legal");
}

async fn allow(server: &TestServer, user: &str, operation: Operation, kind: ResourceKind, name: &str) {
    let acl = Acl {
        kind,
        name: name.to_owned(),
        pattern: PatternKind::Literal,
        principal: format!("User:{user}"),
        host: "*".to_owned(),
        operation,
        permission: Permission::Allow,
    };
    execute(server, Command::CreateAcls(vec![acl])).await;
}

async fn user(server: &TestServer, name: &str) -> Client {
    let mut client = server.connect().await;
    assert_eq!(plain(&mut client, name, PASSWORD).await.error_code, 0);
    client
}

fn creation(owner: Option<&str>, renewers: &[&str], max_lifetime_ms: i64) -> CreateDelegationTokenRequest {
    let renewer = |name: &&str| CreatableRenewers {
        principal_type: "User".to_owned(),
        principal_name: (*name).to_owned(),
        ..Default::default()
    };
    CreateDelegationTokenRequest {
        owner_principal_type: owner.map(|_| "User".to_owned()),
        owner_principal_name: owner.map(str::to_owned),
        renewers: renewers.iter().map(renewer).collect(),
        max_lifetime_ms,
        ..Default::default()
    }
}

/// A token as its maker gets it.
struct Token {
    id: String,
    hmac: Bytes,
    expires_ms: i64,
    max_ms: i64,
}

async fn create(client: &mut Client, request: &CreateDelegationTokenRequest) -> Result<Token, ErrorCode> {
    let answer = client.call(3, request).await;
    let (id, hmac) = (answer.token_id, answer.hmac);
    match error(answer.error_code) {
        OK => Ok(Token { id, hmac, expires_ms: answer.expiry_timestamp_ms, max_ms: answer.max_timestamp_ms }),
        code => {
            assert!(id.is_empty() && hmac.is_empty(), "a refusal has no token");
            Err(code)
        }
    }
}

impl Token {
    fn password(&self) -> String {
        STANDARD.encode(&self.hmac)
    }

    async fn renew(&self, client: &mut Client, renew_period_ms: i64) -> Result<i64, ErrorCode> {
        let hmac = self.hmac.clone();
        let answer = client
            .call(2, &RenewDelegationTokenRequest { hmac, renew_period_ms, ..Default::default() })
            .await;
        outcome(answer.error_code, answer.expiry_timestamp_ms)
    }

    async fn expire(&self, client: &mut Client, expiry_time_period_ms: i64) -> Result<i64, ErrorCode> {
        let hmac = self.hmac.clone();
        let request = ExpireDelegationTokenRequest { hmac, expiry_time_period_ms, ..Default::default() };
        let answer = client.call(2, &request).await;
        outcome(answer.error_code, answer.expiry_timestamp_ms)
    }

    /// Logs in, and returns the last answer.
    async fn log_in(&self, client: &mut Client, mechanism: ScramMechanism) -> SaslAuthenticateResponse {
        begin(client, mechanism, &self.id, true).await.finish(client, &self.password()).await
    }
}

fn outcome(code: i16, time: i64) -> Result<i64, ErrorCode> {
    if error(code) == OK { Ok(time) } else { Err(error(code)) }
}

/// The ids of the tokens that a client sees.
async fn seen(client: &mut Client, owners: Option<&[&str]>) -> Vec<String> {
    let owner = |name: &&str| DescribeDelegationTokenOwner {
        principal_type: "User".to_owned(),
        principal_name: (*name).to_owned(),
        ..Default::default()
    };
    let owners = owners.map(|owners| owners.iter().map(owner).collect());
    let answer = client.call(3, &DescribeDelegationTokenRequest { owners, ..Default::default() }).await;
    assert_eq!(error(answer.error_code), OK);
    assert!(answer.tokens.iter().all(|token| token.hmac.len() == 64));
    answer.tokens.into_iter().map(|token| token.token_id).collect()
}

fn metadata() -> MetadataRequest {
    MetadataRequest { topics: None, ..Default::default() }
}

/// Returns when the server closes the connection of a client that sends nothing.
async fn closed(client: &mut Client) -> Instant {
    let waits = async {
        while client.try_call(9, &metadata()).await.is_some() {
            // A pause between two looks whether the connection is still open.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waits).await.expect("the connection ends");
    Instant::now()
}

#[tokio::test]
async fn a_token_logs_in_as_its_owner_and_its_client_gets_at_no_tokens() {
    let server = server(&[KEY]).await;
    let token = create(&mut user(&server, "alice").await, &creation(None, &[], -1)).await.unwrap();
    assert_eq!((token.id.len(), token.hmac.len()), (22, 64));
    for mechanism in [Sha256, Sha512] {
        let mut client = server.connect().await;
        let answer = token.log_in(&mut client, mechanism).await;
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        assert!((86_000_000..=86_400_000).contains(&answer.session_lifetime_ms), "the expiry of the token");
        let created = client.call(3, &creation(None, &[], -1)).await;
        assert_eq!(error(created.error_code), ErrorCode::DelegationTokenRequestNotAllowed);
        let not_allowed = Err(ErrorCode::DelegationTokenRequestNotAllowed);
        assert_eq!(token.renew(&mut client, -1).await, not_allowed);
        assert_eq!(token.expire(&mut client, -1).await, not_allowed);
        let described = client.call(3, &DescribeDelegationTokenRequest::default()).await;
        assert_eq!(error(described.error_code), ErrorCode::DelegationTokenRequestNotAllowed);
        // The rules are those for alice: she may not see rules, until a rule says so.
        let rules = DescribeAclsRequest {
            resource_type_filter: 1,
            pattern_type_filter: 1,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        let before = error(client.call(3, &rules).await.error_code);
        allow(&server, "alice", Operation::Describe, ResourceKind::Cluster, "kafka-cluster").await;
        assert_eq!(error(client.call(3, &rules).await.error_code), OK);
        if mechanism == Sha256 {
            assert_eq!(before, ErrorCode::ClusterAuthorizationFailed);
        }
    }
}

#[tokio::test]
async fn only_the_secret_of_the_same_token_logs_in() {
    let server = server(&[KEY]).await;
    let mut alice = user(&server, "alice").await;
    let token = create(&mut alice, &creation(None, &[], -1)).await.unwrap();
    let other = create(&mut alice, &creation(None, &[], -1)).await.unwrap();
    let message = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256";
    for (id, is_token, password) in [
        (token.id.as_str(), true, other.password()),
        (&token.id, true, PASSWORD.to_owned()),
        (&token.id, false, token.password()),
        ("alice", true, PASSWORD.to_owned()),
        ("alice", true, token.password()),
        ("AAAAAAAAAAAAAAAAAAAAAA", true, token.password()),
    ] {
        let mut client = server.connect().await;
        let answer = begin(&mut client, Sha256, id, is_token).await.finish(&mut client, &password).await;
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(message)), "{id}");
    }
    let mut client = server.connect().await;
    assert_eq!(plain(&mut client, &token.id, &token.password()).await.error_code, FAILED, "only by SCRAM");
}

#[tokio::test]
async fn tokens_of_others_need_rights() {
    let server = server(&[KEY]).await;
    let (mut alice, mut bob) = (user(&server, "alice").await, user(&server, "bob").await);
    let own = create(&mut alice, &creation(None, &[], -1)).await.unwrap();
    let shared = create(&mut alice, &creation(None, &["bob", "bob"], -1)).await.unwrap();
    // Who may renew a token sees it; others do not, and cannot extend it even with its secret.
    assert_eq!(seen(&mut alice, None).await.len(), 2);
    assert_eq!(seen(&mut bob, None).await, [shared.id.as_str()]);
    assert_eq!(own.renew(&mut bob, -1).await, Err(ErrorCode::DelegationTokenOwnerMismatch));
    assert_eq!(own.expire(&mut bob, -1).await, Err(ErrorCode::DelegationTokenOwnerMismatch));
    assert!(shared.renew(&mut bob, -1).await.is_ok());
    // Owners select, and do not widen.
    assert_eq!(seen(&mut alice, Some(&["bob"])).await, [shared.id.as_str()]);
    assert_eq!(seen(&mut alice, Some(&[])).await.len(), 0);
    assert_eq!(seen(&mut bob, Some(&["alice"])).await, [shared.id.as_str()]);
    // For another owner.
    let for_alice = creation(Some("alice"), &[], -1);
    let refused = create(&mut bob, &for_alice).await.err();
    assert_eq!(refused, Some(ErrorCode::DelegationTokenAuthorizationFailed));
    allow(&server, "bob", Operation::CreateTokens, ResourceKind::User, "User:alice").await;
    let delegated = create(&mut bob, &for_alice).await.unwrap();
    assert!(delegated.renew(&mut bob, -1).await.is_ok() && delegated.renew(&mut alice, -1).await.is_ok());
    assert_eq!(create(&mut bob, &creation(Some("admin"), &[], -1)).await.err(), refused);
    // To see those of others.
    assert!(!seen(&mut bob, None).await.contains(&own.id));
    allow(&server, "bob", Operation::Describe, ResourceKind::DelegationToken, &own.id).await;
    assert!(seen(&mut bob, None).await.contains(&own.id));
    let another = create(&mut alice, &creation(None, &[], -1)).await.unwrap();
    assert!(!seen(&mut bob, None).await.contains(&another.id));
    allow(&server, "bob", Operation::DescribeTokens, ResourceKind::User, "User:alice").await;
    assert!(seen(&mut bob, None).await.contains(&another.id));
    assert_eq!(another.renew(&mut bob, -1).await, Err(ErrorCode::DelegationTokenOwnerMismatch));
}

#[tokio::test]
async fn what_cannot_be_a_token_is_refused() {
    let server = server(&[KEY]).await;
    let mut nobody = server.connect().await;
    let not_allowed = Some(ErrorCode::DelegationTokenRequestNotAllowed);
    assert_eq!(create(&mut nobody, &creation(None, &[], -1)).await.err(), not_allowed, "not logged in");
    assert_eq!(create(&mut nobody, &creation(Some("alice"), &[], -1)).await.err(), not_allowed);
    let mut admin = user(&server, "admin").await;
    let typed = |owner: &str, renewer: &str| {
        let mut request = creation(Some("alice"), &["bob"], -1);
        request.owner_principal_type = Some(owner.to_owned());
        request.renewers[0].principal_type = renewer.to_owned();
        request
    };
    for request in [typed("Group", "User"), typed("User", "Group"), typed("", "User")] {
        assert_eq!(create(&mut admin, &request).await.err(), Some(ErrorCode::InvalidPrincipalType));
    }
    for owner in ["ANONYMOUS", "*", "a\nb", "a;b"] {
        let refused = create(&mut admin, &creation(Some(owner), &[], -1)).await.err();
        assert_eq!(refused, Some(ErrorCode::InvalidRequest), "{owner:?}");
    }
    let many: Vec<String> = (0..101).map(|number| format!("user {number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(create(&mut admin, &creation(None, &many, -1)).await.err(), Some(ErrorCode::PolicyViolation));
    assert!(create(&mut admin, &creation(None, &many[1..], -1)).await.is_ok());
    let unknown = Token { id: String::new(), hmac: vec![7; 64].into(), expires_ms: 0, max_ms: 0 };
    assert_eq!(unknown.renew(&mut admin, -1).await, Err(ErrorCode::DelegationTokenNotFound));
    assert_eq!(unknown.expire(&mut admin, -1).await, Err(ErrorCode::DelegationTokenNotFound));
}

#[tokio::test]
async fn without_a_key_there_are_no_tokens() {
    let server = server(&[]).await;
    let mut alice = user(&server, "alice").await;
    let disabled = ErrorCode::DelegationTokenAuthDisabled;
    assert_eq!(create(&mut alice, &creation(None, &[], -1)).await.err(), Some(disabled));
    let token = Token { id: "x".to_owned(), hmac: vec![7; 64].into(), expires_ms: 0, max_ms: 0 };
    assert_eq!(token.renew(&mut alice, -1).await, Err(disabled));
    assert_eq!(token.expire(&mut alice, -1).await, Err(disabled));
    let described = alice.call(3, &DescribeDelegationTokenRequest::default()).await;
    assert_eq!(error(described.error_code), disabled);
    let mut client = server.connect().await;
    assert_eq!(token.log_in(&mut client, Sha256).await.error_code, FAILED);
}

#[tokio::test]
async fn a_token_ends_to_the_second_with_its_connections_and_with_logins_that_have_begun() {
    let server = server(&[KEY, ("delegation.token.expiry.time.ms", "2500")]).await;
    let mut alice = user(&server, "alice").await;
    let token = create(&mut alice, &creation(None, &[], -1)).await.unwrap();
    let left = Duration::from_millis((token.expires_ms - now().0).try_into().unwrap());
    let end = Instant::now() + left;
    let (mut busy, mut late) = (server.connect().await, server.connect().await);
    let answer = token.log_in(&mut busy, Sha256).await;
    assert!(answer.error_code == 0 && (1..=2_500).contains(&answer.session_lifetime_ms));
    let begun = begin(&mut late, Sha256, &token.id, true).await;
    let ended = closed(&mut busy).await;
    assert!(ended >= end, "not before the end");
    assert!(ended < end + Duration::from_secs(2), "and not long after it");
    assert_eq!(begun.finish(&mut late, &token.password()).await.error_code, FAILED);
    assert_eq!(token.log_in(&mut server.connect().await, Sha256).await.error_code, FAILED);
    assert_eq!(token.renew(&mut alice, -1).await, Err(ErrorCode::DelegationTokenExpired));
    assert_eq!(token.expire(&mut alice, 1_000).await, Err(ErrorCode::DelegationTokenExpired));
    assert!(token.expire(&mut alice, -1).await.is_ok(), "it can still be removed");
    assert_eq!(token.renew(&mut alice, -1).await, Err(ErrorCode::DelegationTokenNotFound));
}

#[tokio::test]
async fn expired_tokens_are_removed() {
    let settings = [KEY, ("delegation.token.expiry.check.interval.ms", "500")];
    let server = server(&settings).await;
    let mut alice = user(&server, "alice").await;
    let short = create(&mut alice, &creation(None, &[], 300)).await.unwrap();
    let long = create(&mut alice, &creation(None, &[], -1)).await.unwrap();
    assert_eq!(short.expires_ms, short.max_ms);
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.node().image().access().token(&short.id).is_some() {
        assert!(Instant::now() < deadline, "an expired token is removed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(seen(&mut alice, None).await, [long.id]);
}

#[tokio::test]
async fn a_token_is_renewed_up_to_its_maximum_and_ended_by_its_owner() {
    let server = server(&[KEY, ("delegation.token.max.lifetime.ms", "100000")]).await;
    let mut alice = user(&server, "alice").await;
    let token = create(&mut alice, &creation(None, &[], 50_000)).await.unwrap();
    assert_eq!(token.expires_ms, token.max_ms, "not longer than its maximum");
    assert_eq!(token.renew(&mut alice, -1).await, Ok(token.max_ms));
    assert_eq!(token.renew(&mut alice, i64::MAX).await, Ok(token.max_ms));
    let soon = token.renew(&mut alice, 10_000).await.unwrap();
    assert!(soon < token.max_ms && soon > now().0 + 5_000, "a renewal may shorten");
    assert_eq!(token.expire(&mut alice, i64::MAX).await, Ok(token.max_ms));
    let longest = create(&mut alice, &creation(None, &[], i64::MAX)).await.unwrap();
    assert!(longest.max_ms <= now().0 + 100_000, "not longer than the server allows");
    let mut client = server.connect().await;
    assert_eq!(longest.log_in(&mut client, Sha256).await.error_code, 0);
    assert!(longest.expire(&mut alice, -1).await.is_ok());
    closed(&mut client).await;
    assert_eq!(longest.log_in(&mut server.connect().await, Sha256).await.error_code, FAILED);
}

#[tokio::test]
async fn the_tokens_of_a_removed_or_disabled_user_end() {
    let server = server(&[KEY]).await;
    allow(&server, "bob", Operation::CreateTokens, ResourceKind::User, "User:alice").await;
    let (mut alice, mut bob) = (user(&server, "alice").await, user(&server, "bob").await);
    let own = create(&mut alice, &creation(None, &[], -1)).await.unwrap();
    let delegated = create(&mut bob, &creation(Some("alice"), &[], -1)).await.unwrap();
    let mut by_own = server.connect().await;
    let mut by_delegated = server.connect().await;
    assert_eq!(own.log_in(&mut by_own, Sha256).await.error_code, 0);
    assert_eq!(delegated.log_in(&mut by_delegated, Sha512).await.error_code, 0);
    // Bob knows the secret of the token that he asked for.
    let disable = |disabled| {
        let (user, by) = ("bob".to_owned(), "User:admin".to_owned());
        Command::DisableUser { user, disabled, by, now: now() }
    };
    execute(&server, disable(true)).await;
    closed(&mut by_delegated).await;
    assert_eq!(delegated.log_in(&mut server.connect().await, Sha256).await.error_code, FAILED);
    assert!(by_own.try_call(9, &metadata()).await.is_some());
    execute(&server, disable(false)).await;
    assert_eq!(delegated.log_in(&mut server.connect().await, Sha256).await.error_code, 0);
    execute(&server, Command::RemoveUser { user: "bob".to_owned() }).await;
    assert_eq!(seen(&mut alice, None).await, [own.id.as_str()]);
    execute(&server, Command::RemoveUser { user: "alice".to_owned() }).await;
    closed(&mut by_own).await;
    assert_eq!(server.node().image().access().tokens().len(), 0);
}

#[tokio::test]
async fn tokens_outlive_a_restart_and_are_void_under_another_key() {
    let mut server = server(&[KEY]).await;
    let token = create(&mut user(&server, "alice").await, &creation(None, &[], -1)).await.unwrap();
    server.restart().await;
    assert_eq!(token.log_in(&mut server.connect().await, Sha256).await.error_code, 0);
    server.restart_with(&[("delegation.token.secret.key", "another key of many bytes")]).await;
    assert_eq!(token.log_in(&mut server.connect().await, Sha256).await.error_code, FAILED);
    let mut alice = user(&server, "alice").await;
    assert_eq!(token.renew(&mut alice, -1).await, Err(ErrorCode::DelegationTokenNotFound));
    assert_eq!(seen(&mut alice, None).await, [token.id.as_str()]);
}

#[tokio::test]
async fn every_version_is_answered() {
    let server = server(&[KEY]).await;
    let mut alice = user(&server, "alice").await;
    for version in 1..=3 {
        let request = CreateDelegationTokenRequest { max_lifetime_ms: -1, ..Default::default() };
        let made = alice.call(version, &request).await;
        let owner = (made.principal_type.as_str(), made.principal_name.as_str());
        assert_eq!((error(made.error_code), owner), (OK, ("User", "alice")), "version {version}");
        let all = DescribeDelegationTokenRequest { owners: None, ..Default::default() };
        let described = alice.call(version, &all).await;
        assert_eq!(described.tokens.len(), 1, "version {version}");
        let token = &described.tokens[0];
        assert_eq!((&token.token_id, &token.hmac), (&made.token_id, &made.hmac), "version {version}");
        let requester = if version >= 3 { "alice" } else { "" };
        assert_eq!(token.token_requester_principal_name, requester);
        let hmac = made.hmac.clone();
        let renew =
            RenewDelegationTokenRequest { hmac: hmac.clone(), renew_period_ms: -1, ..Default::default() };
        let expire = ExpireDelegationTokenRequest { hmac, expiry_time_period_ms: -1, ..Default::default() };
        assert_eq!(error(alice.call(version.min(2), &renew).await.error_code), OK);
        assert_eq!(error(alice.call(version.min(2), &expire).await.error_code), OK);
    }
}

#[tokio::test]
async fn the_key_and_the_secrets_are_in_no_answer_to_others() {
    let server = server(&[KEY]).await;
    let token = create(&mut user(&server, "alice").await, &creation(None, &[], -1)).await.unwrap();
    let mut admin = user(&server, "admin").await;
    let request = DescribeConfigsRequest {
        resources: vec![describe_configs_request::DescribeConfigsResource {
            resource_type: 4,
            resource_name: "1".to_owned(),
            configuration_keys: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = admin.call(4, &request).await;
    let shown = format!("{answer:?}");
    assert!(shown.contains("delegation.token.secret.key"), "the setting is listed");
    assert!(!shown.contains(KEY.1), "and its value is not");
    let image = format!("{:?}", server.node().image().access().tokens().collect::<Vec<_>>());
    assert!(image.contains(&token.id) && !image.contains(&token.password()));
}
