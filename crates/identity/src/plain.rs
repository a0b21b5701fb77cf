//! SASL PLAIN (RFC 4616): `[authzid] NUL user NUL password`.
//!
//! The message is parsed here. The caller looks up the user and compares the password, and
//! [`PlainLogin::accept`] then says whether the login stands.

use crate::names::{USER_NAME_BYTES_MAX, UserName, UserNameError};
use crate::secret::PASSWORD_BYTES_MAX;

/// Maximum length of the message, in bytes: two names, a password and two NULs.
const MESSAGE_BYTES_MAX: usize = 2 * USER_NAME_BYTES_MAX + PASSWORD_BYTES_MAX + 2;

/// What is wrong with the message. This is for the log: the client is told only that the login failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlainError {
    /// Longer than any legal message.
    #[error("the message has {found} bytes, more than {MESSAGE_BYTES_MAX}")]
    TooLong {
        /// The length found, in bytes.
        found: usize,
    },
    /// Not UTF-8.
    #[error("the message is not UTF-8")]
    NotUtf8,
    /// More or fewer than three parts.
    #[error("expected three parts with a NUL between them")]
    Parts,
    /// No user can have this name.
    #[error(transparent)]
    Name(#[from] UserNameError),
    /// The name to act as is longer than any name.
    #[error("the name to act as has more than {USER_NAME_BYTES_MAX} bytes")]
    OtherNameTooLong,
    /// The password is empty or too long. Its length is not shown.
    #[error("a password has 1 to {PASSWORD_BYTES_MAX} bytes")]
    Password,
}

/// Why a well-formed login fails. This is for the log: the client is told only that the login failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlainDenied {
    /// The user is unknown or disabled, or the password is wrong.
    #[error("its user or password is wrong")]
    WrongPassword,
    /// The password is right, but the client asks to act as another user (CVE-2017-12610).
    #[error("its password is right, but it asked to act as another user")]
    OtherUser,
}

/// A login that was presented and not yet checked. It has no `Debug`, because it holds the password.
pub struct PlainLogin<'a> {
    authzid: &'a str,
    user: UserName,
    password: &'a str,
}

