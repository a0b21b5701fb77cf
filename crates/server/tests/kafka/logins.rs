//! Logins of Kafka clients: every mechanism, what a stranger may do, and how a login ends.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_identity::scram::ScramMechanism::{self, Sha256, Sha512};
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use tailrace_kafka_wire::messages::{
    AlterUserScramCredentialsRequest, ApiVersionsRequest, DescribeUserScramCredentialsRequest,
    MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use crate::common::logins::{add_user, handshake, password, plain, scram, token};
use crate::common::rig::{eventually, numbered};
use crate::common::{Client, TestServer};

const UNSUPPORTED_MECHANISM: i16 = 33;
const ILLEGAL_STATE: i16 = 34;
const FAILED: i16 = 58;

/// A closed connection is noticed within this time.
const QUICK: Duration = Duration::from_secs(5);

/// A server whose clients may log in, with the user alice.
async fn server(authentication: &str, more: &[(&str, &str)]) -> TestServer {
    let mut settings = vec![("tailrace.kafka.authentication", "requested")];
    settings.extend_from_slice(more);
    let mut server = TestServer::with(&settings).await;
    let mut client = server.connect().await;
    for mechanism in [Sha256, Sha512] {
        add_user(&mut client, "alice", mechanism, "open sesame").await;
    }
    if authentication != "requested" {
        server.restart_with(&[("tailrace.kafka.authentication", authentication)]).await;
    }
    server
}

fn metadata() -> MetadataRequest {
    MetadataRequest { topics: None, ..Default::default() }
}

async fn is_closed(client: &mut Client) -> bool {
    let closed = async {
        while client.try_call(9, &metadata()).await.is_some() {
            // A pause between two looks whether the connection is still open.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(QUICK, closed).await.is_ok()
}

#[tokio::test]
async fn a_user_logs_in_with_each_mechanism() {
    let server = server("required", &[]).await;
    for mechanism in [Sha256, Sha512] {
        let mut client = server.connect().await;
        let answer = scram(&mut client, mechanism, "alice", "open sesame").await;
        assert_eq!((answer.error_code, answer.session_lifetime_ms), (0, 0), "{:?}", answer.error_message);
        assert!(client.try_call(9, &metadata()).await.is_some());
    }
    // The second one is remembered.
    for _ in 0..2 {
        let mut client = server.connect().await;
        assert_eq!(plain(&mut client, "alice", "open sesame").await.error_code, 0);
        assert!(client.try_call(9, &metadata()).await.is_some());
    }
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_user_look_alike_and_end_the_connection_late() {
    let delay = [("connection.failed.authentication.delay.ms", "300")];
    let server = server("required", &delay).await;
    for (user, text) in [("alice", "open barley"), ("nobody", "open sesame")] {
        let (mut client, began) = (server.connect().await, Instant::now());
        let answer = scram(&mut client, Sha256, user, text).await;
        assert!(began.elapsed() >= Duration::from_millis(300));
        let message = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256";
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(message)));
        assert!(is_closed(&mut client).await);
        let (mut client, began) = (server.connect().await, Instant::now());
        let answer = plain(&mut client, user, text).await;
        assert!(began.elapsed() >= Duration::from_millis(300));
        let message = "Authentication failed: Invalid username or password";
        assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(message)));
        assert!(is_closed(&mut client).await);
    }
    let mut client = server.connect().await;
    assert_eq!(handshake(&mut client, "PLAIN").await, 0);
    let answer = token(&mut client, "bob\0alice\0open sesame").await.unwrap();
    assert_eq!(answer.error_code, FAILED, "another user's rights (CVE-2017-12610)");
}

#[tokio::test]
async fn the_salt_of_an_unknown_user_stays_the_same() {
    let server = server("required", &[]).await;
    let challenge = async |user: &str| {
        let mut client = server.connect().await;
        assert_eq!(handshake(&mut client, Sha256.name()).await, 0);
        let answer = token(&mut client, format!("n,,n={user},r=abc")).await.unwrap();
        let text = String::from_utf8(answer.auth_bytes.to_vec()).unwrap();
        text.split_once(",s=").unwrap().1.to_owned()
    };
    let first = challenge("nobody").await;
    assert_eq!(challenge("nobody").await, first);
    assert_ne!(challenge("somebody").await, first);
    assert!(first.ends_with(",i=4096"), "{first}");
}

