//! Who somebody is, how that is proved, and what who may do: principals, users with their credentials, and rules.
//!
//! Knows no protocol and waits for nothing: [`Users`] takes the text of a file and what a client presents, and says
//! whose it is. Where that takes long, it says so ([`Check::Slow`]), and who asked runs it on a thread that has the
//! time. Randomness is handed in; the time is not needed: limits are told in milliseconds, and counted by who holds a
//! connection.
//!
//! Deliberately not here: what a protocol's login looks like, what a connection has been told lately (nats: `auth`),
//! whom a request comes from and until when he waits (node: `Caller`).

mod errors;
mod nkey;
mod principal;
mod rules;
mod secret;
#[cfg(test)]
mod tests;
mod user;
mod users;
mod users_file;

pub use errors::{CredentialError, Denied, UsersFileError};
pub use principal::Principal;
pub use rules::{ResponseLimits, Rules};
pub use user::User;
pub use users::{Check, Credential, SlowCheck, Users};
