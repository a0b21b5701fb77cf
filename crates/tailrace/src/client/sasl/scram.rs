//! The client's side of SCRAM (RFC 5802, RFC 7677), without I/O and without random numbers.
//!
//! Each state consumes itself and gives the next one. The messages of the server are parsed strictly: nothing
//! may come before, between or behind the attributes that are due.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use zeroize::Zeroizing;

use super::errors::ScramError;
use super::mechanism::ScramMechanism;

/// Fewest iterations, as in Kafka's own clients: with fewer, the exchange gives the password away to those
/// who can listen and guess.
const ITERATIONS_MIN: u32 = 4_096;
/// Most iterations: about a second of computing. Kafka's servers store at most 16,384.
const ITERATIONS_MAX: u32 = 1_000_000;
/// Maximum length of a server's message, in bytes: a nonce, a salt of 255 bytes and a number are far shorter.
const MESSAGE_BYTES_MAX: usize = 4_096;
/// Longest text of a server's own error that is shown.
const REFUSAL_CHARS_MAX: usize = 100;
/// The header of messages without channel binding and without another identity, and its base64.
const GS2_HEADER: &str = "n,,";
const GS2_HEADER_BASE64: &str = "biws";

const SERVER_FIRST: ScramError = ScramError::Malformed { message: "server-first-message" };
const SERVER_FINAL: ScramError = ScramError::Malformed { message: "server-final-message" };

/// A login whose first message was made.
pub(super) struct ScramStart {
    mechanism: ScramMechanism,
    nonce: String,
    client_first_bare: String,
}

/// A login whose proof was made.
pub(super) struct ScramProof {
    server_key: hmac::Key,
    auth_message: String,
}

impl ScramStart {
    /// Starts a login. `nonce` must be unpredictable, printable and without commas.
    pub(super) fn new(mechanism: ScramMechanism, user: &str, nonce: String) -> Self {
        let name = user.replace('=', "=3D").replace(',', "=2C");
        let client_first_bare = format!("n={name},r={nonce}");
        Self { mechanism, nonce, client_first_bare }
    }

    /// Says that the user is the id of a delegation token (KIP-48).
    pub(super) fn with_tokenauth(mut self) -> Self {
        self.client_first_bare.push_str(",tokenauth=true");
        self
    }

    /// The client-first-message.
    pub(super) fn message(&self) -> String {
        format!("{GS2_HEADER}{}", self.client_first_bare)
    }

    /// Answers the server-first-message. Computes one PBKDF2. Returns the client-final-message, which does
    /// not give the password away.
    ///
    /// # Errors
    /// The message is malformed, it is not for this login, or its iterations are out of bounds.
    pub(super) fn prove(
        self,
        password: &[u8],
        server_first: &[u8],
    ) -> Result<(ScramProof, String), ScramError> {
        let text = text(server_first, SERVER_FIRST)?;
        let challenge = Challenge::parse(text)?;
        let added = challenge.nonce.strip_prefix(self.nonce.as_str());
        if added.is_none_or(str::is_empty) {
            return Err(ScramError::Nonce);
        }
        let salted = self.mechanism.salted_password(password, &challenge.salt, challenge.iterations);
        let without_proof = format!("c={GS2_HEADER_BASE64},r={}", challenge.nonce);
        let auth_message = format!("{},{text},{without_proof}", self.client_first_bare);
        let proof = client_proof(self.mechanism, &salted, &auth_message);
        let server_key = hmac::sign(&self.mechanism.key(&salted), b"Server Key");
        let server_key = self.mechanism.key(server_key.as_ref());
        let message = format!("{without_proof},p={}", STANDARD.encode(&*proof));
        Ok((ScramProof { server_key, auth_message }, message))
    }
}

impl ScramProof {
    /// Checks the server-final-message: the server must know the password's verifier.
    ///
    /// # Errors
    /// The message is malformed, it is an error, or its signature is wrong.
    pub(super) fn verify(self, server_final: &[u8]) -> Result<(), ScramError> {
        let text = text(server_final, SERVER_FINAL)?;
        refusal(text)?;
        let signature = text.strip_prefix("v=").ok_or(SERVER_FINAL)?;
        let signature = STANDARD.decode(signature).map_err(|_| SERVER_FINAL)?;
        hmac::verify(&self.server_key, self.auth_message.as_bytes(), &signature)
            .map_err(|_| ScramError::Signature)
    }
}

