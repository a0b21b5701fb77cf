//! Authentication and authorization: principals, users with their credentials, and rules. And the rates at
//! which those may be served.
//!
//! This crate knows no protocol but the messages of two logins, [`scram`] and [`PlainLogin`], and the claims
//! of NATS ([`nats_accounts`]). It does not block, except where a function says that it computes a slow hash.
//! [`Users`] takes the text of a users file and the credentials that a client presents, and returns the user
//! they belong to. If that takes long, it returns [`Check::Slow`], and the caller runs the check on a thread
//! that may block. The crate needs neither a clock nor a source of randomness: the time and random bytes are
//! passed in.
//!
//! Deliberately not here: the frames that carry a login, the recent deliveries of a connection (nats:
//! `auth`), and the caller and deadline of a request (node: `Caller`).

pub mod acl;
mod attempts;
pub mod certificate_names;
pub mod delegation;
mod errors;
#[cfg(test)]
mod garbled;
mod names;
pub mod nats_accounts;
mod network;
mod nkey;
pub mod oauth;
mod plain;
mod principal;
pub mod quota;
mod rate;
mod recent;
mod remembered;
mod rules;
pub mod scram;
mod secret;
#[cfg(test)]
mod tests;
mod user;
mod users;
mod users_file;

pub use attempts::{Admitted, FailedLogins, NotAdmitted, PendingLogins};
pub use errors::{CredentialError, Denied, UsersFileError};
pub use names::{UserName, UserNameError};
pub use plain::{PlainDenied, PlainError, PlainLogin};
pub use principal::Principal;
pub use rate::{Bill, Idle, RateAccount};
pub use remembered::RememberedPasswords;
pub use rules::{ResponseLimits, Rules};
pub use user::User;
pub use users::{Check, Credential, SlowCheck, Users};
