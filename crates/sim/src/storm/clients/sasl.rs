//! Logins of Kafka clients, with SCRAM or PLAIN.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::{digest, hmac, pbkdf2};
use tailrace_env::random;
use tailrace_identity::UserName;
use tailrace_identity::scram::message::{ClientFinal, ClientFirst, ServerFirst};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};

use super::connection::{CallError, Connection};
use crate::storm::access::{MECHANISM, STORM, Secret, password};
use crate::storm::history::SharedHistory;

const SASL_HANDSHAKE: i16 = 1;
const SASL_AUTHENTICATE: i16 = 2;

/// One of so many logins is with PLAIN.
const PLAIN_ONE_IN: u64 = 8;

/// Who logs in, and with what.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: &'static str,
    pub(super) secret: Secret,
}

impl Login {
    /// The login of a client that nothing happens to. `None` if nobody logs in.
    pub(super) fn of_clients(history: &SharedHistory) -> Option<Self> {
        let has_users = history.lock().habits().has_users;
        has_users.then_some(Self { user: STORM, secret: Secret::Password(0) })
    }

    /// What a NATS client puts into CONNECT.
    pub(super) fn options(&self) -> String {
        match &self.secret {
            Secret::Password(generation) => {
                format!(",\"user\":\"{}\",\"pass\":\"{}\"", self.user, password(self.user, *generation))
            }
            Secret::Token { .. } => String::new(),
        }
    }
}

/// How a login ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    LoggedIn,
    Refused,
    /// The connection was lost, or was silent for too long.
    Lost,
}

impl Connection {
    /// Logs in.
    pub(super) async fn log_in(&mut self, login: &Login, history: &SharedHistory) -> Outcome {
        let exchanged = match &login.secret {
            Secret::Password(generation) if random::u64().is_multiple_of(PLAIN_ONE_IN) => {
                self.plain(login.user, &password(login.user, *generation)).await
            }
            Secret::Password(generation) => {
                let text = password(login.user, *generation);
                self.scram(login.user, &text, false, history).await
            }
            Secret::Token { id, hmac } => self.scram(id, hmac, true, history).await,
        };
        match exchanged {
            Ok(true) => Outcome::LoggedIn,
            Ok(false) => Outcome::Refused,
            Err(CallError::Lost) => Outcome::Lost,
            Err(CallError::Illegible(what)) => {
                history.lock().found(what);
                Outcome::Lost
            }
        }
    }

    async fn plain(&mut self, user: &str, password: &str) -> Result<bool, CallError> {
        self.handshake("PLAIN").await?;
        let said = self.token(format!("\0{user}\0{password}")).await?;
        Ok(said.is_some())
    }

    async fn scram(
        &mut self,
        user: &str,
        password: &str,
        is_token: bool,
        history: &SharedHistory,
    ) -> Result<bool, CallError> {
        self.handshake(MECHANISM.name()).await?;
        let first = ClientFirst {
            user: UserName::new(user).expect("a legal name"),
            nonce: STANDARD.encode(random::bytes16()),
            has_authzid: false,
            is_token,
        };
        let Some(challenge) = self.token(first.message()).await? else { return Ok(false) };
        let illegible = || CallError::Illegible("a challenge of SCRAM is malformed".to_owned());
        let server = ServerFirst::parse(&challenge).map_err(|_| illegible())?;
        let salted = salted(password, &server, history);
        let last = answer(&first, &server, &salted);
        let said = self.token(last.message()).await?;
        Ok(said.is_some())
    }

    async fn handshake(&mut self, mechanism: &str) -> Result<(), CallError> {
        let request = SaslHandshakeRequest { mechanism: mechanism.to_owned() };
        let answer = self.call(SASL_HANDSHAKE, &request).await?;
        match answer.error_code {
            0 => Ok(()),
            code => Err(CallError::Illegible(format!("{mechanism} was refused with {code}"))),
        }
    }

    /// Sends a message of the login. `None` if it was refused.
    async fn token(&mut self, token: impl Into<Bytes>) -> Result<Option<Bytes>, CallError> {
        let request = SaslAuthenticateRequest { auth_bytes: token.into(), ..Default::default() };
        let answer = self.call(SASL_AUTHENTICATE, &request).await?;
        let code = answer.error_code;
        match ErrorCode::from_code(code) {
            Some(ErrorCode::None) => Ok(Some(answer.auth_bytes)),
            Some(ErrorCode::SaslAuthenticationFailed) => Ok(None),
            _ => Err(CallError::Illegible(format!("a login was answered with {code}"))),
        }
    }
}

/// Salts a password, unless that was done before: it takes milliseconds.
fn salted(password: &str, server: &ServerFirst, history: &SharedHistory) -> Vec<u8> {
    let key = (password.to_owned(), server.salt.to_vec());
    if let Some(salted) = history.lock().access.salted.get(&key) {
        return salted.clone();
    }
    let salted = salt(password, &server.salt, server.iterations);
    history.lock().access.salted.insert(key, salted.clone());
    salted
}

/// Salts a password.
pub(super) fn salt(password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
    let mut salted = vec![0; MECHANISM.hash_bytes()];
    let iterations = iterations.try_into().expect("the server has checked it");
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, password.as_bytes(), &mut salted);
    salted
}

/// Returns the client's last message.
fn answer(first: &ClientFirst, server: &ServerFirst, salted: &[u8]) -> ClientFinal {
    let mac =
        |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec();
    let client_key = mac(salted, b"Client Key");
    let stored_key = digest::digest(&digest::SHA256, &client_key);
    let mut last = ClientFinal {
        channel_binding: "biws".to_owned(),
        nonce: server.nonce.clone(),
        proof: Vec::new().into(),
    };
    let said = [&first.bare(), &server.message(), &last.without_proof()].map(String::as_str).join(",");
    let signature = mac(stored_key.as_ref(), said.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, sign)| key ^ sign).collect();
    last.proof = proof.into();
    last
}
