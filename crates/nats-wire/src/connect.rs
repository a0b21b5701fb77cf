//! What a client says of itself in CONNECT.

use serde::{Deserialize, Serialize};

/// CONNECT's JSON is none, or a field has a type that it cannot have.
#[derive(Debug, thiserror::Error)]
#[error("CONNECT: {0}")]
pub struct ConnectError(#[from] serde_json::Error);

/// The fields of CONNECT. What a client leaves out has the protocol's default; fields that are not known are ignored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectOptions {
    /// The server answers every operation with `+OK`.
    pub verbose: bool,
    /// The server checks subjects of publishes too.
    pub pedantic: bool,
    /// The client wants TLS.
    pub tls_required: bool,
    /// The client's own publishes come back to its subscriptions.
    pub echo: bool,
    /// The client understands headers.
    pub headers: bool,
    /// The client wants to be told that nobody listens to a request.
    pub no_responders: bool,
    /// 1: the client takes INFO at any time.
    pub protocol: i64,
    /// The client's name for itself.
    pub name: String,
    /// Its language.
    pub lang: String,
    /// Its library's version.
    pub version: String,
    /// User name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// Token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_token: Option<String>,
    /// Public key of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nkey: Option<String>,
    /// The nonce of INFO, signed by that key, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sig: Option<String>,
    /// A user JWT. tailrace does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<String>,
}

impl Default for ConnectOptions {
    /// As nats-server takes a CONNECT without fields.
    fn default() -> Self {
        Self {
            verbose: true,
            pedantic: true,
            tls_required: false,
            echo: true,
            headers: false,
            no_responders: false,
            protocol: 0,
            name: String::new(),
            lang: String::new(),
            version: String::new(),
            user: None,
            pass: None,
            auth_token: None,
            nkey: None,
            sig: None,
            jwt: None,
        }
    }
}

impl ConnectOptions {
    /// Reads the JSON of a CONNECT line.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn parse(json: &[u8]) -> Result<Self, ConnectError> {
        Ok(serde_json::from_slice(json)?)
    }
}

impl std::fmt::Debug for ConnectOptions {
    /// Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("name", &self.name)
            .field("lang", &self.lang)
            .field("version", &self.version)
            .field("user", &self.user)
            .field("nkey", &self.nkey)
            .field("verbose", &self.verbose)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
