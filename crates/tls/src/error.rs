//! Errors of certificates and of handshakes.

use std::io;
use std::path::PathBuf;

use crate::bounded::TooLong;

/// Names of the listeners' settings.
pub(crate) const CERTIFICATE: &str = "tailrace.tls.certificate.file";
pub(crate) const KEY: &str = "tailrace.tls.key.file";

/// Why the certificates cannot be used. Each error names the file and its setting.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file could not be read.
    #[error("cannot read {} ({key}): {error}", .path.display())]
    Read {
        /// The setting.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file's content is wrong.
    #[error("{} ({key}): {reason}", .path.display())]
    Content {
        /// The setting.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Both files are valid, but do not belong together.
    #[error("the key in {} ({KEY}) does not belong to the certificate in {} ({CERTIFICATE})", .key.display(), .certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The client took too long.
    #[error("the TLS handshake did not end within tailrace.tls.handshake.timeout.ms")]
    Timeout,
    /// The client does not speak TLS.
    #[error("the client does not speak TLS, which this listener requires")]
    NotTls,
    /// The client has sent more than a handshake has.
    #[error("the client sent too much before the TLS handshake was complete")]
    TooLong,
    /// Others have begun handshakes since, and there are too many.
    #[error("the TLS handshake was the oldest of too many")]
    TooMany,
    /// The client closed the connection.
    #[error("the client closed the connection during the TLS handshake")]
    Closed,
    /// TLS or the socket failed.
    #[error("the TLS handshake failed: {0}")]
    Failed(io::Error),
}

/// Converts a handshake error. If a client does not speak TLS, its first bytes are not a TLS record, which
/// rustls reports as `InvalidMessage`.
pub(crate) fn handshake_error(error: io::Error) -> HandshakeError {
    if error.get_ref().is_some_and(|inner| inner.is::<TooLong>()) {
        return HandshakeError::TooLong;
    }
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidMessage(_)) => HandshakeError::NotTls,
        None if error.kind() == io::ErrorKind::UnexpectedEof => HandshakeError::Closed,
        _ => HandshakeError::Failed(error),
    }
}
