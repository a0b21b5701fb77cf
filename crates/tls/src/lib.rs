//! TLS of listeners ([`Tls`]), of links between nodes ([`PeerTls`]) and to servers of others
//! ([`ServersTls`]), over any stream of `tailrace_env`.
//!
//! TLS is rustls with ring. Certificates are read from files, and reloaded when those change. Bounds: a
//! client's handshake has a time limit, and one of its bytes (the caller limits those of a node), only so
//! many are under way at once, rustls keeps at most one record of a connection afterwards, and a connection
//! counts against its listener's limits from accept on.
//!
//! Time limits and pauses use the clock of `tailrace_env`. Two things bypass it:
//!
//! * The files are read with std. They belong to the operator, not to the node, and a simulated node has
//!   none.
//! * rustls checks certificate validity against the system's clock, and takes the random numbers of
//!   handshakes from ring. So a run with TLS cannot be repeated byte for byte.
//!
//! Deliberately not here: certificates per name (SNI), revocation lists, OCSP, encrypted keys, and the name
//! in a client's certificate ([`peer_certificate`]), which is read in `identity`.

mod bounded;
mod clients;
mod error;
mod files;
mod nodes;
mod servers;
mod stream;
mod under_way;

pub use clients::Tls;
pub use error::{HandshakeError, TlsError};
pub use nodes::PeerTls;
pub use servers::ServersTls;
pub use stream::{TlsStream, peer_certificate};
