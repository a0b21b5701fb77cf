//! The hash functions that SCRAM can be used with.
//!
//! Their results are erased on drop. ring's own values, which hold them for a moment, are not.

use core::num::NonZeroU32;

use ring::{digest, hmac, pbkdf2};
use zeroize::Zeroizing;

/// Bytes that are erased on drop.
pub(super) type SecretBytes = Zeroizing<Box<[u8]>>;

/// A hash function to use SCRAM with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScramMechanism {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl ScramMechanism {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Returns the name of the mechanism.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// Returns the mechanism of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// Returns the code in Kafka's protocol.
    pub const fn code(self) -> i8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    /// Returns the mechanism of this code.
    pub const fn from_code(code: i8) -> Option<Self> {
        match code {
            1 => Some(Self::Sha256),
            2 => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Returns the length of its hashes, in bytes.
    pub const fn hash_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// The functions of RFC 5802, section 3.
impl ScramMechanism {
    /// `SaltedPassword`: PBKDF2 of the password. Takes some milliseconds. `iterations` must not be 0.
    pub(super) fn salted_password(self, password: &[u8], salt: &[u8], iterations: u32) -> SecretBytes {
        let algorithm = match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        };
        let iterations = NonZeroU32::new(iterations).expect("checked: there is a minimum");
        let mut salted = Zeroizing::new(vec![0; self.hash_bytes()].into_boxed_slice());
        pbkdf2::derive(algorithm, iterations, salt, password, &mut salted);
        salted
    }

    /// `ClientKey`, which a client proves to know.
    pub(super) fn client_key(self, salted_password: &[u8]) -> SecretBytes {
        self.hmac(salted_password, b"Client Key")
    }

    /// `ServerKey`, which the server proves to know.
    pub(super) fn server_key(self, salted_password: &[u8]) -> SecretBytes {
        self.hmac(salted_password, b"Server Key")
    }

    /// `H`: the hash of some bytes.
    pub(super) fn hash(self, bytes: &[u8]) -> SecretBytes {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        Zeroizing::new(digest::digest(algorithm, bytes).as_ref().into())
    }

    /// `HMAC` of a message.
    pub(super) fn hmac(self, key: &[u8], message: &[u8]) -> SecretBytes {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        Zeroizing::new(hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().into())
    }
}
