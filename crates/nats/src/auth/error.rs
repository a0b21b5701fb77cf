//! Errors in the settings and the file of users.

use std::path::PathBuf;

use tailrace_identity::CredentialError;

/// Why the users cannot be loaded. Never shows a secret.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The file cannot be read.
    #[error("cannot read {} (tailrace.nats.users.file): {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file is invalid.
    #[error("{}, line {line}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The key, and what is wrong with it.
        reason: String,
    },
    /// A setting is invalid.
    #[error("{key}: {reason}")]
    Setting {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        reason: CredentialError,
    },
}
