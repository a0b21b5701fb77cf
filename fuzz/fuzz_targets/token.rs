//! Arbitrary bytes as a key set and a token (the first byte 0xff separates them), and as the claims of a
//! token. Reading must not panic, a token is valid only with a signature, and whatever claims are accepted
//! must be of the issuer, name a legal user, and expire in the future.
//!
//! Run: `cargo +nightly fuzz run token -- -max_len=4096 -rss_limit_mb=512`

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tailrace_identity::UserName;
use tailrace_identity::oauth::{Jwks, MissingKeys, Token, TokenError, TokenSettings, TokenValidator, fuzzing};

const NOW_MS: i64 = 1_500_000;

/// A key that the fuzzer cannot sign with.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

static KNOWN: LazyLock<Jwks> = LazyLock::new(|| Jwks::parse(KEYS.as_bytes()).expect("a key set"));
static SETTINGS: LazyLock<TokenSettings> = LazyLock::new(|| TokenSettings::new("https://idp", &["kafka"]));
static VALIDATOR: LazyLock<TokenValidator> =
    LazyLock::new(|| TokenValidator::new(SETTINGS.clone()).expect("settings"));

fuzz_target!(|data: &[u8]| {
    if let Some(token) = fuzzing::claims(data, &SETTINGS, NOW_MS) {
        look(&token);
        let text = String::from_utf8_lossy(data);
        assert!(text.contains("idp") || text.contains('\\'), "{text}");
    }
    let at = data.iter().position(|byte| *byte == 0xff).unwrap_or(data.len());
    let (set, token) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let token = String::from_utf8_lossy(token);
    match VALIDATOR.validate(&token, &KNOWN, NOW_MS) {
        Ok(token) => panic!("a forged token: {token:?}"),
        Err(TokenError::UnknownKid { kid }) => {
            let mut missing = MissingKeys::new();
            if missing.is_reason_to_refresh(&kid, NOW_MS) {
                assert!(!missing.is_reason_to_refresh(&kid, NOW_MS));
            }
        }
        Err(_) => {}
    }
    if let Ok(keys) = Jwks::parse(set) {
        assert!(keys.skipped().len() <= 256);
        if let Ok(token) = VALIDATOR.validate(&token, &keys, NOW_MS) {
            look(&token);
        }
    }
});

fn look(token: &Token) {
    assert!(UserName::new(token.name.as_str()).is_ok());
    // The clock skew is 30 s.
    assert!(token.expires_at_ms > NOW_MS - 30_000);
    assert!(token.scopes.len() <= 256);
}
