//! Validation of a token: its form, its signature, its claims.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::algorithm::Algorithm;
use super::claims::{ClaimError, Token, check};
use super::json::{Json, JsonError, Object, beginning, object};
use super::jwks::{Jwks, KID_CHARS_MAX, Key};
use super::message::TOKEN_BYTES_MAX;
use super::settings::{TokenSettings, TokenSettingsError};

/// Maximum number of values in a header. Few have more than four. A client can make the server read a header
/// before it has shown anything, so this bounds the memory to about 50 KiB and the text.
const HEADER_VALUES_MAX: usize = 64;

/// Maximum number of values in the claims. Lists of groups or roles can have hundreds.
const CLAIM_VALUES_MAX: usize = 4_096;

/// Why a token is refused. This is for the log; the client is told less. The token is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Too many bytes.
    #[error("the token has {found} bytes, and {TOKEN_BYTES_MAX} are the most")]
    TooLong {
        /// The length, in bytes.
        found: usize,
    },
    /// Fewer or more than three parts. Encrypted tokens have five.
    #[error("the token is not a signed JWT: expected three parts")]
    Parts,
    /// A part is not base64url, or has padding, or bits are set that say nothing.
    #[error("the token's {part} is not base64url without padding")]
    Base64 {
        /// Which part.
        part: TokenPart,
    },
    /// A part is not the JSON of an object, or a key occurs twice in one.
    #[error("the token's {part} cannot be read: {error}")]
    Json {
        /// Which part.
        part: TokenPart,
        /// What is wrong.
        error: JsonError,
    },
    /// The header has no algorithm.
    #[error("the token's header has no alg, or one that is not a text")]
    NoAlgorithm,
    /// Another algorithm, for example `none` or `HS256`.
    #[error("the token's algorithm {found:?} is not allowed: expected RS, PS or ES with 256, 384 or 512")]
    Algorithm {
        /// The beginning of the algorithm's name.
        found: String,
    },
    /// The header demands extensions (RFC 7515, section 4.1.11). None is supported.
    #[error("the token's header has crit, and no extension is supported")]
    Critical,
    /// The header does not say which key signed the token.
    #[error("the token's header has no kid, or one that is not a text")]
    NoKid,
    /// Too long an id.
    #[error("the token's kid has more than {KID_CHARS_MAX} characters")]
    KidTooLong,
    /// The key set does not have this key. It may be a new one: see [`MissingKeys`](super::MissingKeys).
    #[error("the token is signed with the key {:?}, which is unknown", beginning(kid))]
    UnknownKid {
        /// The key's id, at most 1,000 characters.
        kid: String,
    },
    /// The key is of another type, or the key set allows it another algorithm.
    #[error("the token's key does not allow the algorithm {found}")]
    KeyAlgorithm {
        /// The algorithm.
        found: &'static str,
    },
    /// The signature is wrong.
    #[error("the token's signature does not match its key")]
    Signature,
    /// A claim is wrong.
    #[error("the token is signed, but {0}")]
    Claim(#[from] ClaimError),
}

/// A part of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPart {
    /// The first, which says how it is signed.
    Header,
    /// The second, which says for whom and until when it is.
    Claims,
    /// The third.
    Signature,
}

impl fmt::Display for TokenPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Claims => "claims",
            Self::Signature => "signature",
        })
    }
}

/// Validates tokens.
#[derive(Clone, Debug)]
pub struct TokenValidator {
    settings: TokenSettings,
}

impl TokenValidator {
    /// Makes a validator.
    ///
    /// # Errors
    /// The issuer or the audiences are not named, or another setting is out of its range.
    pub fn new(settings: TokenSettings) -> Result<Self, TokenSettingsError> {
        settings.check()?;
        Ok(Self { settings })
    }

    /// Validates a token at a time in milliseconds since 1970. Takes about 0.1 ms, and 1.2 ms with a key on
    /// the curve P-384. Anybody who knows the id of a key can make the server spend that time.
    ///
    /// Nothing but the header is read before the signature is verified. Keys in the header (`jwk`, `jku`,
    /// `x5c`) are ignored: only those of the key set count.
    ///
    /// # Errors
    /// Says what is wrong. After [`TokenError::UnknownKid`] newer keys may help.
    pub fn validate(&self, token: &str, keys: &Jwks, now_ms: i64) -> Result<Token, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong { found: token.len() });
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Parts)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Parts)?;
        if claims.contains('.') {
            return Err(TokenError::Parts);
        }
        let (algorithm, key) = signing_key(&read(TokenPart::Header, header, HEADER_VALUES_MAX)?, keys)?;
        let signature = Zeroizing::new(decoded(TokenPart::Signature, signature)?);
        if !key.public.verifies(algorithm, signed.as_bytes(), &signature) {
            return Err(TokenError::Signature);
        }
        Ok(check(&read(TokenPart::Claims, claims, CLAIM_VALUES_MAX)?, &self.settings, now_ms)?)
    }
}

/// Returns the algorithm and the key of a token, if the key allows the algorithm.
fn signing_key<'a>(header: &Object, keys: &'a Jwks) -> Result<(Algorithm, &'a Key), TokenError> {
    let text = |name: &str| header.get(name).and_then(Json::text);
    let name = text("alg").ok_or(TokenError::NoAlgorithm)?;
    let algorithm = Algorithm::from_name(name);
    let algorithm = algorithm.ok_or_else(|| TokenError::Algorithm { found: beginning(name) })?;
    if header.contains_key("crit") {
        return Err(TokenError::Critical);
    }
    let kid = text("kid").ok_or(TokenError::NoKid)?;
    if kid.chars().count() > KID_CHARS_MAX {
        return Err(TokenError::KidTooLong);
    }
    let key = keys.get(kid).ok_or_else(|| TokenError::UnknownKid { kid: kid.to_owned() })?;
    if key.allows(algorithm) {
        Ok((algorithm, key))
    } else {
        Err(TokenError::KeyAlgorithm { found: algorithm.name() })
    }
}

fn read(part: TokenPart, text: &str, values_max: usize) -> Result<Object, TokenError> {
    object(&decoded(part, text)?, values_max).map_err(|error| TokenError::Json { part, error })
}

fn decoded(part: TokenPart, text: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Base64 { part })
}
