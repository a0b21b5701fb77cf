//! NATS nkeys: an Ed25519 seed in Base32, which signs the server's nonce, either alone or together with a JWT
//! in a credentials file.
//!
//! A seed is two bytes (that it is a seed, and the type of its owner), 32 bytes, and a CRC-16. A public key
//! is prefixed with one byte.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair};

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The first byte of a seed, in its upper five bits.
const SEED: u8 = 18 << 3;

/// The type of user keys: the prefix of public keys, and the second part of the prefix of seeds.
const USER: u8 = 20 << 3;

const SEED_BYTES: usize = 32;

/// The key that a user authenticates with.
pub(super) struct UserKey {
    pair: Ed25519KeyPair,
}

impl UserKey {
    /// Parses a seed, `SU...`. `None` if it is not a user's seed.
    pub(super) fn from_seed(seed: &str) -> Option<Self> {
        let bytes = decode(seed.trim())?;
        let (body, checksum) = bytes.split_last_chunk::<2>()?;
        if body.len() != 2 + SEED_BYTES || crc16(body) != u16::from_le_bytes(*checksum) {
            return None;
        }
        let whose = ((body[0] & 7) << 5) | (body[1] >> 3);
        if body[0] & 0xF8 != SEED || whose != USER {
            return None;
        }
        Ed25519KeyPair::from_seed_unchecked(&body[2..]).ok().map(|pair| Self { pair })
    }

    /// The public key as in a server's configuration, `U...`.
    pub(super) fn public(&self) -> String {
        let mut bytes = vec![USER];
        bytes.extend_from_slice(self.pair.public_key().as_ref());
        bytes.extend_from_slice(&crc16(&bytes).to_le_bytes());
        encode(&bytes)
    }

    /// The signature of a nonce, encoded for CONNECT.
    pub(super) fn sign(&self, nonce: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.sign(nonce.as_bytes()))
    }
}

/// The JWT and the seed in a credentials file.
pub(super) fn credentials(text: &str) -> Option<(&str, &str)> {
    let block = |name: &str| {
        let mut lines = text.lines().map(str::trim);
        lines.find(|line| line.starts_with("-----BEGIN") && line.contains(name))?;
        lines.find(|line| !line.is_empty()).filter(|line| !line.starts_with('-'))
    };
    Some((block("NATS USER JWT")?, block("USER NKEY SEED")?))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        let value = ALPHABET.iter().position(|known| *known == letter)? as u32;
        held = (held << 5) | value;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

fn encode(bytes: &[u8]) -> String {
    let (mut text, mut held, mut bits) = (String::new(), 0_u32, 0);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[(held >> bits) as usize & 31]));
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(ALPHABET[(held << (5 - bits)) as usize & 31]));
    }
    text
}

/// CRC-16 with the polynomial 0x1021, as in XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |mut crc, byte| {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    /// The example of NATS's documentation.
    const EXAMPLE_SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    const EXAMPLE_PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

    #[test]
    fn the_example_of_the_documentation() {
        let key = UserKey::from_seed(EXAMPLE_SEED).unwrap();
        assert_eq!(key.public(), EXAMPLE_PUBLIC);
        let signature = URL_SAFE_NO_PAD.decode(key.sign("nonce")).unwrap();
        let public = decode(EXAMPLE_PUBLIC).unwrap();
        UnparsedPublicKey::new(&ED25519, &public[1..33]).verify(b"nonce", &signature).unwrap();
    }

    #[test]
    fn what_is_no_seed_of_a_user() {
        let damaged = EXAMPLE_SEED.replacen("CSS", "CST", 1);
        for wrong in [EXAMPLE_PUBLIC, &damaged, "", "SUAC", "not base32!"] {
            assert!(UserKey::from_seed(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn credentials_are_found() {
        let text = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0.x.y\n------END NATS USER JWT------\n\n****** IMPORTANT ******\n\
             -----BEGIN USER NKEY SEED-----\n{EXAMPLE_SEED}\n------END USER NKEY SEED------\n"
        );
        assert_eq!(credentials(&text), Some(("eyJ0.x.y", EXAMPLE_SEED)));
        assert_eq!(credentials("-----BEGIN NATS USER JWT-----\n------END NATS USER JWT------"), None);
        assert_eq!(credentials(EXAMPLE_SEED), None);
    }
}
