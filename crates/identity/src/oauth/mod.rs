//! OAUTHBEARER: logins with an access token of an identity provider (RFC 7628, KIP-255, KIP-768).
//!
//! A token is a JWT (RFC 7519), signed as a JWS in its compact form (RFC 7515). [`InitialResponse`] takes it
//! out of the client's first message, [`Jwks`] has the keys of the identity provider, and [`TokenValidator`]
//! returns the name in a valid token. [`MissingKeys`] decides whether an unknown key is a reason to fetch the
//! keys again.
//!
//! Deliberately not here: fetching the keys, and unsecured tokens (`alg` `none`), which Kafka accepts unless
//! it is told otherwise. There is no setting that lets one in.

mod algorithm;
mod claims;
#[cfg(fuzzing)]
pub mod fuzzing;
mod json;
mod jwks;
mod message;
mod missing_keys;
mod settings;
#[cfg(test)]
mod tests;
mod token;

pub use claims::{ClaimError, Token};
pub use json::JsonError;
pub use jwks::{Jwks, JwksError, SkipReason, SkippedKey};
pub use message::{Failure, InitialResponse, MessageError, is_failure_acknowledged};
pub use missing_keys::MissingKeys;
pub use settings::{TokenSettings, TokenSettingsError};
pub use token::{TokenError, TokenPart, TokenValidator};
