//! Names of accounts.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Maximum length of an account's name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The account of users who belong to no other.
const GLOBAL: &str = "$G";

/// What is wrong with an account's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountNameError {
    /// No name.
    #[error("an account's name must not be empty")]
    Empty,
    /// Too many bytes.
    #[error("an account's name has {NAME_BYTES_MAX} bytes at most, not {found}")]
    TooLong {
        /// The length found, in bytes.
        found: usize,
    },
    /// A character that would make the name more than one word of a subject, or a wildcard.
    #[error(
        "an account's name must be one word of a subject: no dots, wildcards, spaces or control characters"
    )]
    Character,
}

/// The name of an account. With an operator it is the account's public key (`A...`). It is one word of a
/// subject, because it stands in subjects of events and of exports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(Arc<str>);

impl AccountName {
    /// Checks a name.
    ///
    /// # Errors
    /// It is empty, too long, or not one word of a subject.
    pub fn new(name: &str) -> Result<Self, AccountNameError> {
        if name.is_empty() {
            return Err(AccountNameError::Empty);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(AccountNameError::TooLong { found: name.len() });
        }
        if name.contains(|c: char| c == '.' || c.is_whitespace() || c.is_control())
            || name == "*"
            || name == ">"
        {
            return Err(AccountNameError::Character);
        }
        Ok(Self(name.into()))
    }

    /// Returns `$G`, the account of users who belong to no other.
    pub(crate) fn global() -> Self {
        Self(GLOBAL.into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for AccountName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<AccountName> for Arc<str> {
    fn from(name: AccountName) -> Self {
        name.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_subject() {
        for name in ["", "a.b", "*", ">", "a b", "a\u{a0}b", "a\tb", "a\nb", "a\0", &"a".repeat(256)] {
            assert!(AccountName::new(name).is_err(), "{name:?}");
        }
        for name in ["A", "$G", "$SYS", "a*b", "élève", &"a".repeat(255)] {
            assert_eq!(AccountName::new(name).unwrap().as_str(), name);
        }
    }
}
