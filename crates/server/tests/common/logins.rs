//! Logins over the Kafka protocol, as clients make them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use ring::{digest, hmac, pbkdf2};
use tailrace_identity::UserName;
use tailrace_identity::scram::ScramMechanism;
use tailrace_identity::scram::message::{ClientFinal, ClientFirst, ServerFinal, ServerFirst};
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use tailrace_kafka_wire::messages::{
    AlterUserScramCredentialsRequest, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
};

use tokio::io::{AsyncRead, AsyncWrite};

use super::Client;

/// A connection, plain or over TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

pub(crate) const ITERATIONS: u32 = 4_096;
const SALT: &[u8] = b"a salt of a test";

pub(crate) fn salted(mechanism: ScramMechanism, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
    let algorithm = match mechanism {
        ScramMechanism::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
        ScramMechanism::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
    };
    let mut salted = vec![0; mechanism.hash_bytes()];
    pbkdf2::derive(algorithm, iterations.try_into().unwrap(), salt, password.as_bytes(), &mut salted);
    salted
}

fn mac(mechanism: ScramMechanism, key: &[u8], text: &[u8]) -> Vec<u8> {
    let algorithm = match mechanism {
        ScramMechanism::Sha256 => hmac::HMAC_SHA256,
        ScramMechanism::Sha512 => hmac::HMAC_SHA512,
    };
    hmac::sign(&hmac::Key::new(algorithm, key), text).as_ref().to_vec()
}

fn hash(mechanism: ScramMechanism, text: &[u8]) -> Vec<u8> {
    let algorithm = match mechanism {
        ScramMechanism::Sha256 => &digest::SHA256,
        ScramMechanism::Sha512 => &digest::SHA512,
    };
    digest::digest(algorithm, text).as_ref().to_vec()
}

/// Sets a user's password, as `kafka-configs` does.
pub(crate) fn password(
    user: &str,
    mechanism: ScramMechanism,
    password: &str,
) -> AlterUserScramCredentialsRequest {
    let upsertion = ScramCredentialUpsertion {
        name: user.to_owned(),
        mechanism: mechanism.code(),
        iterations: i32::try_from(ITERATIONS).unwrap(),
        salt: Bytes::from_static(SALT),
        salted_password: salted(mechanism, password, SALT, ITERATIONS).into(),
        ..Default::default()
    };
    AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() }
}

pub(crate) async fn add_user<S: Stream>(
    client: &mut Client<S>,
    user: &str,
    mechanism: ScramMechanism,
    text: &str,
) {
    let answer = client.call(0, &password(user, mechanism, text)).await;
    let result = &answer.results[0];
    assert_eq!((result.user.as_str(), result.error_code), (user, 0), "{:?}", result.error_message);
}

pub(crate) async fn handshake<S: Stream>(client: &mut Client<S>, mechanism: &str) -> i16 {
    client.call(1, &SaslHandshakeRequest { mechanism: mechanism.to_owned() }).await.error_code
}

/// Sends a token. `None` if the connection was closed instead of an answer.
pub(crate) async fn token<S: Stream>(
    client: &mut Client<S>,
    token: impl Into<Bytes>,
) -> Option<SaslAuthenticateResponse> {
    client.try_call(2, &SaslAuthenticateRequest { auth_bytes: token.into(), ..Default::default() }).await
}

/// Logs in with PLAIN, and returns the answer.
pub(crate) async fn plain<S: Stream>(
    client: &mut Client<S>,
    user: &str,
    password: &str,
) -> SaslAuthenticateResponse {
    assert_eq!(handshake(client, "PLAIN").await, 0);
    token(client, format!("\0{user}\0{password}")).await.unwrap()
}

/// Logs in with SCRAM, and returns the last answer. Checks the server's signature.
pub(crate) async fn scram(
    client: &mut Client,
    mechanism: ScramMechanism,
    user: &str,
    password: &str,
) -> SaslAuthenticateResponse {
    begin(client, mechanism, user, false).await.finish(client, password).await
}

/// A login with SCRAM whose challenge has arrived.
pub(crate) struct Begun {
    mechanism: ScramMechanism,
    first: ClientFirst,
    pub(crate) server: ServerFirst,
}

/// Begins to log in with SCRAM. `is_token` says that the user is the id of a delegation token.
pub(crate) async fn begin(
    client: &mut Client,
    mechanism: ScramMechanism,
    user: &str,
    is_token: bool,
) -> Begun {
    assert_eq!(handshake(client, mechanism.name()).await, 0);
    let first = ClientFirst {
        user: UserName::new(user).unwrap(),
        nonce: "nonce of the client".replace(' ', ""),
        has_authzid: false,
        is_token,
    };
    let challenge = token(client, first.message()).await.unwrap();
    assert_eq!(challenge.error_code, 0, "{:?}", challenge.error_message);
    let server = ServerFirst::parse(&challenge.auth_bytes).unwrap();
    assert!(server.nonce.starts_with(&first.nonce) && server.nonce.len() > first.nonce.len() + 16);
    Begun { mechanism, first, server }
}

impl Begun {
    /// Ends the login, and returns the last answer. Checks the server's signature.
    pub(crate) async fn finish(self, client: &mut Client, password: &str) -> SaslAuthenticateResponse {
        let Self { mechanism, first, server } = self;
        let salted = salted(mechanism, password, &server.salt, server.iterations);
        let last = ClientFinal {
            channel_binding: "biws".to_owned(),
            nonce: server.nonce.clone(),
            proof: vec![0; mechanism.hash_bytes()].into(),
        };
        let (last, said) = proven(mechanism, &first.bare(), &server, last, &salted);
        let answer = token(client, last.message()).await.unwrap();
        if answer.error_code == 0 {
            let expected = mac(mechanism, &mac(mechanism, &salted, b"Server Key"), said.as_bytes());
            assert_eq!(*ServerFinal::parse(&answer.auth_bytes).unwrap().signature, expected);
        }
        answer
    }
}

/// Puts the proof into a client's final message, whatever else it says. Also returns what the proof is of.
pub(crate) fn proven(
    mechanism: ScramMechanism,
    bare: &str,
    server: &ServerFirst,
    mut last: ClientFinal,
    salted: &[u8],
) -> (ClientFinal, String) {
    let client_key = mac(mechanism, salted, b"Client Key");
    let said = [bare, &server.message(), &last.without_proof()].join(",");
    let signature = mac(mechanism, &hash(mechanism, &client_key), said.as_bytes());
    last.proof = client_key.iter().zip(&signature).map(|(key, sign)| key ^ sign).collect::<Vec<_>>().into();
    (last, said)
}
