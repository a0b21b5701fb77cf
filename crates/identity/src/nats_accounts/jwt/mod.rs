//! Claims as signed tokens (JWT, version 2 of github.com/nats-io/jwt): reading them, and deciding whom to
//! believe.
//!
//! A token is signed by the key that it names itself (`iss`). That proves nothing until the key is found to
//! be trusted: a user's issuer is the account or one of its signing keys, an account's issuer is an operator
//! or one of its signing keys, and the operators are configured.
//!
//! Login of a user: [`UserClaims::read`], look up [`UserClaims::account`], then [`AccountClaims::admit`].
//! When the account's claim or the time changes: [`AccountClaims::recheck`].

mod account;
mod account_definition;
mod account_form;
mod activation;
mod connection;
mod errors;
mod forms;
mod keys;
mod operator;
mod permissions;
mod template;
mod token;
mod user;

pub use account::{AccountClaims, AccountUser, Presented};
pub(super) use activation::{Activation, check as check_activation};
pub use connection::{Connection, ConnectionKind};
pub use errors::{ClaimError, UserDenied};
pub(super) use forms::CalloutResponseBody;
pub use keys::{KeyKind, Nkey, NkeyError, SigningKey};
pub use operator::{DeletedAccounts, OperatorTrust};
pub(super) use token::{Expected, Token, read};
pub use token::{TOKEN_BYTES_MAX, TokenError};
pub use user::UserClaims;
