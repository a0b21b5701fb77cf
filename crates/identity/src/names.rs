//! Which names users may have, whatever the source: SCRAM, PLAIN, tokens, certificates, commands.
//!
//! A name is compared byte by byte. Nothing is normalized, trimmed or folded: Kafka and its clients do not
//! either.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Maximum length of a user's name, in bytes of UTF-8. Redpanda has the same limit.
pub(crate) const USER_NAME_BYTES_MAX: usize = 255;

/// The name of clients that present no credentials. `*` stands for everybody in rules.
const RESERVED: [&str; 2] = ["ANONYMOUS", "*"];

/// What is wrong with a user's name. The name itself is not shown: it may hold anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserNameError {
    /// No name.
    #[error("a user's name must not be empty")]
    Empty,
    /// Too many bytes.
    #[error("a user's name has {USER_NAME_BYTES_MAX} bytes at most, not {found}")]
    TooLong {
        /// The length found, in bytes.
        found: usize,
    },
    /// `ANONYMOUS` or `*`.
    #[error("the names ANONYMOUS and * are reserved")]
    Reserved,
    /// A character that could forge or garble a line of a log, or split a list of users.
    #[error("a user's name must not have control characters, line separators or semicolons")]
    Character,
}

/// The name of a user: one that a user may have. Whether the user exists is another question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(Arc<str>);

impl UserName {
    /// Checks a name.
    ///
    /// # Errors
    /// It is empty, longer than 255 bytes or reserved, or it has a forbidden character.
    pub fn new(name: &str) -> Result<Self, UserNameError> {
        if name.is_empty() {
            return Err(UserNameError::Empty);
        }
        if name.len() > USER_NAME_BYTES_MAX {
            return Err(UserNameError::TooLong { found: name.len() });
        }
        if RESERVED.contains(&name) {
            return Err(UserNameError::Reserved);
        }
        if name.contains(is_forbidden) {
            return Err(UserNameError::Character);
        }
        Ok(Self(name.into()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reports whether a name must not have this character. A line feed forges lines of a log, the other control
/// characters and the overrides of writing direction make a line look different, and `;` separates the users
/// in Kafka's `super.users`.
fn is_forbidden(c: char) -> bool {
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}');
    let is_direction = matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_separator || is_direction || c == ';'
}

impl Borrow<str> for UserName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<UserName> for Arc<str> {
    fn from(name: UserName) -> Self {
        name.0
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_else_are_refused() {
        for (name, expected) in [
            ("", UserNameError::Empty),
            ("*", UserNameError::Reserved),
            ("ANONYMOUS", UserNameError::Reserved),
            ("a\nb", UserNameError::Character),
            ("a\0", UserNameError::Character),
            ("\u{7f}", UserNameError::Character),
            ("a\u{85}b", UserNameError::Character),
            ("a\u{2028}b", UserNameError::Character),
            ("\u{202e}nimda", UserNameError::Character),
            ("a\u{2066}b", UserNameError::Character),
            ("alice;User:bob", UserNameError::Character),
            (&"a".repeat(256), UserNameError::TooLong { found: 256 }),
            (&"é".repeat(128), UserNameError::TooLong { found: 256 }),
        ] {
            assert_eq!(UserName::new(name), Err(expected), "{name:?}");
        }
    }

    #[test]
    fn all_other_names_are_kept_as_they_are() {
        for name in ["a", "Anonymous", "**", "User:a", "CN=a,OU=b", " a ", "élève", &"a".repeat(255)] {
            assert_eq!(UserName::new(name).unwrap().as_str(), name);
        }
    }
}
