//! Curve keys: X25519 with XSalsa20-Poly1305 (the "box" of NaCl), as github.com/nats-io/nkeys seals.
//!
//! A sealed text is `xkv1`, 24 bytes of nonce, and the box.

use crypto_box::aead::AeadInPlace;
use crypto_box::{PublicKey, SalsaBox, SecretKey};

use super::super::jwt::{KeyKind, Nkey};

const VERSION: &[u8] = b"xkv1";
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Why something cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The other's key is no curve key, or one with which everybody could compute the shared key.
    #[error("the other side's public key is not a usable curve key")]
    Key,
    /// Too short, or of another version.
    #[error("it is not a text that was sealed with a curve key")]
    Form,
    /// Sealed by another key, for another key, or changed.
    #[error("it cannot be opened with these keys")]
    NotForUs,
}

/// A private curve key. It is never shown.
pub struct CurveKey {
    secret: SecretKey,
    public: String,
}

impl CurveKey {
    /// Makes a key from 32 bytes that must be unpredictable. `None` if they are all the same: a source of
    /// randomness that is not one (CVE-2023-46129).
    pub fn new(random: [u8; 32]) -> Option<Self> {
        if random.iter().all(|byte| *byte == random[0]) {
            return None;
        }
        let secret = SecretKey::from(random);
        let public = Nkey::new(KeyKind::Curve, *secret.public_key().as_bytes()).text();
        Some(Self { secret, public })
    }

    /// Returns the text of the public key, `X...`.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// Seals a text for a public key. `nonce` must be unpredictable, and never used twice.
    ///
    /// # Errors
    /// The recipient is not a usable curve key.
    pub fn seal(&self, recipient: &str, nonce: [u8; NONCE_BYTES], text: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut sealed = text.to_vec();
        let tag = self.shared(recipient)?.encrypt_in_place_detached(&nonce.into(), b"", &mut sealed);
        let tag = tag.map_err(|_error| SealError::Key)?;
        Ok([VERSION, &nonce, &tag, &sealed].concat())
    }

    /// Opens what the owner of a public key has sealed for this key.
    ///
    /// # Errors
    /// It was not sealed by that key for this one, or was changed.
    pub fn open(&self, sender: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let rest = sealed.strip_prefix(VERSION).ok_or(SealError::Form)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Form)?;
        let (tag, text) = rest.split_first_chunk::<TAG_BYTES>().ok_or(SealError::Form)?;
        let mut text = text.to_vec();
        let shared = self.shared(sender)?;
        shared
            .decrypt_in_place_detached(nonce.into(), b"", &mut text, tag.into())
            .map_err(|_error| SealError::NotForUs)?;
        Ok(text)
    }

    fn shared(&self, other: &str) -> Result<SalsaBox, SealError> {
        let key = Nkey::parse_as(KeyKind::Curve, other).map_err(|_error| SealError::Key)?;
        if is_of_small_order(key.bytes()) {
            return Err(SealError::Key);
        }
        Ok(SalsaBox::new(&PublicKey::from(*key.bytes()), &self.secret))
    }
}

/// Reports whether a point gives the same shared key with every secret key: the seven encodings that
/// libsodium refuses (`has_small_order` in its `x25519_ref10.c`), with either value of the unused top bit.
fn is_of_small_order(point: &[u8; 32]) -> bool {
    const ORDER_8_A: [u8; 32] = [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda,
        0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ];
    const ORDER_8_B: [u8; 32] = [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04,
        0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ];
    let mut point = *point;
    point[31] &= 0x7f;
    // 0 and 1, and p - 1, p and p + 1 (p is 2^255 - 19).
    let is_low = point[1..].iter().all(|byte| *byte == 0) && point[0] <= 1;
    let is_about_p = point[1..31].iter().all(|byte| *byte == 0xff)
        && point[31] == 0x7f
        && (0xec..=0xee).contains(&point[0]);
    is_low || is_about_p || point == ORDER_8_A || point == ORDER_8_B
}
