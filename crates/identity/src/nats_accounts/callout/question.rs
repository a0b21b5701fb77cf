//! The question: a token of type `authorization_request`, signed by the server.
//!
//! None of these types has `Debug`: the client's password stands in them.

use ring::digest::{SHA512_256, digest};
use serde::Serialize;

use super::super::definition::CalloutSettings;
use super::super::jwt::SigningKey;
use super::xkey::{CurveKey, SealError};
use crate::nkey::to_base32;

const AUDIENCE: &str = "nats-authorization-request";

/// The server that asks.
#[derive(Clone, Copy, Serialize)]
pub struct ServerInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its host.
    pub host: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The name of the cluster.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub cluster: &'a str,
}

/// The client's connection.
#[derive(Clone, Copy, Serialize)]
pub struct QuestionClient<'a> {
    /// The address.
    pub host: &'a str,
    /// The number of the connection.
    pub id: u64,
    /// The name or key that it has presented.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub user: &'a str,
    /// The name of the program.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'a str,
    /// The tags in its claims.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub tags: &'a [String],
    /// The name in its claims.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name_tag: &'a str,
    /// `Client`.
    pub kind: &'a str,
    /// `nats` or `websocket`.
    #[serde(rename = "type")]
    pub client_type: &'a str,
    /// This connection's challenge. It is left out if there is no signature of it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub nonce: &'a str,
}

/// What the client has presented.
#[derive(Clone, Copy, Default, Serialize)]
pub struct ConnectOptions<'a> {
    /// The token of a user.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub jwt: &'a str,
    /// The public key.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub nkey: &'a str,
    /// The signature of the nonce.
    #[serde(rename = "sig", skip_serializing_if = "str::is_empty")]
    pub signature: &'a str,
    /// The shared token.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub auth_token: &'a str,
    /// The name.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub user: &'a str,
    /// The password.
    #[serde(rename = "pass", skip_serializing_if = "str::is_empty")]
    pub password: &'a str,
    /// The name of the program.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'a str,
    /// Its language.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub lang: &'a str,
    /// The version of its library.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// The version of the protocol.
    pub protocol: u32,
}

/// The client's TLS.
#[derive(Clone, Copy, Serialize)]
pub struct ClientTls<'a> {
    /// The version, such as `1.3`.
    pub version: &'a str,
    /// The name of the cipher suite.
    pub cipher: &'a str,
    /// Certificates in PEM that were not verified.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub certs: &'a [String],
    /// Chains of certificates in PEM that were verified, the client's own first.
    #[serde(skip_serializing_if = "<[Vec<String>]>::is_empty")]
    pub verified_chains: &'a [Vec<String>],
}

/// The keys to seal with, if the service has a curve key.
#[derive(Clone, Copy)]
pub struct SealWith<'a> {
    /// The server's own key.
    pub key: &'a CurveKey,
    /// Unpredictable bytes, new for each question.
    pub nonce: [u8; 24],
}

/// A question about a client.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// Who is asked.
    pub settings: &'a CalloutSettings,
    /// The server.
    pub server: ServerInfo<'a>,
    /// A public key (`U...`) made for this question only. The answer must name it.
    pub user_key: &'a str,
    /// The connection.
    pub client: QuestionClient<'a>,
    /// What it has presented.
    pub options: ConnectOptions<'a>,
    /// Its TLS.
    pub tls: Option<ClientTls<'a>>,
    /// When the server stops waiting, in seconds since 1970.
    pub expires_at_s: i64,
}

/// Why there is no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// It cannot be sealed.
    #[error("the question cannot be sealed for the service: {0}")]
    Seal(#[from] SealError),
    /// It must be sealed, but there is no key to seal with.
    #[error("the service has a curve key, but the server has none")]
    NoCurveKey,
    /// It cannot be written.
    #[error("the question cannot be written as JSON")]
    Json,
}

#[derive(Serialize)]
struct Claims<'a> {
    aud: &'a str,
    exp: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    jti: &'a str,
    iat: i64,
    iss: &'a str,
    sub: &'a str,
    nats: Body<'a>,
}

#[derive(Clone, Copy, Serialize)]
struct Body<'a> {
    server_id: Server<'a>,
    user_nkey: &'a str,
    client_info: QuestionClient<'a>,
    connect_opts: ConnectOptions<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_tls: Option<ClientTls<'a>>,
    #[serde(rename = "type")]
    kind: &'a str,
    version: u8,
}

#[derive(Clone, Copy, Serialize)]
struct Server<'a> {
    #[serde(flatten)]
    info: ServerInfo<'a>,
    id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    xkey: &'a str,
}

impl Question<'_> {
    /// Makes the body of the message on [`CALLOUT_SUBJECT`](super::CALLOUT_SUBJECT). If the service has a
    /// curve key, it is sealed, and the header [`XKEY_HEADER`](super::XKEY_HEADER) must have the server's
    /// public curve key. Without `seal_with` there is no question then: passwords are not sent in clear.
    ///
    /// # Errors
    /// It cannot be sealed.
    pub fn message(
        &self,
        server_key: &SigningKey,
        seal_with: Option<SealWith<'_>>,
        now_s: i64,
    ) -> Result<Vec<u8>, QuestionError> {
        let seal = match &self.settings.xkey {
            None => None,
            Some(recipient) => Some((recipient, seal_with.ok_or(QuestionError::NoCurveKey)?)),
        };
        let xkey = seal.as_ref().map_or("", |(_, seal_with)| seal_with.key.public());
        let token = self.token(server_key, xkey, now_s)?;
        match seal {
            None => Ok(token.into_bytes()),
            Some((recipient, with)) => Ok(with.key.seal(recipient, with.nonce, token.as_bytes())?),
        }
    }

    fn token(&self, server_key: &SigningKey, xkey: &str, now_s: i64) -> Result<String, QuestionError> {
        let nonce = if self.options.signature.is_empty() { "" } else { self.client.nonce };
        let body = Body {
            server_id: Server { info: self.server, id: server_key.public(), xkey },
            user_nkey: self.user_key,
            client_info: QuestionClient { nonce, ..self.client },
            connect_opts: self.options,
            client_tls: self.tls,
            kind: "authorization_request",
            version: 2,
        };
        let mut claims = Claims {
            aud: AUDIENCE,
            exp: self.expires_at_s,
            jti: "",
            iat: now_s,
            iss: server_key.public(),
            sub: &self.settings.issuer,
            nats: body,
        };
        let json = serde_json::to_vec(&claims).map_err(|_error| QuestionError::Json)?;
        let id = to_base32(digest(&SHA512_256, &json).as_ref());
        claims.jti = &id;
        server_key.token(&claims).map_err(|_error| QuestionError::Json)
    }
}
