//! Passwords: where they come from, and what they may be.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ring::hmac;
use tailrace_cli::failure::plain;
use zeroize::Zeroizing;

use super::errors::PasswordError;
use super::prompt::ask;

/// The environment variable with the password of the user that logs in.
pub(crate) const VARIABLE: &str = "TAILRACE_PASSWORD";
/// Maximum length of a password, in bytes: the limit of the server.
pub(super) const PASSWORD_BYTES_MAX: usize = 4_096;

/// A password. It is never printed, and erased when it is dropped.
pub(crate) struct Password(Zeroizing<String>);

impl Password {
    /// Reads the single line of a file. A line end behind it does not count.
    ///
    /// # Errors
    /// The file cannot be read, or its content is not a password.
    pub(crate) fn from_file(path: &Path) -> Result<Self, PasswordError> {
        Self::from_line(File::open(path).map_err(|error| PasswordError::Read(plain(&error)))?)
    }

    /// Reads standard input to its end: a single line, as in a file.
    ///
    /// # Errors
    /// As [`Password::from_file`].
    pub(crate) fn from_input() -> Result<Self, PasswordError> {
        Self::from_line(std::io::stdin().lock())
    }

    fn from_line(input: impl Read) -> Result<Self, PasswordError> {
        // A line end may follow, and one more byte shows that the password is too long. Growing would leave
        // copies behind.
        let limit = PASSWORD_BYTES_MAX + 3;
        let mut bytes = Zeroizing::new(Vec::with_capacity(limit + 1));
        let read = input.take(limit as u64).read_to_end(&mut bytes);
        read.map_err(|error| PasswordError::Read(plain(&error)))?;
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        Self::parse(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// Reads the environment variable. `None` if it is not set, or empty.
    ///
    /// # Errors
    /// Its content is not a password.
    pub(crate) fn from_environment() -> Result<Option<Self>, PasswordError> {
        match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            Some(value) => {
                let bytes = Zeroizing::new(value.into_encoded_bytes());
                Self::parse(&bytes).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Asks on the terminal of this process. `instead` says what to do without one.
    ///
    /// # Errors
    /// There is no terminal, or the answer is not a password.
    pub(crate) fn ask(prompt: &str, instead: &'static str) -> Result<Self, PasswordError> {
        Self::parse(&ask(prompt, instead)?)
    }

    /// Asks on the terminal of this process, twice, so that a typing error is noticed.
    ///
    /// # Errors
    /// As [`Password::ask`], or the two answers differ.
    pub(crate) fn ask_twice(prompt: &str, instead: &'static str) -> Result<Self, PasswordError> {
        let first = Self::ask(&format!("{prompt}: "), instead)?;
        let second = Self::ask(&format!("{prompt}, again: "), instead)?;
        if first.is_same(&second) { Ok(first) } else { Err(PasswordError::Differ) }
    }

    /// The bytes of its UTF-8.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    fn parse(bytes: &[u8]) -> Result<Self, PasswordError> {
        if bytes.is_empty() {
            return Err(PasswordError::Empty);
        }
        if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
            return Err(PasswordError::NotOneLine);
        }
        if bytes.len() > PASSWORD_BYTES_MAX {
            return Err(PasswordError::TooLong { bytes_max: PASSWORD_BYTES_MAX });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| PasswordError::NotText)?;
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    /// Compares in constant time.
    fn is_same(&self, other: &Self) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"two passwords");
        hmac::verify(&key, other.bytes(), hmac::sign(&key, self.bytes()).as_ref()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(content: &[u8]) -> Result<Vec<u8>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        std::fs::write(&path, content).unwrap();
        let password = Password::from_file(&path).map_err(|error| error.to_string())?;
        Ok(password.bytes().to_vec())
    }

    #[test]
    fn a_file_holds_one_line() {
        let long = "ü".repeat(PASSWORD_BYTES_MAX / 2);
        for (content, expected) in [
            ("pencil", "pencil"),
            ("pencil\n", "pencil"),
            ("pencil\r\n", "pencil"),
            (" pen cil \n", " pen cil "),
            (long.as_str(), long.as_str()),
            (&format!("{long}\r\n"), &long),
        ] {
            assert_eq!(from(content.as_bytes()), Ok(expected.as_bytes().to_vec()));
        }
    }

    #[test]
    fn what_is_no_password_is_refused_without_showing_it() {
        for (content, expected) in [
            (&b""[..], "the password is empty"),
            (b"\n", "the password is empty"),
            (b"secret\n\n", "expected one line"),
            (b"secret\nx\n", "expected one line"),
            (b"secret\rx", "expected one line"),
            (b"secret\0", "expected one line"),
            (b"secret\xff", "the password is not UTF-8"),
            (&[b's'; PASSWORD_BYTES_MAX + 1], "the password is longer than 4096 bytes"),
            (&[b's'; PASSWORD_BYTES_MAX * 9], "the password is longer than 4096 bytes"),
        ] {
            let error = from(content).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("secret"), "{error}");
        }
        let error = Password::from_file(Path::new("/nope")).err().unwrap().to_string();
        assert_eq!(error, "no such file or directory");
    }

    #[test]
    fn passwords_are_the_same_if_all_their_bytes_are() {
        let password = |text: &str| Password::parse(text.as_bytes()).unwrap();
        assert!(password("pencil").is_same(&password("pencil")));
        for other in ["pencils", "penci", "Pencil"] {
            assert!(!password("pencil").is_same(&password(other)), "{other}");
        }
    }
}
