//! The claims of a user.

use std::sync::Arc;

use super::super::name::AccountName;
use super::errors::UserDenied;
use super::forms::UserBody;
use super::keys::{KeyKind, Nkey};
use super::token::{Expected, Token, TokenError, read};

/// The claims of a user, signed by their issuer. Whether the issuer is trusted is decided by
/// [`AccountClaims`](super::AccountClaims).
#[derive(Clone, PartialEq, Eq)]
pub struct UserClaims {
    token: Token<UserBody>,
    account: AccountName,
}

impl std::fmt::Debug for UserClaims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserClaims")
            .field("account", &self.account)
            .field("subject", &self.token.subject)
            .finish_non_exhaustive()
    }
}

impl UserClaims {
    /// Reads a token, and checks its signature.
    ///
    /// # Errors
    /// It is not the token of a user, or the signature is not that of the issuer.
    pub fn read(token: &str) -> Result<Arc<Self>, UserDenied> {
        let token: Token<UserBody> = read(token, Expected::USER)?;
        let account = match token.body.issuer_account.as_str() {
            "" => token.issuer.as_str(),
            account => {
                Nkey::parse_as(KeyKind::Account, account)
                    .map_err(|error| TokenError::Key { field: "issuer_account", error })?;
                account
            }
        };
        let account = AccountName::new(account).map_err(|_error| UserDenied::Issuer)?;
        Ok(Arc::new(Self { token, account }))
    }

    /// Returns the account that the user claims to belong to.
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// Returns the user's public key.
    pub fn subject(&self) -> &str {
        &self.token.subject
    }

    /// Returns the public key that has signed: the account's own, or one of its signing keys.
    pub fn issuer(&self) -> &str {
        &self.token.issuer
    }

    /// Returns the name, which the issuer has chosen. It may be the same as another user's.
    pub fn name(&self) -> &str {
        &self.token.name
    }

    /// Reports whether the user need not sign a nonce.
    pub fn is_bearer(&self) -> bool {
        self.token.body.bearer_token
    }

    /// Returns the tags, which the issuer has chosen.
    pub fn tags(&self) -> &[String] {
        &self.token.body.tags
    }

    /// Returns when the token was issued, in seconds since 1970.
    pub fn issued_at_s(&self) -> i64 {
        self.token.times.issued_at_s
    }

    pub(in crate::nats_accounts) fn token(&self) -> &Token<UserBody> {
        &self.token
    }

    /// Reports whether the issuer has named an account other than itself.
    pub(in crate::nats_accounts) fn has_issuer_account(&self) -> bool {
        !self.token.body.issuer_account.is_empty()
    }
}
