//! Authentication and authorization: principals, users with their credentials, and rules. And the rates at
//! which those may be served.
//!
//! This crate knows no protocol and does not block. [`Users`] takes the text of a users file and the
//! credentials that a client presents, and returns the user they belong to. If that takes long, it returns
//! [`Check::Slow`], and the caller runs the check on a thread that may block. Randomness is passed in. The
//! crate needs no clock: time limits are numbers of milliseconds, and the owner of a connection measures
//! them.
//!
//! Deliberately not here: the login of a protocol, the recent deliveries of a connection (nats: `auth`), and
//! the caller and deadline of a request (node: `Caller`).

mod errors;
mod nkey;
mod principal;
mod rate;
mod rules;
mod secret;
#[cfg(test)]
mod tests;
mod user;
mod users;
mod users_file;

pub use errors::{CredentialError, Denied, UsersFileError};
pub use principal::Principal;
pub use rate::{Bill, Idle, RateAccount};
pub use rules::{ResponseLimits, Rules};
pub use user::User;
pub use users::{Check, Credential, SlowCheck, Users};
