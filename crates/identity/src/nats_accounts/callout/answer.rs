//! The answer: a token of type `authorization_response`, in which the token of a user stands, or an error.

use std::sync::Arc;

use super::super::definition::{CalloutAccounts, CalloutSettings};
use super::super::jwt::{
    AccountClaims, AccountUser, CalloutResponseBody, Connection, Expected as ExpectedToken, Nkey, Token,
    TokenError, UserClaims, UserDenied, read,
};
use super::super::name::AccountName;
use super::super::table::AccountTable;
use super::ANSWER_BYTES_MAX;
use super::xkey::{CurveKey, SealError};
use crate::names::UserName;
use crate::user::User;

/// How much of the service's own error is shown, in characters.
const ERROR_CHARS_MAX: usize = 256;

/// Who decides which signatures count.
#[derive(Clone, Copy)]
pub enum Authority<'a> {
    /// The configuration: the configured issuer signs everything, and names the user's account as audience.
    Configured {
        /// All accounts.
        accounts: &'a AccountTable,
    },
    /// An operator: the claims of the account that was asked, and those of the account that the user is
    /// placed in.
    Operator {
        /// The account that was asked.
        asked: &'a AccountClaims,
        /// Returns the claims of an account.
        account: &'a dyn Fn(&AccountName) -> Option<Arc<AccountClaims>>,
    },
}

/// What the answer must say.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    /// Who was asked.
    pub settings: &'a CalloutSettings,
    /// The server's public key (`N...`).
    pub server_key: &'a str,
    /// The public key that was made for the question.
    pub user_key: &'a str,
    /// The server's curve key, if the question was sealed.
    pub curve_key: Option<&'a CurveKey>,
    /// Who decides which signatures count.
    pub authority: Authority<'a>,
}

/// A user whom the service has let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalloutUser {
    /// The user, named `ACCOUNT/NAME`, or `ACCOUNT/KEY` if the service gave no name. The key is another one
    /// at each login.
    pub user: AccountUser,
    /// The claims, to check them again.
    pub claims: Arc<UserClaims>,
}

