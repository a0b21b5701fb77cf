//! The exchange of a login: SaslHandshake, then SaslAuthenticate until both sides are satisfied.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::rand::{SecureRandom as _, SystemRandom};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use zeroize::Zeroizing;

use super::errors::{LoginError, ScramError};
use super::mechanism::{SaslMechanism, ScramMechanism};
use super::password::Password;
use super::scram::ScramStart;
use crate::client::connection::Connection;
use crate::client::error::{ClientError, refusal};

/// First version of SaslHandshake after which tokens travel in SaslAuthenticate (KIP-152).
const HANDSHAKE_VERSION_MIN: i16 = 1;
/// Random bytes in our nonce.
const NONCE_BYTES: usize = 24;

/// A user, and how to prove to be that user. One serves all connections of a run.
pub(crate) struct Login {
    pub(super) user: String,
    pub(super) mechanism: SaslMechanism,
    pub(super) password: Password,
    /// The user is the id of a delegation token, and the password its secret.
    pub(super) is_token: bool,
    /// PLAIN may show the password to the network.
    pub(super) plain_without_tls: bool,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { user, mechanism, .. } = self;
        f.debug_struct("Login").field("user", user).field("mechanism", mechanism).finish_non_exhaustive()
    }
}

/// Why a login ended early.
enum Failed {
    Login(LoginError),
    /// The connection failed. Another one may work.
    Connection(ClientError),
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        Self::Connection(error)
    }
}

impl From<LoginError> for Failed {
    fn from(error: LoginError) -> Self {
        Self::Login(error)
    }
}

impl From<ScramError> for Failed {
    fn from(error: ScramError) -> Self {
        Self::Login(error.into())
    }
}

impl Login {
    /// Logs in on a connection that was just opened. Each wait for an answer has the connection's timeout.
    pub(crate) async fn run(&self, connection: &Connection) -> Result<(), ClientError> {
        self.attempt(connection).await.map_err(|failed| match failed {
            Failed::Connection(error) => error,
            Failed::Login(reason) => ClientError::Login {
                address: connection.address().to_owned(),
                user: self.user.clone(),
                mechanism: self.mechanism.name(),
                reason,
            },
        })
    }

    async fn attempt(&self, connection: &Connection) -> Result<(), Failed> {
        let is_plain = self.mechanism == SaslMechanism::Plain;
        if is_plain && !connection.is_private() && !self.plain_without_tls {
            return Err(LoginError::InTheClear.into());
        }
        self.shake_hands(connection).await?;
        match self.mechanism {
            SaslMechanism::ScramSha256 => self.scram(connection, ScramMechanism::Sha256).await,
            SaslMechanism::ScramSha512 => self.scram(connection, ScramMechanism::Sha512).await,
            SaslMechanism::Plain => self.plain(connection).await,
        }
    }

    async fn shake_hands(&self, connection: &Connection) -> Result<(), Failed> {
        if !connection.offers::<SaslHandshakeRequest>() {
            return Err(LoginError::NoSasl.into());
        }
        let version = connection.version::<SaslHandshakeRequest>()?;
        if version < HANDSHAKE_VERSION_MIN || !connection.offers::<SaslAuthenticateRequest>() {
            return Err(LoginError::OldHandshake.into());
        }
        let request = SaslHandshakeRequest { mechanism: self.mechanism.name().to_owned() };
        let answer = connection.begin(&request, version).await?.answer().await?;
        match ErrorCode::from_code(answer.error_code) {
            Some(ErrorCode::None) => Ok(()),
            Some(ErrorCode::UnsupportedSaslMechanism) => {
                Err(LoginError::Mechanism { offered: answer.mechanisms }.into())
            }
            Some(ErrorCode::IllegalSaslState) => Err(LoginError::NoSasl.into()),
            _ => Err(LoginError::Refused(refusal(answer.error_code, None)).into()),
        }
    }

    async fn scram(&self, connection: &Connection, mechanism: ScramMechanism) -> Result<(), Failed> {
        let start = ScramStart::new(mechanism, &self.user, nonce()?);
        let start = if self.is_token { start.with_tokenauth() } else { start };
        let first = start.message().into_bytes();
        let server_first = authenticate(connection, first.into()).await?;
        let (proof, last) = start.prove(self.password.bytes(), &server_first)?;
        let server_final = authenticate(connection, last.into_bytes().into()).await?;
        Ok(proof.verify(&server_final)?)
    }

    /// RFC 4616: no authorization identity, the user, the password.
    async fn plain(&self, connection: &Connection) -> Result<(), Failed> {
        let parts = [b"", self.user.as_bytes(), self.password.bytes()];
        let mut token = Zeroizing::new(Vec::with_capacity(2 + self.user.len() + self.password.bytes().len()));
        for (at, part) in parts.into_iter().enumerate() {
            token.extend((at > 0).then_some(0));
            token.extend_from_slice(part);
        }
        authenticate(connection, Bytes::from_owner(token)).await.map(drop)
    }
}

/// Sends a token and returns the server's.
async fn authenticate(connection: &Connection, auth_bytes: Bytes) -> Result<Bytes, Failed> {
    let request = SaslAuthenticateRequest { auth_bytes, ..Default::default() };
    let answer = connection.call(&request).await?;
    match answer.error_code {
        0 => Ok(answer.auth_bytes),
        code => Err(LoginError::Refused(refusal(code, answer.error_message.as_deref())).into()),
    }
}

fn nonce() -> Result<String, LoginError> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| LoginError::NoRandomness)?;
    Ok(STANDARD.encode(bytes))
}

/// Asks whether this listener demands a login, by a handshake for no mechanism. Returns the mechanisms that
/// it offers, and `None` if it demands none or does not say. The server closes the connection afterwards.
pub(crate) async fn demanded_mechanisms(connection: &Connection) -> Option<Vec<String>> {
    let answer = connection.call(&SaslHandshakeRequest::default()).await.ok()?;
    let code = ErrorCode::from_code(answer.error_code);
    (code == Some(ErrorCode::UnsupportedSaslMechanism)).then_some(answer.mechanisms)
}
