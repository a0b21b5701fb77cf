//! The users that need no rule.

use std::collections::BTreeSet;

use super::{USER_TYPE, WILDCARD};

/// Maximum length of the setting, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// What is wrong with the list of super users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperUsersError {
    /// The text is too long.
    #[error("a list of super users has at most {TEXT_BYTES_MAX} bytes, not {bytes}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// An entry does not name a user.
    #[error("{entry:?} is not a user: expected User:NAME")]
    NotAUser {
        /// The entry.
        entry: String,
    },
    /// An entry for everybody. Kafka reads it as a user of that name.
    #[error("User:* does not make everybody a super user: name the users")]
    Everybody,
}

/// Users that may do everything, whatever the rules say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuperUsers(BTreeSet<Box<str>>);

impl SuperUsers {
    /// Reads Kafka's `super.users`: principals such as `User:a`, separated by semicolons. Blanks around them
    /// and empty entries do not count.
    ///
    /// # Errors
    /// The entry that is wrong.
    pub fn parse(text: &str) -> Result<Self, SuperUsersError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(SuperUsersError::TooLong { bytes: text.len() });
        }
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(parse_entry).collect::<Result<_, _>>().map(Self)
    }

    /// Reports whether the user of this name is one of them. Upper and lower case differ.
    pub fn contains(&self, user: &str) -> bool {
        self.0.contains(user)
    }

    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the users, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|user| &**user)
    }
}

fn parse_entry(entry: &str) -> Result<Box<str>, SuperUsersError> {
    match entry.strip_prefix(USER_TYPE) {
        Some(WILDCARD) => Err(SuperUsersError::Everybody),
        Some(user) if !user.is_empty() => Ok(user.into()),
        _ => Err(SuperUsersError::NotAUser { entry: entry.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_separated_by_semicolons_and_compared_exactly() {
        let users = SuperUsers::parse(" User:admin; User:CN=a,OU=b ;;User:x:y").unwrap();
        assert_eq!(users.iter().collect::<Vec<_>>(), ["CN=a,OU=b", "admin", "x:y"]);
        assert!(users.contains("admin") && !users.contains("Admin") && !users.contains("User:admin"));
        assert!(SuperUsers::parse("").unwrap().is_empty() && SuperUsers::parse(" ; ").unwrap().is_empty());
    }

    #[test]
    fn an_entry_that_is_no_user_is_refused() {
        let not_a_user = |entry: &str| SuperUsersError::NotAUser { entry: entry.to_owned() };
        for (text, expected) in [
            ("admin", not_a_user("admin")),
            ("User:a;user:b", not_a_user("user:b")),
            ("User:", not_a_user("User:")),
            ("Group:a", not_a_user("Group:a")),
            ("User:a;User:*", SuperUsersError::Everybody),
            (&"x".repeat(65_537), SuperUsersError::TooLong { bytes: 65_537 }),
        ] {
            assert_eq!(SuperUsers::parse(text), Err(expected));
        }
    }
}
