//! SCRAM: proof of a password without sending it (RFC 5802, RFC 7677).
//!
//! A login is four messages. [`ScramStart::parse`] takes the client's first one, and the caller looks up the
//! user. [`ScramStart::challenge`] returns the server's first message, and [`ScramProof::finish`] takes the
//! client's final one and returns the server's. A user who does not exist is challenged like any other, with
//! [`ScramVerifier::decoy`], and fails at the end.
//!
//! Deliberately not here: channel binding, SASLprep, and the `e=` of the server's final message, which Kafka
//! does not send either.

mod bounds;
mod errors;
mod exchange;
mod mechanism;
pub mod message;
#[cfg(test)]
mod tests;
mod verifier;

pub use errors::ScramError;
pub use exchange::{SERVER_NONCE_RANDOM_BYTES, ScramProof, ScramProven, ScramStart};
pub use mechanism::ScramMechanism;
pub use verifier::{ITERATIONS_DEFAULT, ScramVerifier, VerifierError};
