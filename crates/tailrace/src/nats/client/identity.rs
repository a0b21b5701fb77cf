//! The client's identity, and the security of the connection.

use tailrace_nats_wire::ConnectOptions;

use super::creds::Credentials;
use super::nkey::Nkey;
use crate::client::Tls;

/// The requested TLS.
pub(super) struct Security {
    pub(super) tls: Tls,
    /// The handshake comes before INFO.
    pub(super) first: bool,
}

/// The client's identity, as the server may ask for it.
pub(super) struct Identity<'a> {
    pub(super) options: ConnectOptions,
    pub(super) nkey: Option<&'a Nkey>,
    pub(super) credentials: Option<&'a Credentials>,
}

impl Identity<'_> {
    /// The options for CONNECT, with the signature of the server's nonce.
    pub(super) fn options(mut self, nonce: &str) -> ConnectOptions {
        if let Some(nkey) = self.nkey.filter(|_| !nonce.is_empty()) {
            self.options.nkey = Some(nkey.public());
            self.options.sig = Some(nkey.sign(nonce));
        }
        if let Some(credentials) = self.credentials {
            self.options.jwt = Some(credentials.claims().to_owned());
            // Without a nonce, the server asks for no claims, or takes those of bearers only.
            self.options.sig = (!nonce.is_empty()).then(|| credentials.sign(nonce));
        }
        self.options
    }
}
