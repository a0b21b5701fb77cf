//! Why claims are not believed. No error shows a token.

use super::super::name::AccountName;
use super::keys::NkeyError;
use super::token::TokenError;

/// Why the claims of an operator or an account are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The token cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The issuer is not trusted.
    #[error("the issuer is not a trusted operator, nor one of its signing keys")]
    Untrusted,
    /// The issuer is the operator itself, who has said that only signing keys are used.
    #[error("the operator requires a signing key (strict_signing_key_usage), but has signed it itself")]
    NotASigningKey,
    /// No longer valid.
    #[error("the claims have expired")]
    Expired,
    /// Not valid yet.
    #[error("the claims are not valid yet")]
    Early,
    /// A field is wrong.
    #[error("{field}: {reason}")]
    Field {
        /// The field.
        field: String,
        /// What is wrong.
        reason: String,
    },
    /// The system account must stay.
    #[error("the system account {account} must not be deleted")]
    SystemAccount {
        /// The system account.
        account: AccountName,
    },
}

impl ClaimError {
    pub(super) fn field(field: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Field { field: field.into(), reason: reason.to_string() }
    }

    pub(super) fn key(field: &str, error: NkeyError) -> Self {
        Self::field(field, error)
    }
}

/// Why a user is refused. For the log: the client is told less.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDenied {
    /// The token cannot be read.
    #[error("its token: {0}")]
    Token(#[from] TokenError),
    /// The account does not exist, or is not known here.
    #[error("its account {account} is unknown")]
    NoAccount {
        /// The account.
        account: AccountName,
    },
    /// Neither the account nor one of its signing keys.
    #[error("its token was not issued by its account, nor by one of the account's signing keys")]
    Issuer,
    /// The account's claim has expired, or is not valid yet.
    #[error("its account's claims have expired or are not valid yet")]
    AccountExpired,
    /// The token has expired.
    #[error("its token has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("its token is not valid yet")]
    Early,
    /// Revoked by the account.
    #[error("its token was revoked")]
    Revoked,
    /// Signed by a key with a scope, but has permissions or limits of its own.
    #[error("its token was issued for a scope, and must not have permissions or limits of its own")]
    ScopeWithPermissions,
    /// The scope's template cannot be filled in.
    #[error("the template of its scope: {reason}")]
    Template {
        /// What is wrong.
        reason: String,
    },
    /// A permission is not a pattern, or there are too many.
    #[error("its permissions: {reason}")]
    Permissions {
        /// What is wrong.
        reason: String,
    },
    /// A token without signature, which the account does not allow.
    #[error("its token is a bearer token, which the account does not allow")]
    Bearer,
    /// No signature of the nonce.
    #[error("it has not signed the nonce")]
    NoSignature,
    /// The signature is wrong.
    #[error("its signature does not match its key and this connection's nonce")]
    WrongSignature,
    /// The kind of connection.
    #[error("its token does not allow this kind of connection")]
    ConnectionKind,
    /// No trusted proxy.
    #[error("its token requires a trusted proxy")]
    NoProxy,
    /// The address.
    #[error("its address is not in the networks of its token")]
    Address,
    /// The time of day.
    #[error("its token does not allow this time of day")]
    Time,
    /// The time zone.
    #[error("its token names a time zone other than UTC, which is not supported")]
    Location,
}

impl UserDenied {
    /// Returns the text of `-ERR` for a connection that was let in before. At login it is always
    /// `Authorization Violation`.
    pub fn closing_text(&self) -> &'static str {
        match self {
            Self::Expired | Self::Time => "User Authentication Expired",
            Self::AccountExpired => "Account Authentication Expired",
            Self::Revoked => "User Authentication Revoked",
            Self::Token(_)
            | Self::NoAccount { .. }
            | Self::Issuer
            | Self::Early
            | Self::ScopeWithPermissions
            | Self::Template { .. }
            | Self::Permissions { .. }
            | Self::Bearer
            | Self::NoSignature
            | Self::WrongSignature
            | Self::ConnectionKind
            | Self::NoProxy
            | Self::Address
            | Self::Location => "Authorization Violation",
        }
    }
}
