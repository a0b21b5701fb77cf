//! One Kafka listener.

use crate::choice::{AdvertisedListener, KafkaAuthentication, SecurityProtocol, TlsClientAuth};

/// Maximum number of Kafka listeners of a node.
pub const LISTENERS_MAX: usize = 32;

/// Maximum length of a listener's name, in bytes.
pub const LISTENER_NAME_BYTES_MAX: usize = 64;

/// One Kafka listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaListener {
    /// Its name, in capitals. `None` for the listener of `kafka`, which has none.
    pub name: Option<String>,
    /// Where it listens, HOST:PORT.
    pub address: String,
    /// The address that clients are told. `None`: the one that they have connected to.
    pub advertised: Option<AdvertisedListener>,
    /// What its clients speak.
    pub protocol: SecurityProtocol,
    /// Whether its clients log in with SASL.
    pub authentication: KafkaAuthentication,
    /// The mechanisms that they may use.
    pub mechanisms: Vec<String>,
    /// Whether its clients show a certificate. Only with TLS.
    pub client_auth: TlsClientAuth,
}

impl KafkaListener {
    /// Returns the name for logs and metrics.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or("kafka")
    }

    /// Reports whether a client's certificate names its user. With SASL by name, the login does.
    pub fn certificates_name_users(&self) -> bool {
        self.name.is_none() || !self.protocol.uses_sasl()
    }

    /// Reports whether its clients must show a certificate.
    pub fn demands_certificates(&self) -> bool {
        self.protocol.uses_tls() && self.client_auth == TlsClientAuth::Required
    }
}

/// Reads a listener's name. As in Kafka, it is the same in capitals and in lower case.
pub(super) fn name_of(text: &str) -> Result<String, String> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if !(1..=LISTENER_NAME_BYTES_MAX).contains(&text.len()) || !text.bytes().all(legal) {
        return Err(format!(
            "'{}' is not a listener's name: expected 1 to {LISTENER_NAME_BYTES_MAX} letters, digits, _ and -",
            text.escape_debug()
        ));
    }
    Ok(text.to_uppercase())
}