/// `ClientKey XOR HMAC(H(ClientKey), AuthMessage)`.
fn client_proof(mechanism: ScramMechanism, salted: &[u8], auth_message: &str) -> Zeroizing<Vec<u8>> {
    let client_key = hmac::sign(&mechanism.key(salted), b"Client Key");
    let stored_key = mechanism.hash(client_key.as_ref());
    let signature = hmac::sign(&mechanism.key(stored_key.as_ref()), auth_message.as_bytes());
    let pairs = client_key.as_ref().iter().zip(signature.as_ref());
    Zeroizing::new(pairs.map(|(key, signature)| key ^ signature).collect())
}

/// The parts of a server-first-message.
struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: NonZeroU32,
}

impl<'a> Challenge<'a> {
    /// Parses `r=NONCE,s=SALT,i=ITERATIONS`. Extensions are refused: we ask for none, and `m=` marks those
    /// that a client must understand.
    fn parse(text: &'a str) -> Result<Self, ScramError> {
        refusal(text)?;
        let mut attributes = text.split(',');
        let mut next = |prefix: &str| {
            attributes.next().and_then(|attribute| attribute.strip_prefix(prefix)).ok_or(SERVER_FIRST)
        };
        let (nonce, salt, iterations) = (next("r=")?, next("s=")?, next("i=")?);
        if attributes.next().is_some() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SERVER_FIRST);
        }
        let salt = STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty()).ok_or(SERVER_FIRST)?;
        Ok(Self { nonce, salt, iterations: checked_iterations(iterations)? })
    }
}

fn checked_iterations(text: &str) -> Result<NonZeroU32, ScramError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(SERVER_FIRST);
    }
    let found: u32 = text.parse().map_err(|_| SERVER_FIRST)?;
    match NonZeroU32::new(found) {
        _ if found > ITERATIONS_MAX => Err(ScramError::TooManyIterations { found, max: ITERATIONS_MAX }),
        Some(iterations) if found >= ITERATIONS_MIN => Ok(iterations),
        _ => Err(ScramError::TooFewIterations { found, min: ITERATIONS_MIN }),
    }
}

/// `e=REASON`: an error of RFC 5802. Kafka never sends it.
fn refusal(text: &str) -> Result<(), ScramError> {
    match text.strip_prefix("e=") {
        Some(reason) => {
            let shown = reason.chars().take(REFUSAL_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c });
            Err(ScramError::Refused(shown.collect()))
        }
        None => Ok(()),
    }
}

