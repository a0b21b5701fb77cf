//! The stream that a handshake yields.

use crate::bounded::Bounded;

/// A TLS connection, for either end.
pub type TlsStream = tokio_rustls::TlsStream<Bounded>;

/// Returns the certificate of the other end, as DER. The handshake has verified it. `None` if it showed none,
/// which is so for every client unless clients must show one.
pub fn peer_certificate(stream: &TlsStream) -> Option<&[u8]> {
    let (_, state) = stream.get_ref();
    state.peer_certificates()?.first().map(AsRef::as_ref)
}
