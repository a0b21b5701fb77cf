//! What can be wrong with certificates, and with handshakes.

use std::io;
use std::path::PathBuf;

/// The settings of listeners.
pub(crate) const CERTIFICATE: &str = "tailrace.tls.certificate.file";
pub(crate) const KEY: &str = "tailrace.tls.key.file";

/// Why the certificates cannot be used. Each names the file and its setting.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system did not give the file.
    #[error("cannot read {} ({key}): {error}", .path.display())]
    Read {
        /// The setting.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file is not what it should be.
    #[error("{} ({key}): {reason}", .path.display())]
    Content {
        /// The setting.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Both files are fine, but do not belong together.
    #[error("the key in {} ({KEY}) does not belong to the certificate in {} ({CERTIFICATE})", .key.display(), .certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
}

/// Why a handshake came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The client took too long.
    #[error("the TLS handshake did not end within tailrace.tls.handshake.timeout.ms")]
    Timeout,
    /// The client does not speak TLS.
    #[error("the client does not speak TLS, which this listener demands")]
    NotTls,
    /// The client has closed the connection.
    #[error("the client closed the connection during the TLS handshake")]
    Closed,
    /// TLS or the socket failed.
    #[error("the TLS handshake failed: {0}")]
    Failed(io::Error),
}

/// A plain client's first bytes are no TLS record; rustls says so in this one way.
pub(crate) fn handshake_error(error: io::Error) -> HandshakeError {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidMessage(_)) => HandshakeError::NotTls,
        None if error.kind() == io::ErrorKind::UnexpectedEof => HandshakeError::Closed,
        _ => HandshakeError::Failed(error),
    }
}
