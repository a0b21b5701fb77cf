//! A user's nkey: reads the seed from a file, and makes the public key and the signature for the server.
//!
//! The format is that of github.com/nats-io/nkeys: base32 without padding over a prefix, 32 bytes, and CRC-16
//! (XMODEM), little-endian. The prefix of a user's public key is one byte (20 << 3, hence U), that of a seed
//! two bytes (hence SU).

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use tailrace_cli::failure::plain;

/// The type of user keys, in five bits.
const USER: u8 = 20;
/// The type of seeds, in five bits.
const SEED: u8 = 18;
const SEED_TEXT_BYTES: usize = 58;
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A key pair.
pub(super) struct Nkey(Ed25519KeyPair);

impl Nkey {
    /// How the seeds of users begin.
    pub(super) const SEED_START: &str = "SU";

    /// Finds the seed in a file: a line that starts with SU, as `nk -gen user` and credentials files write
    /// it.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))?;
        let seed = text.lines().map(str::trim).find(|line| line.starts_with(Self::SEED_START));
        seed.and_then(Self::parse)
            .ok_or_else(|| format!("{} holds no user's nkey seed (SU and 56 more letters)", path.display()))
    }

    /// Parses a seed.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let raw = base32(text).filter(|_| text.len() == SEED_TEXT_BYTES)?;
        let (body, checksum) = raw.split_at_checked(raw.len().checked_sub(2)?)?;
        let is_user = body.first()? >> 3 == SEED && (body[0] & 7) << 2 | body.get(1)? >> 6 == USER;
        if !is_user || crc16(body).to_le_bytes() != checksum {
            return None;
        }
        Ed25519KeyPair::from_seed_unchecked(&body[2..]).ok().map(Self)
    }

    /// The public key, `U...`.
    pub(super) fn public(&self) -> String {
        let mut raw = vec![USER << 3];
        raw.extend_from_slice(self.0.public_key().as_ref());
        let checksum = crc16(&raw);
        raw.extend_from_slice(&checksum.to_le_bytes());
        to_base32(&raw)
    }

    /// The signature of the server's nonce, in base64.
    pub(super) fn sign(&self, nonce: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.0.sign(nonce.as_bytes()))
    }
}

/// Decodes RFC 4648 base32 without padding. Leftover bits are dropped.
fn base32(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut out) = (0_u32, 0, Vec::new());
    for letter in text.bytes() {
        let value = LETTERS.iter().position(|known| *known == letter)?;
        // At most 12 bits are in use.
        bits = (bits << 5 | value as u32) & 0xfff;
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

fn to_base32(bytes: &[u8]) -> String {
    let (mut bits, mut count, mut out) = (0_u32, 0, String::new());
    for byte in bytes {
        bits = (bits << 8 | u32::from(*byte)) & 0xfff;
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(char::from(LETTERS[(bits >> count & 31) as usize]));
        }
    }
    if count > 0 {
        out.push(char::from(LETTERS[(bits << (5 - count) & 31) as usize]));
    }
    out
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        let step = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| step(crc))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair made with nats-io's own library.
    const PAIR: (&str, &str) = (
        "SUAAOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBZ5FE",
        "UDVEU3DD4KOFECV66VIHWEZOYX4ZKR3WV27L464SIIPOU2IUI3JCYSJF",
    );

    #[test]
    fn the_public_key_follows_from_the_seed() {
        let nkey = Nkey::parse(PAIR.0).unwrap();
        assert_eq!(nkey.public(), PAIR.1);
        assert_eq!(
            nkey.sign("nonce"),
            "tGzA0mHx0G153n88JvBTKOaRWmSDzbp7vrXQmLDFIewezJGpBo2wfTvbDxtf5lcFAxjK3_cMonLQGCqG5ihzBA"
        );
    }

    #[test]
    fn what_is_no_seed_is_refused() {
        let wrong = PAIR.0.replace('A', "B");
        for text in ["", "SU", PAIR.1, wrong.as_str(), &PAIR.0[..57]] {
            assert!(Nkey::parse(text).is_none(), "{text}");
        }
    }
}
