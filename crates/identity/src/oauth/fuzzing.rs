//! Entry point of the fuzz target `token`: the claims, which no mutation reaches behind a signature.

use super::claims::{Token, check};
use super::json::object;
use super::settings::TokenSettings;

/// Reads claims as those of a token whose signature was verified. `None` if they are refused.
pub fn claims(json: &[u8], settings: &TokenSettings, now_ms: i64) -> Option<Token> {
    check(&object(json, 4_096).ok()?, settings, now_ms).ok()
}
