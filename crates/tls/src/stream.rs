//! The stream that a handshake yields.

use tailrace_env::net::Stream;

/// A TLS connection, for either end.
pub type TlsStream = tokio_rustls::TlsStream<Stream>;
