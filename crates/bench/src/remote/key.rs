//! The key that coordinator and agents share: a file that only its owner may read.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::RemoteError;

/// Size of a new key.
const FRESH_BYTES: usize = 32;

/// Smallest size of a key.
const KEY_BYTES_MIN: usize = 16;

/// Largest size of a key.
const KEY_BYTES_MAX: usize = 1024;

/// A shared key. It is never printed.
#[derive(Clone)]
pub struct Key(hmac::Key);

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(***)")
    }
}

impl Key {
    /// Reads a key: hexadecimal digits, in a file that only its owner may read.
    ///
    /// # Errors
    /// The file cannot be read, others may read it, or its content is not a key or is too short.
    pub(crate) fn read(path: &Path) -> Result<Self, RemoteError> {
        let wrong = |reason: String| RemoteError::Key { path: path.display().to_string(), reason };
        let told = |error: io::Error| wrong(error.to_string());
        let mut file = File::open(path).map_err(told)?;
        let mode = file.metadata().map_err(told)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(wrong(format!("others may read it (mode {mode:04o}): expected 0600")));
        }
        let mut text = Vec::new();
        // A little more than the longest key, for white space around it.
        let limit = 2 * KEY_BYTES_MAX + 64;
        Read::by_ref(&mut file).take(limit as u64).read_to_end(&mut text).map_err(told)?;
        Self::parse(&text).map_err(wrong)
    }

    /// Parses hexadecimal digits.
    fn parse(text: &[u8]) -> Result<Self, String> {
        let bytes = unhex(text.trim_ascii())
            .ok_or("it holds something other than an even number of hexadecimal digits")?;
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&bytes.len()) {
            let found = bytes.len();
            return Err(format!("a key of {found} bytes: expected {KEY_BYTES_MIN} to {KEY_BYTES_MAX}"));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Writes a new key of 32 random bytes to a file for its owner only. The file must not exist yet.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub(crate) fn write_new(path: &Path) -> Result<(), RemoteError> {
        let wrong = |reason: String| RemoteError::Key { path: path.display().to_string(), reason };
        let mut bytes = [0; FRESH_BYTES];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| wrong("the system has no random numbers".to_owned()))?;
        let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push('\n');
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| wrong(error.to_string()))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|error| wrong(error.to_string()))
    }

    /// Signs `message`. Only a holder of the key can do that.
    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        hmac::sign(&self.0, message).as_ref().to_vec()
    }

    /// Verifies `signature`, in constant time.
    pub(super) fn proves(&self, message: &[u8], signature: &[u8]) -> bool {
        hmac::verify(&self.0, message, signature).is_ok()
    }
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_fresh_key_is_read_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        Key::write_new(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!((text.len(), fs::metadata(&path).unwrap().permissions().mode() & 0o777), (65, 0o600));
        let key = Key::read(&path).unwrap();
        assert!(
            key.proves(b"message", &key.sign(b"message")) && !key.proves(b"other", &key.sign(b"message"))
        );
        assert_eq!(format!("{key:?}"), "Key(***)");
        // An existing file is not overwritten.
        assert!(Key::write_new(&path).unwrap_err().to_string().contains("exists"));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let words = Key::read(&path).unwrap_err().to_string();
            assert!(words.contains("others may read it") && !words.contains(text.trim()), "{words}");
        }
    }

    #[test]
    fn what_is_no_key_is_named() {
        for (text, words) in [
            ("", "a key of 0 bytes"),
            ("00112233445566778899aabbccddee", "a key of 15 bytes: expected 16 to 1024"),
            ("00112233445566778899aabbccddeef", "something other than an even number"),
            ("correct horse battery staple", "something other than"),
        ] {
            let found = Key::parse(text.as_bytes()).unwrap_err();
            assert!(found.contains(words), "{found}");
        }
        Key::parse(b" 00112233445566778899AABBCCDDEEFF\n").unwrap();
        assert!(Key::parse("ab".repeat(KEY_BYTES_MAX + 1).as_bytes()).is_err());
    }
}
