//! What may be wrong with the settings and the file of users.

use std::path::PathBuf;

use tailrace_identity::CredentialError;

/// Why the users cannot be used. Never shows a secret.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The system did not give the file.
    #[error("cannot read {} (tailrace.nats.users.file): {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{}, line {line}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The key, and what is wrong with it.
        reason: String,
    },
    /// A setting is not what it should be.
    #[error("{key}: {reason}")]
    Setting {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        reason: CredentialError,
    },
}
