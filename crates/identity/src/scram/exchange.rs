//! The server's side of a login.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::errors::ScramError;
use super::mechanism::ScramMechanism;
use super::message::{ClientFinal, ClientFirst, ServerFinal, ServerFirst};
use super::verifier::ScramVerifier;
use crate::names::UserName;
use crate::secret::is_same_secret;

/// Random bytes in the server's part of a nonce. They are sent in base64, as 32 characters.
pub const SERVER_NONCE_RANDOM_BYTES: usize = 24;

/// A login whose client has named its user. Nothing is proven yet.
#[derive(Debug)]
pub struct ScramStart {
    mechanism: ScramMechanism,
    first: ClientFirst,
}

impl ScramStart {
    /// Parses the client's first message.
    ///
    /// # Errors
    /// The message does not have its form, or it asks for what is not served. None of this depends on which
    /// users there are.
    pub fn parse(mechanism: ScramMechanism, client_first: &[u8]) -> Result<Self, ScramError> {
        Ok(Self { mechanism, first: ClientFirst::parse(client_first)? })
    }

    /// Returns the mechanism.
    pub fn mechanism(&self) -> ScramMechanism {
        self.mechanism
    }

    /// Returns the user whose password the client wants to prove, or the id of a token.
    pub fn user(&self) -> &UserName {
        &self.first.user
    }

    /// Reports whether the user is the id of a delegation token (KIP-48).
    pub fn is_token(&self) -> bool {
        self.first.is_token
    }

    /// Returns the server's first message, and the login that waits for its answer.
    ///
    /// `verifier` is the user's. For a user who does not exist, or who has no credential of this mechanism,
    /// it is [`ScramVerifier::decoy`], and `may_log_in` is false. It is also false for a disabled user. Then
    /// the login fails at its end, exactly as with a wrong password. `random` must be unpredictable, and new
    /// for each login.
    ///
    /// # Panics
    /// The verifier is for another mechanism than the login.
    pub fn challenge(
        self,
        verifier: ScramVerifier,
        may_log_in: bool,
        random: &[u8; SERVER_NONCE_RANDOM_BYTES],
    ) -> (ScramProof, Vec<u8>) {
        self.challenge_with(verifier, may_log_in, &STANDARD.encode(random))
    }

    pub(super) fn challenge_with(
        self,
        verifier: ScramVerifier,
        may_log_in: bool,
        server_nonce: &str,
    ) -> (ScramProof, Vec<u8>) {
        assert_eq!(verifier.mechanism(), self.mechanism, "a verifier of the login's mechanism");
        let challenge = ServerFirst {
            nonce: self.first.nonce.clone() + server_nonce,
            salt: verifier.salt().into(),
            iterations: verifier.iterations(),
        };
        let message = challenge.message().into_bytes();
        (ScramProof { first: self.first, challenge, verifier, previous: None, may_log_in }, message)
    }
}

/// A login whose client must now prove that it knows the password.
#[derive(Debug)]
pub struct ScramProof {
    first: ClientFirst,
    challenge: ServerFirst,
    verifier: ScramVerifier,
    /// An older one that still counts. It has the same salt and iterations.
    previous: Option<ScramVerifier>,
    may_log_in: bool,
}

/// A login whose client has proven a password.
pub struct ScramProven {
    /// The server's final message.
    pub answer: Vec<u8>,
    /// The verifier of the password that was proven.
    pub verifier: ScramVerifier,
}

impl ScramProof {
    /// Also accepts an older password. The client was sent one salt and one number of iterations, so the
    /// older verifier counts only if it has the same. Otherwise it is ignored: SCRAM has no way to try both.
    #[must_use]
    pub fn or(self, previous: Option<ScramVerifier>) -> Self {
        let current = &self.verifier;
        let previous = previous.filter(|previous| previous.accepts_challenge_of(current));
        Self { previous, ..self }
    }

    /// Returns the user, or the id of a token. It is proven only after [`ScramProof::finish`] succeeded.
    pub fn user(&self) -> &UserName {
        &self.first.user
    }

    /// Checks the client's final message, and returns the server's with the verifier that was proven. The
    /// user is logged in then, if the credential is still the same: it may have changed since the challenge.
    ///
    /// # Errors
    /// The message does not have its form, or does not belong to this login, or
    /// [`ScramError::WrongProof`]. There is no second try.
    pub fn finish(self, client_final: &[u8]) -> Result<ScramProven, ScramError> {
        let last = ClientFinal::parse(client_final)?;
        if last.channel_binding != STANDARD.encode(self.first.gs2_header()) {
            return Err(ScramError::OtherChannelBinding);
        }
        if last.nonce != self.challenge.nonce {
            return Err(ScramError::OtherNonce);
        }
        let (bare, challenge) = (self.first.bare(), self.challenge.message());
        let signed = [bare, challenge, last.without_proof()].join(",");
        // Both are computed for every user, so that the time does not tell who may log in.
        let by_current = is_proven(&self.verifier, signed.as_bytes(), &last.proof);
        // An older one is compared even if the current one was proven, for the same reason.
        let previous = self.previous.filter(|older| is_proven(older, signed.as_bytes(), &last.proof));
        if !((by_current | previous.is_some()) & self.may_log_in) {
            return Err(ScramError::WrongProof);
        }
        let verifier = if by_current { self.verifier } else { previous.unwrap_or(self.verifier) };
        let signature = verifier.mechanism().hmac(verifier.server_key(), signed.as_bytes());
        let server_final = ServerFinal { signature: Zeroizing::new(signature.to_vec()) };
        Ok(ScramProven { answer: server_final.message().into_bytes(), verifier })
    }
}

/// Reports whether the proof is the client's key, masked with the signature that only the stored key gives.
/// Takes the same time for every proof of the right length.
fn is_proven(verifier: &ScramVerifier, signed: &[u8], proof: &[u8]) -> bool {
    let mechanism = verifier.mechanism();
    if proof.len() != mechanism.hash_bytes() {
        return false;
    }
    let mut client_key = mechanism.hmac(verifier.stored_key(), signed);
    client_key.iter_mut().zip(proof).for_each(|(byte, masked)| *byte ^= masked);
    is_same_secret(verifier.stored_key(), &mechanism.hash(&client_key))
}
