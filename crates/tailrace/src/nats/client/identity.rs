//! Who we are, and what the connection is wrapped in.

use tailrace_nats_wire::ConnectOptions;

use super::nkey::Nkey;
use crate::client::Tls;

/// TLS, as it was asked for.
pub(super) struct Security {
    pub(super) tls: Tls,
    /// The handshake comes before INFO.
    pub(super) first: bool,
}

/// Who we are, as the server may ask.
pub(super) struct Identity<'a> {
    pub(super) options: ConnectOptions,
    pub(super) nkey: Option<&'a Nkey>,
}

impl Identity<'_> {
    /// CONNECT, with the signature over the server's challenge.
    pub(super) fn options(mut self, nonce: &str) -> ConnectOptions {
        if let Some(nkey) = self.nkey.filter(|_| !nonce.is_empty()) {
            self.options.nkey = Some(nkey.public());
            self.options.sig = Some(nkey.sign(nonce));
        }
        self.options
    }
}