/// Why an answer is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalloutDenied {
    /// Nothing in it.
    #[error("the service gave no reason")]
    Empty,
    /// Too long.
    #[error("the answer has {found} bytes, more than {ANSWER_BYTES_MAX}")]
    TooLong {
        /// The length, in bytes.
        found: usize,
    },
    /// It cannot be opened.
    #[error("the answer: {0}")]
    Seal(#[from] SealError),
    /// It is no token.
    #[error("the answer: {0}")]
    Token(#[from] TokenError),
    /// It is about another question.
    #[error("the answer is not about this user")]
    OtherUser,
    /// It is for another server.
    #[error("the answer is not for this server")]
    OtherServer,
    /// It has expired, or is not valid yet.
    #[error("the answer has expired or is not valid yet")]
    Time,
    /// It was not signed by the service.
    #[error("the answer was not signed by the configured issuer")]
    Issuer,
    /// Neither a user nor an error, or both.
    #[error("the answer must have either a user or an error")]
    Ambiguous,
    /// The service says no.
    #[error("the service refuses: {reason:?}")]
    Refused {
        /// The beginning of what it says.
        reason: String,
    },
    /// Without an operator.
    #[error("the user's token has an issuer_account, which only exists with an operator")]
    IssuerAccount,
    /// The service may not place users there.
    #[error("the service may not place users in this account")]
    Account,
    /// The user's token.
    #[error("the service's user: {0}")]
    User(#[from] UserDenied),
}

impl Expected<'_> {
    /// Checks an answer, and returns the user.
    ///
    /// # Errors
    /// Says what is not as expected.
    pub fn check(
        &self,
        answer: &[u8],
        connection: Connection,
        now_s: i64,
    ) -> Result<CalloutUser, CalloutDenied> {
        let token = self.opened(answer)?;
        let token: Token<CalloutResponseBody> = read(&token, ExpectedToken::CALLOUT_RESPONSE)?;
        if token.subject != self.user_key {
            return Err(CalloutDenied::OtherUser);
        }
        if token.audience != self.server_key {
            return Err(CalloutDenied::OtherServer);
        }
        if token.times.is_expired(now_s) || token.times.is_early(now_s) {
            return Err(CalloutDenied::Time);
        }
        if !self.is_issuer(&token) {
            return Err(CalloutDenied::Issuer);
        }
        match (token.body.jwt.as_str(), token.body.error.as_str()) {
            ("", "") => Err(CalloutDenied::Ambiguous),
            ("", error) => {
                Err(CalloutDenied::Refused { reason: error.chars().take(ERROR_CHARS_MAX).collect() })
            }
            (jwt, "") => self.user(&UserClaims::read(jwt)?, connection, now_s),
            (_, _) => Err(CalloutDenied::Ambiguous),
        }
    }

    /// Decides whether a user who was let in may stay, after a change of accounts or of the time.
    ///
    /// # Errors
    /// Says why not.
    pub fn recheck(
        &self,
        user: &CalloutUser,
        connection: Connection,
        now_s: i64,
    ) -> Result<CalloutUser, CalloutDenied> {
        self.user(&user.claims, connection, now_s)
    }

    /// Opens an answer. The service may leave its answer open even if the question was sealed.
    fn opened(&self, answer: &[u8]) -> Result<String, CalloutDenied> {
        let found = answer.len();
        if found == 0 {
            return Err(CalloutDenied::Empty);
        }
        if found > ANSWER_BYTES_MAX {
            return Err(CalloutDenied::TooLong { found });
        }
        let answer = match (self.curve_key, &self.settings.xkey) {
            // A token begins with {" in base64.
            (Some(key), Some(sender)) if !answer.starts_with(b"eyJ") => key.open(sender, answer)?,
            _ => answer.to_vec(),
        };
        String::from_utf8(answer).map_err(|_error| TokenError::Parts.into())
    }

    /// Reports whether the service has signed. nats-server does not ask that of a sealed answer.
    fn is_issuer(&self, token: &Token<CalloutResponseBody>) -> bool {
        match self.authority {
            Authority::Configured { .. } => token.issuer == *self.settings.issuer,
            Authority::Operator { asked, .. } => {
                let account = token.body.issuer_account.as_str();
                (account.is_empty() || account == asked.id().as_str()) && asked.is_signed_by(&token.issuer)
            }
        }
    }

    fn user(
        &self,
        claims: &Arc<UserClaims>,
        connection: Connection,
        now_s: i64,
    ) -> Result<CalloutUser, CalloutDenied> {
        if claims.subject() != self.user_key {
            return Err(CalloutDenied::OtherUser);
        }
        let user = match self.authority {
            Authority::Configured { accounts } => self.configured(claims, accounts, connection, now_s)?,
            Authority::Operator { asked, account } => {
                let name = claims.account();
                let target = if name == asked.id() { None } else { Some(self.placed(name, account)?) };
                target.as_deref().unwrap_or(asked).recheck(claims, connection, now_s)?
            }
        };
        Ok(CalloutUser { user: named(user, claims), claims: Arc::clone(claims) })
    }

    fn placed(
        &self,
        name: &AccountName,
        account: &dyn Fn(&AccountName) -> Option<Arc<AccountClaims>>,
    ) -> Result<Arc<AccountClaims>, CalloutDenied> {
        self.check_account(name)?;
        account(name).ok_or_else(|| UserDenied::NoAccount { account: name.clone() }.into())
    }

    fn check_account(&self, name: &AccountName) -> Result<(), CalloutDenied> {
        let is_allowed = match &self.settings.allowed_accounts {
            CalloutAccounts::Any => true,
            CalloutAccounts::Listed(accounts) => accounts.contains(name) || *name == self.settings.account,
        };
        if is_allowed { Ok(()) } else { Err(CalloutDenied::Account) }
    }

    /// Places a user without an operator: in the account that is the audience of the token.
    fn configured(
        &self,
        claims: &UserClaims,
        accounts: &AccountTable,
        connection: Connection,
        now_s: i64,
    ) -> Result<AccountUser, CalloutDenied> {
        if claims.has_issuer_account() {
            return Err(CalloutDenied::IssuerAccount);
        }
        let token = claims.token();
        if token.issuer != *self.settings.issuer {
            return Err(UserDenied::Issuer.into());
        }
        let account = accounts.account(&token.audience).ok_or(CalloutDenied::Account)?;
        self.check_account(account.name())?;
        Ok(AccountUser::configured(claims, account.definition(), connection, now_s)?)
    }
}

/// Names the user as the service does. A name that looks like a key, or that no user may have, is not taken:
/// it could be the name of a user who has proved to be that.
fn named(user: AccountUser, claims: &UserClaims) -> AccountUser {
    let name = claims.name();
    if UserName::new(name).is_err() || Nkey::parse(name).is_ok() || name.contains('/') {
        return user;
    }
    let full = format!("{}/{name}", user.account);
    let rules = user.user.rules().cloned();
    AccountUser { user: Arc::new(User::in_account(full.into(), rules, &user.account)), ..user }
}
