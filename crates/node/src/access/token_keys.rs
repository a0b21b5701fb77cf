//! What the sources of the keys of tokens share: their bound and their errors.

use std::io;
use std::path::PathBuf;

use tailrace_fetch::{AddressError, FetchError};
use tailrace_identity::oauth::{JwksError, TokenSettingsError};

/// Maximum length of a set of keys, in bytes, as in [`tailrace_identity::oauth::Jwks`].
pub(super) const KEYS_BYTES_MAX: usize = 1 << 20;

/// Why tokens cannot be validated.
#[derive(Debug, thiserror::Error)]
pub enum TokenKeysError {
    /// The file with the keys could not be read.
    #[error("cannot read {} (sasl.oauthbearer.jwks.endpoint.url): {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The content of the file, or the answer of the web server, is wrong.
    #[error("{from} (sasl.oauthbearer.jwks.endpoint.url): {error}")]
    Content {
        /// The file or the address.
        from: String,
        /// What is wrong with it.
        error: JwksError,
    },
    /// The address of the keys cannot be used.
    #[error("configuration: sasl.oauthbearer.jwks.endpoint.url: {0}")]
    Address(#[from] AddressError),
    /// The web server did not answer with a document.
    #[error("cannot fetch {address} (sasl.oauthbearer.jwks.endpoint.url): {error}")]
    Fetch {
        /// The address.
        address: String,
        /// Why.
        error: FetchError,
    },
    /// A setting of tokens is out of its range.
    #[error("configuration: a setting of sasl.oauthbearer or tailrace.oauthbearer is wrong: {0}")]
    Settings(#[from] TokenSettingsError),
}
