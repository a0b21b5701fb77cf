//! Passwords that were accepted, so that only the first login of a user pays a PBKDF2.
//!
//! SCRAM does not need this: there the client pays. PLAIN and NATS passwords do. A password is remembered as
//! its HMAC under a key of this process, together with the verifier's stored key. If the user's password
//! changes, the stored key changes too, and what was remembered matches nothing.

use std::fmt;
use std::sync::Arc;

use ring::hmac;
use zeroize::Zeroizing;

use crate::names::UserName;
use crate::recent::Recent;
use crate::scram::ScramVerifier;
use crate::secret::{PASSWORD_BYTES_MAX, SecretKey};

/// Most users whose password is remembered. An entry takes up to 500 bytes: 50 MB in all if all names have
/// their maximum length, and half of that with usual names. If there are more users, the one that was
/// remembered longest ago leaves.
pub(crate) const REMEMBERED_USERS_MAX: usize = 100_000;

/// The last accepted password of each user.
///
/// A wrong password is never remembered, and no guess is quicker to refuse than another: what is not
/// remembered must be compared with [`ScramVerifier::is_password`], as for a user without an entry.
pub struct RememberedPasswords {
    key: SecretKey,
    accepted: Recent<Arc<str>, hmac::Tag>,
    /// Compared for users without an entry, so that the time does not tell who has one. It matches nothing,
    /// because no signed text is empty.
    nothing: hmac::Tag,
}

impl RememberedPasswords {
    /// Remembers nothing yet. `random` must be unpredictable and different in every process.
    pub fn new(random: &[u8; 32]) -> Self {
        let key = SecretKey::new(random);
        let nothing = key.sign(&[]);
        Self { key, accepted: Recent::new(REMEMBERED_USERS_MAX), nothing }
    }

    /// Reports whether this password of this verifier was the last one that was accepted for the user. If
    /// not, only [`ScramVerifier::is_password`] can tell whether it is right.
    pub fn is(&self, user: &UserName, verifier: &ScramVerifier, password: &str) -> bool {
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        let tag = self.accepted.get(user.as_str()).unwrap_or(&self.nothing);
        self.key.is(tag, &text(verifier, password))
    }

    /// Remembers a password that [`ScramVerifier::is_password`] accepted. It replaces the user's last one.
    pub fn remember(&mut self, user: UserName, verifier: &ScramVerifier, password: &str) {
        let tag = self.key.sign(&text(verifier, password));
        self.accepted.put(user.into(), tag);
    }

    /// Forgets the password of a user whose verifier was changed or removed. This frees memory. Even without
    /// it, the password is not accepted under another verifier.
    pub fn forget(&mut self, user: &str) {
        self.accepted.remove(user);
    }

    /// Returns how many passwords are remembered.
    pub fn len(&self) -> usize {
        self.accepted.len()
    }

    /// Reports whether no password is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for RememberedPasswords {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RememberedPasswords").field("users", &self.len()).finish_non_exhaustive()
    }
}

/// The text that is signed. Two pairs never have the same: the mechanism's code says how long its key is.
fn text(verifier: &ScramVerifier, password: &str) -> Zeroizing<Vec<u8>> {
    let code = [verifier.mechanism().code() as u8];
    Zeroizing::new([&code, verifier.stored_key(), password.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scram::{ITERATIONS_DEFAULT, ScramMechanism};

    fn verifier(password: &str, salt: &[u8]) -> ScramVerifier {
        ScramVerifier::from_password(ScramMechanism::Sha256, password, salt, ITERATIONS_DEFAULT).unwrap()
    }

    fn name(text: &str) -> UserName {
        UserName::new(text).unwrap()
    }

    #[test]
    fn only_the_accepted_password_of_the_same_user_and_verifier_is_remembered() {
        let (old, new) = (verifier("sesame", b"salt"), verifier("sesame", b"other salt"));
        let mut remembered = RememberedPasswords::new(&[7; 32]);
        assert!(!remembered.is(&name("alice"), &old, "sesame") && remembered.is_empty());
        remembered.remember(name("alice"), &old, "sesame");
        assert!(remembered.is(&name("alice"), &old, "sesame"));
        for password in ["sesam", "sesame ", "", &"x".repeat(PASSWORD_BYTES_MAX + 1)] {
            assert!(!remembered.is(&name("alice"), &old, password), "{password:?}");
        }
        assert!(!remembered.is(&name("bob"), &old, "sesame"));
        assert!(!remembered.is(&name("alice"), &new, "sesame"), "the verifier changed");
        remembered.remember(name("alice"), &new, "sesame");
        assert!(remembered.is(&name("alice"), &new, "sesame"));
        assert!(!remembered.is(&name("alice"), &old, "sesame") && remembered.len() == 1);
    }

    #[test]
    fn a_forgotten_password_must_be_compared_again() {
        let verifier = verifier("sesame", b"salt");
        let mut remembered = RememberedPasswords::new(&[7; 32]);
        remembered.remember(name("alice"), &verifier, "sesame");
        remembered.remember(name("bob"), &verifier, "sesame");
        remembered.forget("alice");
        assert!(!remembered.is(&name("alice"), &verifier, "sesame"));
        assert!(remembered.is(&name("bob"), &verifier, "sesame"));
    }

    #[test]
    fn the_user_who_was_remembered_longest_ago_leaves_when_there_are_too_many() {
        let verifier = verifier("sesame", b"salt");
        let mut remembered = RememberedPasswords::new(&[7; 32]);
        for number in 0..=REMEMBERED_USERS_MAX {
            remembered.remember(name(&format!("user {number}")), &verifier, "sesame");
        }
        assert_eq!(remembered.len(), REMEMBERED_USERS_MAX);
        assert!(!remembered.is(&name("user 0"), &verifier, "sesame"));
        assert!(remembered.is(&name("user 1"), &verifier, "sesame"));
    }

    #[test]
    fn nothing_that_is_printed_shows_a_secret() {
        let mut remembered = RememberedPasswords::new(&[7; 32]);
        remembered.remember(name("alice"), &verifier("sesame", b"salt"), "sesame");
        assert_eq!(format!("{remembered:?}"), "RememberedPasswords { users: 1, .. }");
    }
}
