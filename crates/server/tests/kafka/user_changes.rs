//! Users who are disabled, and older passwords that stay valid for a while: fields of our own in Kafka's
//! requests.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_identity::scram::ScramMechanism::{self, Sha256, Sha512};
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use tailrace_kafka_wire::messages::{
    AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse, MetadataRequest,
};
use tailrace_kafka_wire::own_fields::{
    CredentialState, KEEP_OLD_MS, NO_MECHANISM, SWITCH_USER, USER_STATE, number,
};
use tailrace_kafka_wire::{ErrorCode, TaggedFields};

use crate::common::logins::{add_user, password, plain, salted, scram};
use crate::common::{Client, OK, TestServer, error};

const FAILED: i16 = 58;
const OLD: &str = "open sesame";
const NEW: &str = "close sesame";

async fn server() -> TestServer {
    let server = TestServer::with(&[("tailrace.kafka.authentication", "requested")]).await;
    let mut client = server.connect().await;
    for mechanism in [Sha256, Sha512] {
        add_user(&mut client, "alice", mechanism, OLD).await;
    }
    server
}

fn switch(user: &str, mechanism: i8, data: &'static [u8]) -> AlterUserScramCredentialsRequest {
    let deletion = ScramCredentialDeletion {
        name: user.to_owned(),
        mechanism,
        unknown_tagged_fields: TaggedFields::of(SWITCH_USER, Bytes::from_static(data)),
    };
    AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() }
}

async fn altered(client: &mut Client, request: &AlterUserScramCredentialsRequest) -> ErrorCode {
    let answer = client.call(0, request).await;
    assert_eq!(answer.results.len(), 1);
    error(answer.results[0].error_code)
}

async fn described(client: &mut Client, asks_more: bool) -> DescribeUserScramCredentialsResponse {
    let unknown_tagged_fields =
        if asks_more { TaggedFields::of(USER_STATE, Bytes::new()) } else { TaggedFields::default() };
    client.call(0, &DescribeUserScramCredentialsRequest { users: None, unknown_tagged_fields }).await
}

async fn logs_in(server: &TestServer, mechanism: Option<ScramMechanism>, text: &str) -> Option<Client> {
    let mut client = server.connect().await;
    let answer = match mechanism {
        Some(mechanism) => scram(&mut client, mechanism, "alice", text).await,
        None => plain(&mut client, "alice", text).await,
    };
    assert!([0, FAILED].contains(&answer.error_code));
    (answer.error_code == 0).then_some(client)
}

