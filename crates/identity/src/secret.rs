//! Passwords and tokens: how they are kept, and how what a client presents is compared with them.
//!
//! A plain password is kept as its HMAC under a key of this process, so that comparing takes the same time whatever the
//! length and wherever the first difference, and so that the password itself is not in memory for longer than the
//! settings are. A bcrypt hash is kept as it is. Since checking one takes a good part of a second, a password that was
//! accepted is remembered, as an HMAC again: otherwise a thousand clients that come back after a restart would wait for
//! minutes.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ring::hmac;

use crate::errors::CredentialError;

/// Lowest cost there is.
const COST_MIN: u32 = 4;

/// Highest cost that is accepted: a check takes several seconds then, beyond any authentication timeout.
const COST_MAX: u32 = 16;

/// Longest password that is looked at. bcrypt takes 72 bytes of it.
const PASSWORD_BYTES_MAX: usize = 4096;

/// The key that plain secrets are kept under; copies share it.
#[derive(Clone)]
pub(crate) struct SecretKey(Arc<hmac::Key>);

impl SecretKey {
    /// `random`: nobody can guess it.
    pub(crate) fn new(random: &[u8; 32]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, random)))
    }

    fn sign(&self, text: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, text)
    }

    fn is(&self, tag: &hmac::Tag, text: &str) -> bool {
        hmac::verify(&self.0, text.as_bytes(), tag.as_ref()).is_ok()
    }
}

/// What a client must present.
pub(crate) enum Secret {
    Plain(hmac::Tag),
    Bcrypt { hash: Arc<str>, cost: u32, accepted: ArcSwapOption<hmac::Tag> },
}

/// What a comparison says at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quick {
    Is,
    IsNot,
    /// [`Secret::is_slowly`] knows.
    Unknown,
}

impl Secret {
    /// One that nobody knows. `random`: nobody can guess it.
    pub(crate) fn decoy(key: &SecretKey, random: &[u8]) -> Self {
        Self::Plain(key.sign(random))
    }

    /// Takes over a secret as it is written: plain, or a bcrypt hash.
    ///
    /// # Errors
    /// What is wrong with a hash, without showing it.
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

    /// Cost of a check: 0 for plain text, the exponent for bcrypt.
    pub(crate) fn cost(&self) -> u32 {
        match self {
            Self::Plain(_) => 0,
            Self::Bcrypt { cost, .. } => *cost,
        }
    }

    /// One that takes as long to check and remembers nothing.
    pub(crate) fn as_decoy(&self) -> Self {
        match self {
            Self::Plain(tag) => Self::Plain(*tag),
            Self::Bcrypt { hash, cost, .. } => {
                Self::Bcrypt { hash: Arc::clone(hash), cost: *cost, accepted: ArcSwapOption::empty() }
            }
        }
    }

    /// Whether `presented` is the secret, as far as that is quick to say. Takes no longer for one wrong guess than for
    /// another.
    pub(crate) fn is(&self, key: &SecretKey, presented: &str) -> Quick {
        if presented.len() > PASSWORD_BYTES_MAX {
            return Quick::IsNot;
        }
        match self {
            Self::Plain(tag) if key.is(tag, presented) => Quick::Is,
            Self::Plain(_) => Quick::IsNot,
            Self::Bcrypt { accepted, .. } => match &*accepted.load() {
                Some(tag) if key.is(tag, presented) => Quick::Is,
                _ => Quick::Unknown,
            },
        }
    }

    /// The same, for certain: takes a good part of a second, or several.
    pub(crate) fn is_slowly(&self, key: &SecretKey, presented: &str) -> bool {
        match self {
            Self::Plain(_) => self.is(key, presented) == Quick::Is,
            Self::Bcrypt { hash, .. } => bcrypt::verify(presented, hash).unwrap_or(false),
        }
    }

    /// `presented` was found to be the secret: the next time that is quick to say.
    pub(crate) fn remember(&self, key: &SecretKey, presented: &str) {
        if let Self::Bcrypt { accepted, .. } = self {
            accepted.store(Some(Arc::new(key.sign(presented.as_bytes()))));
        }
    }
}

/// The cost of `$2b$11$...` and its kin; `$2x$` marks hashes that a faulty program made.
fn bcrypt_cost(text: &str) -> Option<u32> {
    let rest = ["$2a$", "$2b$", "$2y$"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let (cost, hash) = rest.split_once('$')?;
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'/';
    (cost.len() == 2 && hash.len() == 53 && hash.bytes().all(is_legal)).then(|| cost.parse().ok())?
}