impl<'a> PlainLogin<'a> {
    /// Parses the message of a client.
    ///
    /// # Errors
    /// It has not exactly three parts, or one of them has a wrong length. A name to act as is not compared
    /// yet: see [`PlainLogin::accept`].
    pub fn parse(message: &'a [u8]) -> Result<Self, PlainError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(PlainError::TooLong { found: message.len() });
        }
        let text = str::from_utf8(message).map_err(|_| PlainError::NotUtf8)?;
        let mut parts = text.split('\0');
        let (Some(authzid), Some(user), Some(password), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(PlainError::Parts);
        };
        if authzid.len() > USER_NAME_BYTES_MAX {
            return Err(PlainError::OtherNameTooLong);
        }
        let user = UserName::new(user)?;
        if !(1..=PASSWORD_BYTES_MAX).contains(&password.len()) {
            return Err(PlainError::Password);
        }
        Ok(Self { authzid, user, password })
    }

    /// Returns the user whose password was presented.
    pub fn user(&self) -> &UserName {
        &self.user
    }

    /// Returns the password, a secret.
    pub fn password(&self) -> &'a str {
        self.password
    }

    /// Reports whether the client asks to act as another user. This alone must not end the login early:
    /// otherwise the time of the answer differs.
    pub(crate) fn asks_for_other_user(&self) -> bool {
        !self.authzid.is_empty() && self.authzid != self.user.as_str()
    }

    /// Ends the login, and returns the authenticated user. `is_password` says whether the user exists, is not
    /// disabled, and has this password.
    ///
    /// # Errors
    /// The password is wrong, or it is right and the client asks to act as another user.
    pub fn accept(self, is_password: bool) -> Result<UserName, PlainDenied> {
        if !is_password {
            return Err(PlainDenied::WrongPassword);
        }
        if self.asks_for_other_user() { Err(PlainDenied::OtherUser) } else { Ok(self.user) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garbled::garbled;

    #[test]
    fn three_parts_are_parsed() {
        for (message, user, password, asks) in [
            ("\0alice\0sesame", "alice", "sesame", false),
            ("alice\0alice\0sesame", "alice", "sesame", false),
            ("bob\0alice\0sesame", "alice", "sesame", true),
            ("Alice\0alice\0sesame", "alice", "sesame", true),
            ("*\0alice\0sesame", "alice", "sesame", true),
            ("\0élève\0mot de passe, =;\n", "élève", "mot de passe, =;\n", false),
        ] {
            let login = PlainLogin::parse(message.as_bytes()).map_err(|error| error.to_string()).unwrap();
            assert_eq!((login.user().as_str(), login.password()), (user, password));
            assert_eq!(login.asks_for_other_user(), asks, "{message:?}");
        }
    }

    #[test]
    fn messages_with_a_wrong_part_are_refused() {
        let long = |bytes| "x".repeat(bytes);
        for (message, expected) in [
            (String::new(), PlainError::Parts),
            ("alice".to_owned(), PlainError::Parts),
            ("alice\0sesame".to_owned(), PlainError::Parts),
            ("\0alice\0sesame\0".to_owned(), PlainError::Parts),
            ("\0alice\0ses\0ame".to_owned(), PlainError::Parts),
            ("\0\0sesame".to_owned(), PlainError::Name(UserNameError::Empty)),
            ("\0ANONYMOUS\0sesame".to_owned(), PlainError::Name(UserNameError::Reserved)),
            ("\0a\nb\0sesame".to_owned(), PlainError::Name(UserNameError::Character)),
            ("\0alice\0".to_owned(), PlainError::Password),
            (format!("\0alice\0{}", long(4097)), PlainError::Password),
            (format!("\0{}\0sesame", long(256)), PlainError::Name(UserNameError::TooLong { found: 256 })),
            (format!("{}\0alice\0sesame", long(256)), PlainError::OtherNameTooLong),
            (long(MESSAGE_BYTES_MAX + 1), PlainError::TooLong { found: MESSAGE_BYTES_MAX + 1 }),
        ] {
            assert_eq!(PlainLogin::parse(message.as_bytes()).err(), Some(expected), "{message:?}");
        }
        assert_eq!(PlainLogin::parse(b"\0alice\0\xff").err(), Some(PlainError::NotUtf8));
    }

    #[test]
    fn the_longest_parts_are_accepted() {
        let name = "n".repeat(USER_NAME_BYTES_MAX);
        let message = format!("{name}\0{name}\0{}", "p".repeat(PASSWORD_BYTES_MAX));
        let login = PlainLogin::parse(message.as_bytes()).ok().unwrap();
        assert_eq!(login.accept(true).unwrap().as_str(), name);
    }

    #[test]
    fn acting_as_another_user_fails_after_the_password_was_compared() {
        for (message, is_password, expected) in [
            ("\0alice\0sesame", true, Ok("alice")),
            ("alice\0alice\0sesame", true, Ok("alice")),
            ("\0alice\0sesame", false, Err(PlainDenied::WrongPassword)),
            ("bob\0alice\0sesame", true, Err(PlainDenied::OtherUser)),
            ("bob\0alice\0sesame", false, Err(PlainDenied::WrongPassword)),
        ] {
            let accepted = PlainLogin::parse(message.as_bytes()).ok().unwrap().accept(is_password);
            assert_eq!(accepted.as_ref().map(UserName::as_str).map_err(|denied| *denied), expected);
        }
    }

    #[test]
    fn garbled_messages_are_refused_or_have_three_whole_parts() {
        for message in garbled(&[b"\0alice\0sesame", b"alice\0alice\0sesame", b"\0\xc3\xa9\0\xc3\xa9"]) {
            if let Ok(login) = PlainLogin::parse(&message) {
                let parts = [login.authzid, login.user.as_str(), login.password].join("\0");
                assert_eq!(parts.as_bytes(), message);
            }
        }
    }
}
