//! Logins with SASL: as which user, with which mechanism, and the exchange with the server.
//!
//! Deliberately absent: OAUTHBEARER, GSSAPI, channel binding, SASLprep (Kafka's clients do not apply it
//! either), and re-authentication. When the lifetime of a session ends, the server closes the connection, and
//! the next one logs in again.

mod arguments;
mod errors;
mod login;
mod mechanism;
mod pages;
mod password;
mod prompt;
mod scram;

pub(crate) use arguments::{
    LOGIN_PASSWORD_FILE, LOGIN_USER, SaslArguments, TERMINAL, second_password_name, second_user_name,
};
pub(crate) use errors::{LoginError, PasswordError, listed};
pub(crate) use login::Login;
pub(super) use login::demanded_mechanisms;
pub(crate) use mechanism::{SALT_BYTES, ScramMechanism};
pub(crate) use pages::PageLogin;
pub(crate) use password::Password;
