//! Errors in the settings and the file of users.

use std::path::PathBuf;

use tailrace_identity::CredentialError;
use tailrace_identity::nats_accounts::jwt::ClaimError;

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
    /// A file of claims cannot be read.
    #[error("cannot read {} ({key}): {error}", .path.display())]
    ReadClaims {
        /// The setting that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// Claims in a file are not believed.
    #[error("{}: {reason}", .path.display())]
    Claims {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: ClaimError,
    },
    /// The claims of clients that present none cannot be used.
    #[error("{} (tailrace.nats.operator.sentinel.file): {reason}", .path.display())]
    Sentinel {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A setting means nothing without another one.
    #[error("{key}: {other} must be set with it")]
    Alone {
        /// The setting.
        key: &'static str,
        /// The one that is missing.
        other: &'static str,
    },
    /// A setting excludes something.
    #[error("{key}: it excludes {other}")]
    Excludes {
        /// The setting.
        key: &'static str,
        /// What it excludes.
        other: &'static str,
    },
    /// Two settings exclude each other.
    #[error("{key}: with an operator, users come from claims (JWT) alone: remove {other}")]
    WithOperator {
        /// The setting of the operator.
        key: &'static str,
        /// The other one.
        other: &'static str,
    },
    /// The name of an account is invalid, or there is no such account.
    #[error("{key}: {reason}")]
    Account {
        /// The setting.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The keys for an auth callout cannot be made.
    #[error("auth_callout: the server cannot make its keys")]
    NoKeys,
    /// A setting is invalid.
    #[error("{key}: {reason}")]
    Setting {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        reason: CredentialError,
    },
}