#[tokio::test]
async fn before_a_login_that_is_required_a_client_can_do_nothing_else() {
    let server = server("required", &[]).await;
    let mut client = server.connect().await;
    let versions = ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    };
    let answer = client.call(4, &versions).await;
    let served = |key| answer.api_keys.iter().find(|api| api.api_key == key).map(|api| api.max_version);
    assert_eq!((served(17), served(36)), (Some(1), Some(2)));
    assert!(client.try_call(9, &metadata()).await.is_none(), "the connection is closed");

    let mut client = server.connect().await;
    assert_eq!(handshake(&mut client, "PLAIN").await, 0);
    assert!(client.try_call(9, &metadata()).await.is_none(), "nor in the middle of one");

    let mut client = server.connect().await;
    let unexpected = token(&mut client, "\0alice\0open sesame").await;
    assert!(unexpected.is_none(), "no token before a mechanism was chosen");

    let mut client = server.connect().await;
    let large = SaslAuthenticateRequest { auth_bytes: Bytes::from(vec![0; 600_000]), ..Default::default() };
    assert!(client.try_call(2, &large).await.is_none(), "a large frame");

    let mut client = server.connect().await;
    let other = client.call(1, &SaslHandshakeRequest { mechanism: "GSSAPI".to_owned() }).await;
    assert_eq!(other.error_code, UNSUPPORTED_MECHANISM);
    assert_eq!(other.mechanisms, ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]);
    assert!(is_closed(&mut client).await);
}

/// Strangers who send most of a large frame share a memory of their own.
#[tokio::test]
async fn unfinished_logins_take_no_memory_from_those_who_are_logged_in() {
    let small = ["queued.max.request.bytes", "socket.request.max.bytes", "tailrace.decompressed.bytes.max"];
    let server = server("required", &small.map(|key| (key, "1048576"))).await;
    let mut alice = server.connect().await;
    assert_eq!(plain(&mut alice, "alice", "open sesame").await.error_code, 0);
    alice.create_topic("t", 1, &[]).await;
    let metric = async |name: &str| server.metric(&format!("tailrace_{name}")).await;
    let mut strangers = JoinSet::new();
    for _ in 0..8 {
        let mut stream = server.stream().await;
        strangers.spawn(async move {
            let begun = [&500_000_i32.to_be_bytes()[..], &[0; 400_000]].concat();
            // The server stops reading once the memory is used up, and closes the connection later.
            let _ = stream.write_all(&begun).await;
            std::future::pending::<()>().await;
        });
    }
    let waits = async || metric("login_request_memory_waits_total").await > 0.0;
    eventually("the memory for logins is used up", waits).await;
    let answer = alice.produce_to("t", 0, -1, numbered(0, 1, 500_000)).await;
    assert_eq!(answer.error_code, 0);
    assert_eq!(metric("request_memory_waits_total").await, 0.0, "the request has waited for strangers");
    assert_eq!(metric("request_memory_bytes").await, 0.0, "strangers hold memory of requests");
    assert!(metric("login_request_memory_bytes").await > 500_000.0);
    let mut other = server.connect().await;
    assert_eq!(plain(&mut other, "alice", "open sesame").await.error_code, 0);
    strangers.shutdown().await;
    eventually("strangers give their memory back", async || {
        metric("login_request_memory_bytes").await == 0.0
    })
    .await;
    // The same connection takes from the memory of requests after its login.
    let begun = [&500_000_i32.to_be_bytes()[..], &[0; 400_000]].concat();
    other.stream().write_all(&begun).await.unwrap();
    eventually("the request has memory", async || metric("request_memory_bytes").await > 400_000.0).await;
    assert_eq!(metric("login_request_memory_bytes").await, 0.0);
}

#[tokio::test]
async fn a_client_that_takes_too_long_is_cut_off() {
    let server = server("required", &[("tailrace.kafka.login.timeout.ms", "1500")]).await;
    let (mut client, began) = (server.connect().await, Instant::now());
    assert_eq!(handshake(&mut client, "PLAIN").await, 0);
    // Until the time for the login has passed, and the server has looked.
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    assert!(token(&mut client, "\0alice\0open sesame").await.is_none(), "after {:?}", began.elapsed());
}

