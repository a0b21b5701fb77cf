//! The mechanisms, and the hash functions of SCRAM.

use std::num::NonZeroU32;

use clap::ValueEnum;
use ring::{digest, hmac, pbkdf2};
use zeroize::Zeroizing;

/// Length of the salts that we make, in bytes.
pub(crate) const SALT_BYTES: usize = 16;

/// A mechanism of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SaslMechanism {
    #[value(name = "scram-sha-256")]
    ScramSha256,
    #[value(name = "scram-sha-512")]
    ScramSha512,
    Plain,
}

/// A mechanism whose credentials a server stores (RFC 5802, RFC 7677).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum ScramMechanism {
    #[value(name = "scram-sha-256")]
    Sha256,
    #[value(name = "scram-sha-512")]
    Sha512,
}

impl SaslMechanism {
    /// The name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ScramSha256 => ScramMechanism::Sha256.name(),
            Self::ScramSha512 => ScramMechanism::Sha512.name(),
            Self::Plain => "PLAIN",
        }
    }
}

impl ScramMechanism {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// The name on the wire.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The number in Kafka's requests about credentials (KIP-554).
    pub(crate) const fn code(self) -> i8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    /// The mechanism with this number.
    pub(crate) fn from_code(code: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.code() == code)
    }

    /// `Hi(password, salt, iterations)` of RFC 5802. It is as secret as the password: it is enough to log in.
    pub(crate) fn salted_password(
        self,
        password: &[u8],
        salt: &[u8],
        iterations: NonZeroU32,
    ) -> Zeroizing<Vec<u8>> {
        let (algorithm, bytes) = match self {
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, digest::SHA256_OUTPUT_LEN),
            Self::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, digest::SHA512_OUTPUT_LEN),
        };
        let mut salted = Zeroizing::new(vec![0; bytes]);
        pbkdf2::derive(algorithm, iterations, salt, password, &mut salted);
        salted
    }

    /// The key of an HMAC with the mechanism's hash.
    pub(super) fn key(self, bytes: &[u8]) -> hmac::Key {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::Key::new(algorithm, bytes)
    }

    /// The mechanism's hash.
    pub(super) fn hash(self, bytes: &[u8]) -> digest::Digest {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, bytes)
    }
}