fn text(message: &[u8], malformed: ScramError) -> Result<&str, ScramError> {
    match std::str::from_utf8(message) {
        Ok(text) if message.len() <= MESSAGE_BYTES_MAX => Ok(text),
        _ => Err(malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The exchange of RFC 7677, section 3.
    const PASSWORD: &[u8] = b"pencil";
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST_TEXT: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_FINAL_TEXT: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn start() -> ScramStart {
        ScramStart::new(ScramMechanism::Sha256, "user", NONCE.to_owned())
    }

    fn proof() -> ScramProof {
        start().prove(PASSWORD, SERVER_FIRST_TEXT.as_bytes()).unwrap().0
    }

    #[test]
    fn the_exchange_of_rfc_7677_is_reproduced() {
        assert_eq!(start().message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (proof, message) = start().prove(PASSWORD, SERVER_FIRST_TEXT.as_bytes()).unwrap();
        assert_eq!(message, CLIENT_FINAL);
        assert_eq!(proof.verify(SERVER_FINAL_TEXT.as_bytes()), Ok(()));
    }

    #[test]
    fn sha_512_has_its_own_keys() {
        let start = ScramStart::new(ScramMechanism::Sha512, "user", NONCE.to_owned());
        let (proof, message) = start.prove(PASSWORD, SERVER_FIRST_TEXT.as_bytes()).unwrap();
        let (_, sent) = message.split_once(",p=").unwrap();
        assert_eq!(STANDARD.decode(sent).unwrap().len(), 64);
        assert_eq!(proof.verify(SERVER_FINAL_TEXT.as_bytes()), Err(ScramError::Signature));
    }

    #[test]
    fn names_are_escaped() {
        let start = ScramStart::new(ScramMechanism::Sha256, "id", "x".to_owned()).with_tokenauth();
        assert_eq!(start.message(), "n,,n=id,r=x,tokenauth=true");
        let start = ScramStart::new(ScramMechanism::Sha256, "a=b,c=2C", "x".to_owned());
        assert_eq!(start.message(), "n,,n=a=3Db=2Cc=3D2C,r=x");
    }

    #[test]
    fn a_first_message_that_is_not_the_right_one_is_refused() {
        let nonce = "r=rOprNGfwEbeRWgbNEkqO%hv";
        let salt = "s=W22ZaJ0SNY7soEsUEjb6gQ==";
        let few = |found| ScramError::TooFewIterations { found, min: ITERATIONS_MIN };
        let many = |found| ScramError::TooManyIterations { found, max: ITERATIONS_MAX };
        for (text, expected) in [
            (String::new(), SERVER_FIRST),
            ("r=".to_owned(), SERVER_FIRST),
            (format!("{nonce},{salt}"), SERVER_FIRST),
            (format!("{salt},{nonce},i=4096"), SERVER_FIRST),
            (format!(" {nonce},{salt},i=4096"), SERVER_FIRST),
            (format!("m=x,{nonce},{salt},i=4096"), SERVER_FIRST),
            (format!("{nonce},{salt},i=4096,x=y"), SERVER_FIRST),
            (format!("{nonce},{salt},i=4096,"), SERVER_FIRST),
            (format!("{nonce} x,{salt},i=4096"), SERVER_FIRST),
            (format!("{nonce}\u{1},{salt},i=4096"), SERVER_FIRST),
            (format!("{nonce},s=,i=4096"), SERVER_FIRST),
            (format!("{nonce},s=!,i=4096"), SERVER_FIRST),
            (format!("{nonce},s=W22ZaJ0SNY7soEsUEjb6gQ,i=4096"), SERVER_FIRST),
            (format!("{nonce},{salt},i="), SERVER_FIRST),
            (format!("{nonce},{salt},i=+4096"), SERVER_FIRST),
            (format!("{nonce},{salt},i=-1"), SERVER_FIRST),
            (format!("{nonce},{salt},i=99999999999"), SERVER_FIRST),
            (format!("{nonce},{salt},i=0"), few(0)),
            (format!("{nonce},{salt},i=4095"), few(4095)),
            (format!("{nonce},{salt},i=1000001"), many(1_000_001)),
            (format!("r={NONCE},{salt},i=4096"), ScramError::Nonce),
            (format!("r=rOprNGfwEbeRWgbNEkqP%hv,{salt},i=4096"), ScramError::Nonce),
            (format!("r=r,{salt},i=4096"), ScramError::Nonce),
            (format!("r=%hv{NONCE},{salt},i=4096"), ScramError::Nonce),
            (format!("{nonce}{},{salt},i=4096", "x".repeat(MESSAGE_BYTES_MAX)), SERVER_FIRST),
            ("e=unknown-user\n".to_owned(), ScramError::Refused("unknown-user ".to_owned())),
        ] {
            let found = start().prove(PASSWORD, text.as_bytes()).map(|(_, message)| message);
            assert_eq!(found, Err(expected), "{text}");
        }
        let found = start().prove(PASSWORD, b"r=\xff").map(|(_, message)| message);
        assert_eq!(found, Err(SERVER_FIRST));
    }

    #[test]
    fn a_server_that_does_not_know_the_verifier_is_refused() {
        for (text, expected) in [
            ("", SERVER_FINAL),
            ("v=", ScramError::Signature),
            ("v=!", SERVER_FINAL),
            ("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", SERVER_FINAL),
            ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4", SERVER_FINAL),
            ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=,x=y", SERVER_FINAL),
            ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", SERVER_FINAL),
            ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G8=", ScramError::Signature),
            ("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", ScramError::Signature),
            ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95A==", ScramError::Signature),
            ("e=invalid-proof", ScramError::Refused("invalid-proof".to_owned())),
        ] {
            assert_eq!(proof().verify(text.as_bytes()), Err(expected), "{text}");
        }
        let (wrong, _) = start().prove(b"pencils", SERVER_FIRST_TEXT.as_bytes()).unwrap();
        assert_eq!(wrong.verify(SERVER_FINAL_TEXT.as_bytes()), Err(ScramError::Signature));
    }

    #[test]
    fn long_errors_of_a_server_are_cut() {
        let text = format!("e={}", "x".repeat(1000));
        let Err(ScramError::Refused(shown)) = proof().verify(text.as_bytes()) else { panic!("accepted") };
        assert_eq!(shown.len(), REFUSAL_CHARS_MAX);
    }
}