#[tokio::test]
async fn tokens_follow_the_first_version_of_the_handshake_without_a_header() {
    let server = server("required", &[]).await;
    let mut client = server.connect().await;
    let chosen = client.call(0, &SaslHandshakeRequest { mechanism: "PLAIN".to_owned() }).await;
    assert_eq!(chosen.error_code, 0);
    assert_eq!(client.raw(b"\0alice\0open sesame").await.as_deref(), Some(&b""[..]));
    assert!(client.try_call(9, &metadata()).await.is_some());
    let mut client = server.connect().await;
    client.call(0, &SaslHandshakeRequest { mechanism: "PLAIN".to_owned() }).await;
    assert_eq!(client.raw(b"\0alice\0open barley").await, None, "closed without a word");
}

#[tokio::test]
async fn a_login_ends_with_its_credential() {
    let server = server("requested", &[]).await;
    let mut admin = server.connect().await;
    let logged_in = async |mechanism: ScramMechanism| {
        let mut client = server.connect().await;
        assert_eq!(scram(&mut client, mechanism, "alice", "open sesame").await.error_code, 0);
        client
    };
    let (mut by_256, mut by_512) = (logged_in(Sha256).await, logged_in(Sha512).await);
    let changed = admin.call(0, &password("alice", Sha256, "open barley")).await;
    assert_eq!(changed.results[0].error_code, 0);
    assert!(is_closed(&mut by_256).await, "its password was changed");
    assert!(by_512.try_call(9, &metadata()).await.is_some(), "it has the other credential");
    let deletion = |mechanism: ScramMechanism| AlterUserScramCredentialsRequest {
        deletions: vec![ScramCredentialDeletion {
            name: "alice".to_owned(),
            mechanism: mechanism.code(),
            ..Default::default()
        }],
        ..Default::default()
    };
    for mechanism in [Sha256, Sha512] {
        assert_eq!(admin.call(0, &deletion(mechanism)).await.results[0].error_code, 0);
    }
    assert!(is_closed(&mut by_512).await, "the user was removed");
    let mut client = server.connect().await;
    assert_eq!(scram(&mut client, Sha256, "alice", "open barley").await.error_code, FAILED);
    assert_eq!(admin.call(0, &deletion(Sha256)).await.results[0].error_code, 91);
    let all = admin.call(0, &DescribeUserScramCredentialsRequest { users: None, ..Default::default() }).await;
    assert!(all.results.is_empty());
}

#[tokio::test]
async fn a_client_logs_in_again_in_time_or_is_cut_off() {
    let server = server("required", &[("connections.max.reauth.ms", "2500")]).await;
    let mut client = server.connect().await;
    let answer = scram(&mut client, Sha256, "alice", "open sesame").await;
    assert_eq!((answer.error_code, answer.session_lifetime_ms), (0, 2_500));
    assert_eq!(handshake(&mut client, Sha256.name()).await, ILLEGAL_STATE, "too soon");
    // A second must pass between two logins.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(scram(&mut client, Sha256, "alice", "open sesame").await.error_code, 0);
    // The first login has expired by then.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(client.try_call(9, &metadata()).await.is_some(), "the second login counts");
    let answer = plain(&mut client, "alice", "open sesame").await;
    let message = "SASL mechanism 'PLAIN' requested by client is not supported for re-authentication of mechanism 'SCRAM-SHA-256'";
    assert_eq!((answer.error_code, answer.error_message.as_deref()), (FAILED, Some(message)));
    let mut client = server.connect().await;
    assert_eq!(plain(&mut client, "alice", "open sesame").await.error_code, 0);
    // Until the login has expired.
    tokio::time::sleep(Duration::from_millis(2_600)).await;
    assert!(client.try_call(9, &metadata()).await.is_none(), "the login has expired");
}

#[tokio::test]
async fn without_authentication_there_is_nothing_to_log_in_to() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    assert_eq!(handshake(&mut client, "PLAIN").await, ILLEGAL_STATE);
    assert_eq!(token(&mut client, "\0alice\0open sesame").await.unwrap().error_code, ILLEGAL_STATE);
    assert!(client.try_call(9, &metadata()).await.is_some());
}
