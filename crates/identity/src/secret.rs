//! Passwords and tokens: how they are stored, and how presented secrets are compared with them.
//!
//! A plain password is stored as its HMAC under a key of this process. Comparing takes the same time whatever
//! the length and the position of the first difference, and the password itself stays in memory no longer
//! than the settings do. A bcrypt hash is stored as it is. Checking one takes a good part of a second, so an
//! accepted password is remembered, again as an HMAC. Otherwise a thousand clients that reconnect after a
//! restart would wait for minutes.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ring::hmac;

use crate::errors::CredentialError;

/// Lowest cost of bcrypt.
const COST_MIN: u32 = 4;

/// Highest accepted cost. A check takes several seconds then, longer than any authentication timeout.
const COST_MAX: u32 = 16;

/// Maximum length of a password, in bytes of UTF-8. bcrypt uses 72 bytes of it.
pub(crate) const PASSWORD_BYTES_MAX: usize = 4096;

/// The HMAC key for plain secrets. Clones share it.
#[derive(Clone)]
pub(crate) struct SecretKey(Arc<hmac::Key>);

impl SecretKey {
    /// Makes a key from `random`, which must be unpredictable.
    pub(crate) fn new(random: &[u8; 32]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, random)))
    }

    pub(crate) fn sign(&self, text: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, text)
    }

    /// Reports whether `tag` was made of `text`, in constant time.
    pub(crate) fn is(&self, tag: &hmac::Tag, text: &[u8]) -> bool {
        hmac::verify(&self.0, text, tag.as_ref()).is_ok()
    }
}

/// Compares two secrets. The time depends on their lengths only.
///
/// ring's own comparison of bytes is deprecated, so this verifies an HMAC, which ring does in constant time.
pub(crate) fn is_same_secret(expected: &[u8], found: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, found);
    hmac::verify(&key, found, hmac::sign(&key, expected).as_ref()).is_ok()
}

/// A secret that a client must present.
pub(crate) enum Secret {
    Plain(hmac::Tag),
    Bcrypt { hash: Arc<str>, cost: u32, accepted: ArcSwapOption<hmac::Tag> },
}

/// Result of a quick comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quick {
    Is,
    IsNot,
    /// Only [`Secret::is_slowly`] can tell.
    Unknown,
}

impl Secret {
    /// Makes a secret that nobody knows from `random`, which must be unpredictable.
    pub(crate) fn decoy(key: &SecretKey, random: &[u8]) -> Self {
        Self::Plain(key.sign(random))
    }

    /// Stores a secret as it is configured: plain text, or a bcrypt hash.
    ///
    /// # Errors
    /// Describes what is wrong with a hash, without showing it.
    pub(crate) fn new(key: &SecretKey, text: &str) -> Result<Self, CredentialError> {
        if text.is_empty() {
            return Err(CredentialError::Empty);
        }
        if !text.starts_with("$2") {
            return Ok(Self::Plain(key.sign(text.as_bytes())));
        }
        let cost = bcrypt_cost(text).ok_or(CredentialError::NotBcrypt)?;
        if !(COST_MIN..=COST_MAX).contains(&cost) {
            return Err(CredentialError::Cost { cost, cost_min: COST_MIN, cost_max: COST_MAX });
        }
        Ok(Self::Bcrypt { hash: text.into(), cost, accepted: ArcSwapOption::empty() })
    }

    /// Returns the cost of a check: 0 for plain text, the exponent for bcrypt.
    pub(crate) fn cost(&self) -> u32 {
        match self {
            Self::Plain(_) => 0,
            Self::Bcrypt { cost, .. } => *cost,
        }
    }

    /// Returns a secret that takes as long to check, and remembers nothing.
    pub(crate) fn as_decoy(&self) -> Self {
        match self {
            Self::Plain(tag) => Self::Plain(*tag),
            Self::Bcrypt { hash, cost, .. } => {
                Self::Bcrypt { hash: Arc::clone(hash), cost: *cost, accepted: ArcSwapOption::empty() }
            }
        }
    }

    /// Reports whether `presented` is the secret, if that can be told quickly. All wrong guesses take the
    /// same time.
    pub(crate) fn is(&self, key: &SecretKey, presented: &str) -> Quick {
        if presented.len() > PASSWORD_BYTES_MAX {
            return Quick::IsNot;
        }
        match self {
            Self::Plain(tag) if key.is(tag, presented.as_bytes()) => Quick::Is,
            Self::Plain(_) => Quick::IsNot,
            Self::Bcrypt { accepted, .. } => match &*accepted.load() {
                Some(tag) if key.is(tag, presented.as_bytes()) => Quick::Is,
                _ => Quick::Unknown,
            },
        }
    }

    /// Reports whether `presented` is the secret. Takes a good part of a second, or several.
    pub(crate) fn is_slowly(&self, key: &SecretKey, presented: &str) -> bool {
        match self {
            Self::Plain(_) => self.is(key, presented) == Quick::Is,
            Self::Bcrypt { hash, .. } => bcrypt::verify(presented, hash).unwrap_or(false),
        }
    }

    /// Remembers `presented` as the secret, so that the next comparison is quick.
    pub(crate) fn remember(&self, key: &SecretKey, presented: &str) {
        if let Self::Bcrypt { accepted, .. } = self {
            accepted.store(Some(Arc::new(key.sign(presented.as_bytes()))));
        }
    }
}

/// Returns the cost in `$2b$11$...` and its variants. `$2x$` is not accepted: it marks hashes of a faulty
/// implementation.
fn bcrypt_cost(text: &str) -> Option<u32> {
    let rest = ["$2a$", "$2b$", "$2y$"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let (cost, hash) = rest.split_once('$')?;
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'/';
    (cost.len() == 2 && hash.len() == 53 && hash.bytes().all(is_legal)).then(|| cost.parse().ok())?
}
