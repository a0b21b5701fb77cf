//! Tokens and key sets, good and bad. The keys of the tests sign whatever a test asks for.

mod claims;
mod jwks;
mod mint;
mod signatures;
