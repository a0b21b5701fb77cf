//! What a handshake leads to.

use tailrace_env::net::Stream;

/// A connection with TLS, of either end.
pub type TlsStream = tokio_rustls::TlsStream<Stream>;
