//! Delegation tokens (KIP-48): secrets that stand for a user for a while.
//!
//! A token is an id. Its secret is the HMAC of the id under a key that all nodes have
//! (`delegation.token.secret.key`), so nothing secret needs to be stored. Clients log in by SCRAM, with the
//! id as the user and the HMAC in base64 as the password.
//!
//! Deliberately not here: the tokens, who owns them and how long they are valid (metadata).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use zeroize::Zeroizing;

use crate::scram::{ITERATIONS_DEFAULT, ScramMechanism, ScramVerifier, VerifierError};
use crate::secret::is_same_secret;

/// The length of a token's HMAC, in bytes.
const HMAC_BYTES: usize = 64;

/// The length of the place of a token in an index, in bytes.
const PLACE_BYTES: usize = 32;

/// Separates places from HMACs of ids, which have no NUL.
const PLACE_LABEL: &[u8] = b"place\0";

/// The length of the salt of a token's verifier, in bytes.
const SALT_BYTES: usize = 16;

/// The key that makes the secrets of tokens. It has no `Debug`.
pub struct TokenSecret(hmac::Key);

impl TokenSecret {
    /// Makes it from the text of the setting, as Kafka does.
    pub fn new(text: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA512, text.as_bytes()))
    }

    /// Returns the HMAC of a token, a secret: it is enough to log in as the owner of the token.
    pub fn hmac(&self, id: &str) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(hmac::sign(&self.0, id.as_bytes()).as_ref().to_vec())
    }

    /// Reports whether this is the HMAC of a token. The time depends on the lengths only.
    pub fn is_hmac(&self, id: &str, presented: &[u8]) -> bool {
        presented.len() == HMAC_BYTES && is_same_secret(&self.hmac(id), presented)
    }

    /// Returns the place of an HMAC in an index of tokens. It is an HMAC of the HMAC, so that the time of a
    /// search in the index tells nothing about the secrets in it. `None` if no token has such an HMAC. Who
    /// finds a token by this must still ask [`TokenSecret::is_hmac`].
    pub fn place_of(&self, presented: &[u8]) -> Option<[u8; PLACE_BYTES]> {
        if presented.len() != HMAC_BYTES {
            return None;
        }
        let mut context = hmac::Context::with_key(&self.0);
        context.update(PLACE_LABEL);
        context.update(presented);
        context.sign().as_ref().first_chunk().copied()
    }

    /// Returns what a login with a token is checked against: the same on every node and each time.
    ///
    /// This costs one PBKDF2, like [`ScramVerifier::from_password`]. It must not run on an event loop.
    ///
    /// # Errors
    /// Never: the parts are legal.
    pub fn verifier(&self, id: &str, mechanism: ScramMechanism) -> Result<ScramVerifier, VerifierError> {
        let password = Zeroizing::new(STANDARD.encode(&*self.hmac(id)));
        let salt = hmac::sign(&self.0, [id, mechanism.name(), "salt"].join("\0").as_bytes());
        ScramVerifier::from_password(mechanism, &password, &salt.as_ref()[..SALT_BYTES], ITERATIONS_DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hmac_is_the_one_of_rfc_4231() {
        let secret = TokenSecret::new("Jefe");
        let expected =
            "Fkt6e/z4GeLjlfvnO1bgo4e9ZCIugx/WECcM1+olBVSXWL91wFqZSm0DT2X48Ob9yuqxo01Ka0tjbgcKOLznNw==";
        assert_eq!(STANDARD.encode(&*secret.hmac("what do ya want for nothing?")), expected);
    }

    #[test]
    fn only_the_whole_hmac_of_the_same_id_and_key_is_one() {
        let (secret, other) = (TokenSecret::new("key"), TokenSecret::new("other"));
        let hmac = secret.hmac("id");
        assert!(secret.is_hmac("id", &hmac));
        assert!(!secret.is_hmac("ie", &hmac) && !other.is_hmac("id", &hmac));
        assert!(!secret.is_hmac("id", &hmac[..63]) && !secret.is_hmac("id", &[]));
        for byte in 0..hmac.len() {
            let mut wrong = hmac.to_vec();
            wrong[byte] ^= 1;
            assert!(!secret.is_hmac("id", &wrong), "byte {byte}");
        }
    }

    #[test]
    fn each_hmac_has_a_place_that_only_the_key_tells() {
        let (secret, other) = (TokenSecret::new("key"), TokenSecret::new("other"));
        let (one, two) = (secret.hmac("id"), secret.hmac("ie"));
        let place = secret.place_of(&one).unwrap();
        assert_eq!(secret.place_of(&one), Some(place), "the same each time");
        assert_ne!(secret.place_of(&two), Some(place));
        assert_ne!(other.place_of(&one), Some(place));
        assert_ne!(place[..], one[..place.len()], "it shows nothing of the secret");
        assert_eq!((secret.place_of(&one[..63]), secret.place_of(&[])), (None, None));
    }

    #[test]
    fn the_password_of_a_token_is_its_hmac_in_base64() {
        let secret = TokenSecret::new("key");
        for mechanism in ScramMechanism::ALL {
            let verifier = secret.verifier("id", mechanism).unwrap();
            assert!(verifier.is_password(&STANDARD.encode(&*secret.hmac("id"))));
            assert!(!verifier.is_password(&STANDARD.encode(&*secret.hmac("ie"))));
            assert!(verifier == secret.verifier("id", mechanism).unwrap(), "the same each time");
            assert!(verifier.salt() != secret.verifier("ie", mechanism).unwrap().salt());
        }
    }
}
