//! Public nkeys of users, and verification of their signatures: Ed25519, encoded in base32 with a type and a
//! checksum.
//!
//! The format is that of github.com/nats-io/nkeys: base32 without padding over one type byte (users: 20 << 3,
//! which makes the text start with U), 32 bytes of key, and the CRC-16 (XMODEM) of these, little-endian.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{ED25519, UnparsedPublicKey};

use crate::errors::CredentialError;

const TEXT_BYTES: usize = 56;
const RAW_BYTES: usize = 35;
const USER: u8 = 20 << 3;

/// Maximum length of a signature. 64 bytes in base64 are 88 letters.
const SIGNATURE_TEXT_MAX: usize = 128;

/// A user's public key.
pub(crate) struct PublicKey([u8; 32]);

impl PublicKey {
    /// Parses `U...`.
    ///
    /// # Errors
    /// Describes what is wrong with the text. A seed (`SU...`) is not shown.
    pub(crate) fn parse(text: &str) -> Result<Self, CredentialError> {
        if text.starts_with("SU") {
            return Err(CredentialError::Seed);
        }
        let (kind, key) = decode(text)?;
        if kind == USER { Ok(Self(key)) } else { Err(CredentialError::NotAUsersKey) }
    }

    /// Makes a key of its bytes.
    pub(crate) fn from_bytes(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Reports whether `signature` (base64) is this key's signature of `nonce`.
    pub(crate) fn verifies(&self, nonce: &str, signature: &str) -> bool {
        if signature.len() > SIGNATURE_TEXT_MAX || nonce.is_empty() {
            return false;
        }
        let decoded = URL_SAFE_NO_PAD.decode(signature).or_else(|_| STANDARD.decode(signature));
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        decoded.is_ok_and(|signature| key.verify(nonce.as_bytes(), &signature).is_ok())
    }
}

/// Decodes a public key of any type: its type byte, and the key.
///
/// # Errors
/// The text does not have the form of a key, or its checksum is wrong.
pub(crate) fn decode(text: &str) -> Result<(u8, [u8; 32]), CredentialError> {
    let raw = base32(text).ok_or(CredentialError::NotAKey)?;
    let [kind, key @ .., low, high] = raw;
    if crc16(&raw[..RAW_BYTES - 2]).to_le_bytes() != [low, high] {
        return Err(CredentialError::Checksum);
    }
    Ok((kind, key))
}

/// Encodes a public key with its type byte.
pub(crate) fn encode(kind: u8, key: &[u8; 32]) -> String {
    let mut raw = [0; RAW_BYTES];
    raw[0] = kind;
    raw[1..33].copy_from_slice(key);
    let checksum = crc16(&raw[..RAW_BYTES - 2]).to_le_bytes();
    raw[33..].copy_from_slice(&checksum);
    to_base32(&raw)
}

/// Encodes base32 (RFC 4648) without padding.
pub(crate) fn to_base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut group = [0; 8];
        group[3..3 + chunk.len()].copy_from_slice(chunk);
        let group = u64::from_be_bytes(group);
        for at in 0..(chunk.len() * 8).div_ceil(5) {
            text.push(char::from(LETTERS[(group >> (35 - 5 * at) & 31) as usize]));
        }
    }
    text
}

/// Decodes base32 (RFC 4648) without padding, of exactly the length of a key.
fn base32(text: &str) -> Option<[u8; RAW_BYTES]> {
    if text.len() != TEXT_BYTES {
        return None;
    }
    let mut raw = [0; RAW_BYTES];
    for (letters, bytes) in text.as_bytes().chunks_exact(8).zip(raw.chunks_exact_mut(5)) {
        let mut group: u64 = 0;
        for letter in letters {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'2'..=b'7' => letter - b'2' + 26,
                _ => return None,
            };
            group = group << 5 | u64::from(value);
        }
        bytes.copy_from_slice(&group.to_be_bytes()[3..]);
    }
    Some(raw)
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8)
            .fold(crc ^ u16::from(*byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
    })
}
