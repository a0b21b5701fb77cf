//! TLS of listeners ([`Tls`]) and of links between nodes ([`PeerTls`]), over any stream of `tailrace_env`.
//!
//! TLS by rustls, with ring. Certificates are read from files, and again when those change. Bounds: a client's
//! handshake has a time limit (that of a node is its caller's), rustls keeps at most one record and 64 KiB of handshake
//! per connection, and a connection counts against its listener's limits from accept on.
//!
//! Time limits and pauses are those of the world. What is not asked of it:
//!
//! * the files, which are read with std: they are an operator's, not the node's, and a simulated node has none;
//! * whether a certificate is valid now, for which rustls reads the system's clock, and the random numbers of
//!   handshakes, which are ring's. So a run with TLS can't be repeated byte for byte.
//!
//! Deliberately not here: certificates per name (SNI), revocation lists, OCSP, keys that are encrypted, and what a
//! client certificate's name permits: a certificate opens the door, users and rules are in `identity`.

mod clients;
mod error;
mod files;
mod nodes;
mod stream;

pub use clients::Tls;
pub use error::{HandshakeError, TlsError};
pub use nodes::PeerTls;
pub use stream::TlsStream;
