//! Why a document could not be fetched.

use std::io;

use tailrace_tls::TlsError;

/// Why a document could not be fetched. The content of an answer is never part of an error.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It took too long.
    #[error("the server did not send the whole answer within {limit_ms} ms")]
    TimedOut {
        /// The limit, in milliseconds.
        limit_ms: u128,
    },
    /// The server cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    /// The authorities that the server's certificate is checked against cannot be read.
    #[error(transparent)]
    Authorities(#[from] TlsError),
    /// The handshake failed, for example because the certificate is for another host.
    #[error("the TLS handshake failed: {0}")]
    Handshake(#[source] io::Error),
    /// The answer is not HTTP/1.1, its head is too long, or the connection broke.
    #[error("the answer cannot be read: {0}")]
    Http(#[from] hyper::Error),
    /// Another status than 200.
    #[error("the server answered with the status {0}")]
    Status(u16),
    /// A redirect.
    #[error("the server answered with a redirect (status {0}), which is not followed: set the final address")]
    Redirect(u16),
    /// The document is compressed, which was not asked for.
    #[error("the server sent the document with an encoding that was not asked for")]
    Encoded,
    /// The document is too large.
    #[error("the document has more than {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The work was dropped.
    #[error("the fetch was dropped")]
    Dropped,
}