async fn is_closed(client: &mut Client, within: Duration) -> bool {
    let metadata = MetadataRequest { topics: None, ..Default::default() };
    let closed = async {
        while client.try_call(9, &metadata).await.is_some() {
            // A pause between two looks whether the connection is still open.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(within, closed).await.is_ok()
}

#[tokio::test]
async fn a_disabled_user_keeps_its_passwords_and_cannot_use_them() {
    let server = server().await;
    let mut admin = server.connect().await;
    let mut alice = logs_in(&server, Some(Sha256), OLD).await.unwrap();
    assert_eq!(altered(&mut admin, &switch("alice", NO_MECHANISM, &[1])).await, OK);
    assert!(is_closed(&mut alice, Duration::from_secs(5)).await);
    for mechanism in [None, Some(Sha256), Some(Sha512)] {
        assert!(logs_in(&server, mechanism, OLD).await.is_none());
    }
    assert_eq!(altered(&mut admin, &switch("alice", NO_MECHANISM, &[1])).await, OK, "twice is once");
    let user = &described(&mut admin, true).await.results[0];
    assert_eq!(user.unknown_tagged_fields.get(USER_STATE).map(|state| &state[..]), Some(&[1][..]));
    assert_eq!(user.credential_infos.len(), 2);
    assert_eq!(altered(&mut admin, &switch("alice", NO_MECHANISM, &[0])).await, OK);
    for mechanism in [None, Some(Sha256), Some(Sha512)] {
        assert!(logs_in(&server, mechanism, OLD).await.is_some());
    }
    for (request, expected) in [
        (switch("bob", NO_MECHANISM, &[1]), ErrorCode::ResourceNotFound),
        (switch("alice", NO_MECHANISM, &[2]), ErrorCode::UnsupportedSaslMechanism),
        (switch("alice", NO_MECHANISM, &[]), ErrorCode::UnsupportedSaslMechanism),
        (switch("", NO_MECHANISM, &[1]), ErrorCode::UnacceptableCredential),
    ] {
        assert_eq!(altered(&mut admin, &request).await, expected);
    }
    assert!(logs_in(&server, None, OLD).await.is_some(), "nothing was changed");
}

/// As in Kafka, what is wrong with the first change is told before the user is named twice.
#[tokio::test]
async fn a_user_is_altered_once_in_a_request() {
    let server = server().await;
    let mut client = server.connect().await;
    let deletion = |user: &str, mechanism: i8| ScramCredentialDeletion {
        name: user.to_owned(),
        mechanism,
        ..Default::default()
    };
    let twice = |user: &str, mechanism| AlterUserScramCredentialsRequest {
        deletions: vec![deletion(user, mechanism), deletion(user, mechanism)],
        ..Default::default()
    };
    assert_eq!(altered(&mut client, &twice("nobody", 1)).await, ErrorCode::ResourceNotFound);
    assert_eq!(altered(&mut client, &twice("alice", 9)).await, ErrorCode::UnsupportedSaslMechanism);
    assert_eq!(altered(&mut client, &twice("alice", 1)).await, ErrorCode::DuplicateResource);
    let mut both = password("alice", Sha256, NEW);
    both.deletions.push(deletion("alice", 2));
    assert_eq!(altered(&mut client, &both).await, ErrorCode::DuplicateResource);
    assert!(logs_in(&server, Some(Sha256), OLD).await.is_some(), "nothing was changed");
    assert!(logs_in(&server, Some(Sha512), OLD).await.is_some());
}

#[tokio::test]
async fn more_is_told_only_to_clients_that_ask() {
    let server = server().await;
    let mut admin = server.connect().await;
    let user = &described(&mut admin, false).await.results[0];
    assert!(user.unknown_tagged_fields.is_empty());
    assert!(user.credential_infos.iter().all(|info| info.unknown_tagged_fields.is_empty()));
    let user = &described(&mut admin, true).await.results[0];
    let state = user.credential_infos[0].unknown_tagged_fields.get(USER_STATE).unwrap();
    let state = CredentialState::decode(state).unwrap();
    assert_eq!((&state.salt[..], state.previous_until_ms), (&b"a salt of a test"[..], None));
}

/// A new password that leaves the old one valid.
fn rotation(mechanism: ScramMechanism, salt: &'static [u8], keep: Bytes) -> AlterUserScramCredentialsRequest {
    let mut request = password("alice", mechanism, NEW);
    let upsertion = &mut request.upsertions[0];
    upsertion.salt = Bytes::from_static(salt);
    upsertion.salted_password = salted(mechanism, NEW, salt, 4_096).into();
    upsertion.unknown_tagged_fields = TaggedFields::of(KEEP_OLD_MS, keep);
    request
}

#[tokio::test]
async fn an_older_password_works_until_its_end_and_its_connections_end_then() {
    let server = server().await;
    let mut admin = server.connect().await;
    let mut before = logs_in(&server, Some(Sha256), OLD).await.unwrap();
    for mechanism in [Sha256, Sha512] {
        let request = rotation(mechanism, b"a salt of a test", number(3_000));
        assert_eq!(altered(&mut admin, &request).await, OK);
    }
    let end = Instant::now() + Duration::from_millis(3_000);
    let mut old = logs_in(&server, Some(Sha512), OLD).await.unwrap();
    let mut new = logs_in(&server, Some(Sha512), NEW).await.unwrap();
    assert!(logs_in(&server, None, OLD).await.is_some() && logs_in(&server, None, NEW).await.is_some());
    assert!(logs_in(&server, Some(Sha256), "neither").await.is_none());
    assert!(is_closed(&mut before, Duration::from_secs(6)).await, "it was logged in with the older one");
    assert!(Instant::now() + Duration::from_millis(500) >= end, "and stayed until the end");
    assert!(is_closed(&mut old, Duration::from_secs(3)).await);
    for mechanism in [None, Some(Sha256), Some(Sha512)] {
        assert!(logs_in(&server, mechanism, OLD).await.is_none());
        assert!(logs_in(&server, mechanism, NEW).await.is_some());
    }
    assert!(!is_closed(&mut new, Duration::from_millis(300)).await);
}

#[tokio::test]
async fn an_older_password_is_kept_only_if_clients_can_prove_both() {
    let server = server().await;
    let mut admin = server.connect().await;
    for request in [
        rotation(Sha256, b"another salt", number(60_000)),
        rotation(Sha256, b"a salt of a test", number(0)),
        rotation(Sha256, b"a salt of a test", number(-1)),
        rotation(Sha256, b"a salt of a test", Bytes::from_static(b"1")),
    ] {
        assert_eq!(altered(&mut admin, &request).await, ErrorCode::InvalidRequest);
        assert!(logs_in(&server, Some(Sha256), OLD).await.is_some(), "nothing was changed");
    }
    assert_eq!(altered(&mut admin, &rotation(Sha256, b"a salt of a test", number(60_000))).await, OK);
    assert!(logs_in(&server, Some(Sha256), OLD).await.is_some());
    // A further change ends both, at once.
    assert_eq!(altered(&mut admin, &password("alice", Sha256, "third")).await, OK);
    assert!(logs_in(&server, Some(Sha256), OLD).await.is_none());
    assert!(logs_in(&server, Some(Sha256), NEW).await.is_none());
    assert!(logs_in(&server, Some(Sha256), "third").await.is_some());
}
