//! The client side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding, for PostgreSQL and Kafka.
//!
//! Passwords are used as UTF-8 bytes. SASLprep changes nothing in ASCII; other text is not normalised.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// Most rounds that a server may ask for, about a second of work, so that a malicious one cannot keep the
/// client busy.
const ROUNDS_MAX: u32 = 1_000_000;

/// An exchange in progress.
pub(super) struct Scram {
    first_bare: String,
    nonce: String,
    server_signature: Option<Vec<u8>>,
}

impl Scram {
    /// Starts an exchange with a random nonce. `None` if the machine has no randomness.
    pub(super) fn new(user: &str) -> Option<Self> {
        let mut random = [0; 18];
        SystemRandom::new().fill(&mut random).ok()?;
        Some(Self::with_nonce(user, &STANDARD.encode(random)))
    }

    fn with_nonce(user: &str, nonce: &str) -> Self {
        // RFC 5802: commas and equals signs separate the fields.
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={user},r={nonce}");
        Self { first_bare, nonce: nonce.to_owned(), server_signature: None }
    }

    /// The client's first message.
    pub(super) fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// The client's final message, in answer to the server's first one.
    pub(super) fn last(&mut self, server_first: &str, password: &str) -> Result<String, &'static str> {
        let mut fields = server_first.split(',');
        let mut field = |prefix| fields.next().and_then(|field| field.strip_prefix(prefix));
        let nonce = field("r=").filter(|nonce| nonce.starts_with(&self.nonce)).ok_or("our nonce in SCRAM")?;
        let salt = field("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or("a salt in SCRAM")?;
        let rounds = field("i=")
            .and_then(|rounds| rounds.parse().ok())
            .filter(|rounds: &NonZeroU32| rounds.get() <= ROUNDS_MAX)
            .ok_or("1 to 1,000,000 rounds of SCRAM")?;
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        // "biws" is the header "n,," in Base64.
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{server_first},{without_proof}", self.first_bare);
        let signature = sign(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<_> =
            client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, mask)| key ^ mask).collect();
        let server_key = sign(&salted, b"Server Key");
        self.server_signature = Some(sign(server_key.as_ref(), signed.as_bytes()).as_ref().to_vec());
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Reports whether the server's final message proves that it knows the password, too.
    pub(super) fn is_proven_by(&self, server_last: &str) -> bool {
        let signature = server_last.strip_prefix("v=").and_then(|text| STANDARD.decode(text).ok());
        signature.is_some() && signature == self.server_signature
    }
}

fn sign(key: &[u8], data: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard() {
        let mut scram = Scram::with_nonce("user", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let last = scram.last(SERVER_FIRST, "pencil").unwrap();
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(scram.is_proven_by("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!scram.is_proven_by("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="));
        assert!(!scram.is_proven_by("e=other-error"));
    }

    #[test]
    fn wrong_servers() {
        for (wrong, expected) in [
            (SERVER_FIRST.replace("r=r", "r=x"), "our nonce in SCRAM"),
            (SERVER_FIRST.replace("W22Z", "***"), "a salt in SCRAM"),
            (SERVER_FIRST.replace("4096", "0"), "1 to 1,000,000 rounds of SCRAM"),
            (SERVER_FIRST.replace("4096", "4000000000"), "1 to 1,000,000 rounds of SCRAM"),
            (String::new(), "our nonce in SCRAM"),
        ] {
            let mut scram = Scram::with_nonce("user", "rOprNGfwEbeRWgbNEkqO");
            assert_eq!(scram.last(&wrong, "pencil"), Err(expected));
            assert!(!scram.is_proven_by("v="));
        }
    }
}
