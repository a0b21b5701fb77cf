//! Passwords and tokens: how they are kept, and how what a client presents is compared with them.
//!
//! A plain password is kept as its HMAC under a key of this process, so that comparing takes the same time whatever the
//! length and wherever the first difference, and so that the password itself is not in memory for longer than the
//! settings are. A bcrypt hash is kept as it is. Since checking one takes a good part of a second, a password that was
//! accepted is remembered, as an HMAC again: otherwise a thousand clients that come back after a restart would wait for
//! minutes.

use std::sync::Arc;
use tailrace_env::task;

use arc_swap::ArcSwapOption;
use ring::hmac;
use tailrace_env::sync::Semaphore;

/// bcrypt checks that run at once. Each keeps a thread of those that also read cold pages busy.
const CHECKS_AT_ONCE: usize = 2;

/// Highest cost that is accepted: a check takes several seconds then, beyond any authentication timeout.
const COST_MAX: u32 = 16;

/// Longest password that is looked at. bcrypt takes 72 bytes of it.
const PASSWORD_BYTES_MAX: usize = 4096;

/// What a client must present.
pub(super) struct Secret(Kind);

enum Kind {
    Plain(hmac::Tag),
    Bcrypt { hash: Arc<str>, cost: u32, accepted: ArcSwapOption<hmac::Tag> },
}

impl Secret {
    /// Cost of a check: 0 for plain text, the exponent for bcrypt.
    pub(super) fn cost(&self) -> u32 {
        match &self.0 {
            Kind::Plain(_) => 0,
            Kind::Bcrypt { cost, .. } => *cost,
        }
    }

    /// One that takes as long to check and remembers nothing.
    pub(super) fn as_decoy(&self) -> Self {
        Self(match &self.0 {
            Kind::Plain(tag) => Kind::Plain(*tag),
            Kind::Bcrypt { hash, cost, .. } => {
                Kind::Bcrypt { hash: Arc::clone(hash), cost: *cost, accepted: ArcSwapOption::empty() }
            }
        })
    }
}

/// Compares.
pub(super) struct Checker {
    key: hmac::Key,
    places: Arc<Semaphore>,
}

impl Checker {
    pub(super) fn new() -> Self {
        let key = [tailrace_env::random::bytes16(), tailrace_env::random::bytes16()].concat();
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            places: Arc::new(Semaphore::new(CHECKS_AT_ONCE)),
        }
    }

    /// A secret that nobody knows.
    pub(super) fn decoy(&self) -> Secret {
        Secret(Kind::Plain(hmac::sign(&self.key, &tailrace_env::random::bytes16())))
    }

    /// Takes over a secret as it is written: plain, or a bcrypt hash.
    ///
    /// # Errors
    /// What is wrong with a hash, without showing it.
    pub(super) fn secret(&self, text: &str) -> Result<Secret, String> {
        if text.is_empty() {
            return Err("it must not be empty".to_owned());
        }
        if !text.starts_with("$2") {
            return Ok(Secret(Kind::Plain(hmac::sign(&self.key, text.as_bytes()))));
        }
        let cost = bcrypt_cost(text)
            .ok_or("it begins like a bcrypt hash and is none: $2b$COST$ and 53 characters")?;
        if !(4..=COST_MAX).contains(&cost) {
            return Err(format!("the cost of a bcrypt hash must be between 4 and {COST_MAX}, not {cost}"));
        }
        Ok(Secret(Kind::Bcrypt { hash: text.into(), cost, accepted: ArcSwapOption::empty() }))
    }

    /// True if `presented` is the secret. Takes no longer for one wrong guess than for another.
    pub(super) async fn matches(&self, secret: &Secret, presented: &str) -> bool {
        if presented.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        match &secret.0 {
            Kind::Plain(tag) => hmac::verify(&self.key, presented.as_bytes(), tag.as_ref()).is_ok(),
            Kind::Bcrypt { hash, accepted, .. } => {
                let known = accepted.load();
                let is_known =
                    |tag: &hmac::Tag| hmac::verify(&self.key, presented.as_bytes(), tag.as_ref()).is_ok();
                if known.as_deref().is_some_and(is_known) {
                    return true;
                }
                let matches = self.matches_hash(Arc::clone(hash), presented.to_owned()).await;
                if matches {
                    accepted.store(Some(Arc::new(hmac::sign(&self.key, presented.as_bytes()))));
                }
                matches
            }
        }
    }

    async fn matches_hash(&self, hash: Arc<str>, presented: String) -> bool {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return false };
        let check = move || {
            let matches = bcrypt::verify(presented, &hash).unwrap_or(false);
            // Also if nobody waits for the answer any more, the thread was busy until here.
            drop(place);
            matches
        };
        task::spawn_blocking(check).await.unwrap_or_else(|error| {
            // The client is not let in, and that is not its fault.
            tracing::error!(%error, "a bug of the server: comparing a password panicked");
            false
        })
    }
}

/// The cost of `$2b$11$...` and its kin; `$2x$` marks hashes that a faulty program made.
fn bcrypt_cost(text: &str) -> Option<u32> {
    let rest = ["$2a$", "$2b$", "$2y$"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let (cost, hash) = rest.split_once('$')?;
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'/';
    (cost.len() == 2 && hash.len() == 53 && hash.bytes().all(is_legal)).then(|| cost.parse().ok())?
}
