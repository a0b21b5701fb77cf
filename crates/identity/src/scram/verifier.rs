//! What the server keeps of a password.

use std::fmt;

use zeroize::Zeroizing;

use super::mechanism::ScramMechanism;
use crate::secret::{PASSWORD_BYTES_MAX, is_same_secret};

/// Fewest iterations: what clients refuse to go below.
pub(crate) const ITERATIONS_MIN: u32 = 4_096;

/// Most iterations: Kafka's limit.
pub(crate) const ITERATIONS_MAX: u32 = 16_384;

/// The iterations of a credential, unless its administrator asks for more. Kafka's tools have this default.
pub const ITERATIONS_DEFAULT: u32 = ITERATIONS_MIN;

/// Maximum length of a salt, in bytes.
const SALT_BYTES_MAX: usize = 255;

/// The length of the salts that we make, in bytes. Decoys have it too.
pub(crate) const SALT_BYTES: usize = 16;

/// What is wrong with the parts of a verifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifierError {
    /// Too few iterations.
    #[error("Too few iterations")]
    TooFewIterations,
    /// Too many iterations.
    #[error("Too many iterations")]
    TooManyIterations,
    /// The salt is empty or too long.
    #[error("A salt has 1 to {SALT_BYTES_MAX} bytes")]
    Salt,
    /// A key or a salted password has the wrong length.
    #[error("Keys and salted passwords of {mechanism} have {expected} bytes, not {found}", mechanism = mechanism.name())]
    Length {
        /// The mechanism.
        mechanism: ScramMechanism,
        /// The length of its hashes.
        expected: usize,
        /// The length found.
        found: usize,
    },
    /// The password is empty or too long, or it has a NUL. Its length is not shown.
    #[error("A password has 1 to {PASSWORD_BYTES_MAX} bytes and no NUL")]
    Password,
}

/// What the server keeps of a password: enough to check a login, and not enough to log in elsewhere. The keys
/// are secrets all the same. They are erased when the verifier is dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramVerifier {
    mechanism: ScramMechanism,
    salt: Box<[u8]>,
    iterations: u32,
    stored_key: Zeroizing<Box<[u8]>>,
    server_key: Zeroizing<Box<[u8]>>,
}

impl ScramVerifier {
    /// Puts a verifier together from what was stored.
    ///
    /// # Errors
    /// A length or the number of iterations is out of its range.
    pub fn from_parts(
        mechanism: ScramMechanism,
        salt: &[u8],
        iterations: u32,
        stored_key: &[u8],
        server_key: &[u8],
    ) -> Result<Self, VerifierError> {
        check(salt, iterations)?;
        for key in [stored_key, server_key] {
            check_length(mechanism, key)?;
        }
        Ok(Self {
            mechanism,
            salt: salt.into(),
            iterations,
            stored_key: Zeroizing::new(stored_key.into()),
            server_key: Zeroizing::new(server_key.into()),
        })
    }

    /// Computes the verifier of a password. The password is the bytes of its UTF-8, as everywhere in Kafka's
    /// world: nobody applies SASLprep.
    ///
    /// This costs one PBKDF2: about 2 ms with 4,096 iterations of SHA-256, 5 ms with SHA-512, and 8 ms with
    /// 16,384 iterations of SHA-256. It must not run on an event loop.
    ///
    /// # Errors
    /// The password is empty, is longer than 4,096 bytes or has a NUL, or the salt or the number of
    /// iterations is out of its range.
    pub fn from_password(
        mechanism: ScramMechanism,
        password: &str,
        salt: &[u8],
        iterations: u32,
    ) -> Result<Self, VerifierError> {
        check(salt, iterations)?;
        // HMAC fills up its keys with NULs, so one at the end of a password would make no difference.
        if !(1..=PASSWORD_BYTES_MAX).contains(&password.len()) || password.contains('\0') {
            return Err(VerifierError::Password);
        }
        let salted = mechanism.salted_password(password.as_bytes(), salt, iterations);
        Self::from_salted_password(mechanism, &salted, salt, iterations)
    }

    /// Computes the verifier of a salted password, which is what AlterUserScramCredentials carries. A salted
    /// password is as secret as the password: it is enough to log in.
    ///
    /// # Errors
    /// A length or the number of iterations is out of its range.
    pub fn from_salted_password(
        mechanism: ScramMechanism,
        salted: &[u8],
        salt: &[u8],
        iterations: u32,
    ) -> Result<Self, VerifierError> {
        check(salt, iterations)?;
        check_length(mechanism, salted)?;
        let client_key = mechanism.client_key(salted);
        let server_key = mechanism.server_key(salted);
        Self::from_parts(mechanism, salt, iterations, &mechanism.hash(&client_key), &server_key)
    }

    /// Returns the verifier to use for a user who does not exist, so that a client cannot tell. It is the
    /// same on every node and each time, as for a user who exists. Nobody can log in with it: its stored key
    /// is not the hash of any key that can be known.
    ///
    /// `secret` is the cluster's, and no client may know it. Call this for users who exist too, because it
    /// takes a few microseconds: otherwise the time of the answer differs.
    ///
    /// A client can still tell if it knows that real credentials have other iterations or other lengths of
    /// salts than [`ITERATIONS_DEFAULT`] and 16 bytes.
    pub fn decoy(mechanism: ScramMechanism, secret: &[u8; 32], user: &str) -> Self {
        let derive = |purpose: &str| {
            let text = [purpose, mechanism.name(), user].join("\0");
            mechanism.hmac(secret, text.as_bytes())
        };
        Self {
            mechanism,
            salt: derive("salt")[..SALT_BYTES].into(),
            iterations: ITERATIONS_DEFAULT,
            stored_key: derive("stored key"),
            server_key: derive("server key"),
        }
    }

    /// Reports whether this is the password. Takes the same time for every password of a legal length, and
    /// almost none for others.
    ///
    /// This costs one PBKDF2, like [`ScramVerifier::from_password`]. It must not run on an event loop. Bound
    /// how many run at a time, because anyone can make the server run one.
    pub fn is_password(&self, password: &str) -> bool {
        Self::from_password(self.mechanism, password, &self.salt, self.iterations)
            .is_ok_and(|other| is_same_secret(&self.stored_key, &other.stored_key))
    }

    /// Reports whether a client that was challenged with the salt and the iterations of `other` can prove
    /// the password of this verifier.
    pub fn accepts_challenge_of(&self, other: &Self) -> bool {
        (self.mechanism, self.iterations) == (other.mechanism, other.iterations) && self.salt == other.salt
    }

    /// Returns the mechanism.
    pub fn mechanism(&self) -> ScramMechanism {
        self.mechanism
    }

    /// Returns the salt.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// Returns the number of iterations.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Returns the stored key, a secret.
    pub fn stored_key(&self) -> &[u8] {
        &self.stored_key
    }

    /// Returns the server key, a secret.
    pub fn server_key(&self) -> &[u8] {
        &self.server_key
    }
}

impl fmt::Debug for ScramVerifier {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mechanism, iterations) = (self.mechanism.name(), self.iterations);
        f.debug_struct("ScramVerifier")
            .field("mechanism", &mechanism)
            .field("iterations", &iterations)
            .finish_non_exhaustive()
    }
}

pub(super) fn check(salt: &[u8], iterations: u32) -> Result<(), VerifierError> {
    match iterations {
        ..ITERATIONS_MIN => Err(VerifierError::TooFewIterations),
        ITERATIONS_MIN..=ITERATIONS_MAX if !(1..=SALT_BYTES_MAX).contains(&salt.len()) => {
            Err(VerifierError::Salt)
        }
        ITERATIONS_MIN..=ITERATIONS_MAX => Ok(()),
        _ => Err(VerifierError::TooManyIterations),
    }
}

fn check_length(mechanism: ScramMechanism, bytes: &[u8]) -> Result<(), VerifierError> {
    let (expected, found) = (mechanism.hash_bytes(), bytes.len());
    if found == expected { Ok(()) } else { Err(VerifierError::Length { mechanism, expected, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: &[u8] = b"0123456789abcdef";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Computed with Python's hashlib and hmac.
    const VECTORS: [(ScramMechanism, &str, u32, &str, &str); 3] = [
        (
            ScramMechanism::Sha256,
            "pencil",
            4_096,
            "9d0a5b67bed6b9db6ab9f3f08a41d7191b7a836409e339ecf1b64bc36ef70d13",
            "8e7d9a9963f5ab587e8e08f2d184ced784bafc5d36495eed6a2a4e781ede7f6d",
        ),
        (
            ScramMechanism::Sha512,
            "pencil",
            4_096,
            "e74abedfb407f17a5a3643718e0046931a979285d51f62e1de51c9d3b83b00e195954e0570e8bec2329073cd0597655e4b0fd29e22943dc2628188cb93a63fdb",
            "7e08867d50dfef4efa6f79957467f871e7786d4c58e0bf008e91ec0fc291cdb18eba390b4a98f8d25adc6fd22f1aa27852fddd062c83814828427a156a6b9ad9",
        ),
        (
            ScramMechanism::Sha256,
            "mötley, =crüe",
            8_192,
            "829f6c8e2ed62710781aaa40acfc457d30a9ba301be4d4e1f84989760857eb66",
            "89a829323b20546d21315e5b5881515754ba5120c94e2dca34939926584ccf67",
        ),
    ];

    #[test]
    fn verifiers_are_those_of_another_implementation() {
        for (mechanism, password, iterations, stored_key, server_key) in VECTORS {
            let verifier = ScramVerifier::from_password(mechanism, password, SALT, iterations).unwrap();
            assert_eq!(hex(verifier.stored_key()), stored_key, "{mechanism:?}");
            assert_eq!(hex(verifier.server_key()), server_key, "{mechanism:?}");
            assert!(verifier.is_password(password));
            for wrong in ["", "sesame", &format!("{password} "), &format!("{password}\0")] {
                assert!(!verifier.is_password(wrong), "{wrong:?}");
            }
        }
    }

    #[test]
    fn a_salted_password_gives_the_verifier_of_its_password() {
        for mechanism in ScramMechanism::ALL {
            let salted = mechanism.salted_password(b"pencil", SALT, ITERATIONS_MIN);
            let of_salted = ScramVerifier::from_salted_password(mechanism, &salted, SALT, ITERATIONS_MIN);
            let of_password = ScramVerifier::from_password(mechanism, "pencil", SALT, ITERATIONS_MIN);
            assert_eq!(of_salted, of_password);
        }
    }

    #[test]
    fn parts_out_of_their_range_are_refused() {
        let (mechanism, long) = (ScramMechanism::Sha256, "x".repeat(PASSWORD_BYTES_MAX + 1));
        for (password, salt, iterations, expected) in [
            ("pencil", SALT, 4_095, VerifierError::TooFewIterations),
            ("pencil", SALT, 0, VerifierError::TooFewIterations),
            ("pencil", SALT, 16_385, VerifierError::TooManyIterations),
            ("pencil", SALT, u32::MAX, VerifierError::TooManyIterations),
            ("pencil", &[], 4_096, VerifierError::Salt),
            ("pencil", &[0; 256], 4_096, VerifierError::Salt),
            ("", SALT, 4_096, VerifierError::Password),
            (&long, SALT, 4_096, VerifierError::Password),
            ("pen\0cil", SALT, 4_096, VerifierError::Password),
        ] {
            let found = ScramVerifier::from_password(mechanism, password, salt, iterations);
            assert_eq!(found, Err(expected));
        }
        for (mechanism, expected, found) in [
            (ScramMechanism::Sha256, 32, 31),
            (ScramMechanism::Sha256, 32, 64),
            (ScramMechanism::Sha512, 64, 32),
        ] {
            let made = ScramVerifier::from_salted_password(mechanism, &vec![1; found], SALT, 4_096);
            assert_eq!(made, Err(VerifierError::Length { mechanism, expected, found }));
        }
    }

    #[test]
    fn decoys_are_the_same_each_time_and_differ_by_user_mechanism_and_secret() {
        let secrets = [[1; 32], [2; 32]];
        let mut salts = std::collections::BTreeSet::new();
        for mechanism in ScramMechanism::ALL {
            for (secret, user) in [(&secrets[0], "a"), (&secrets[0], "b"), (&secrets[1], "a")] {
                let decoy = ScramVerifier::decoy(mechanism, secret, user);
                assert_eq!(decoy, ScramVerifier::decoy(mechanism, secret, user));
                assert_eq!((decoy.salt().len(), decoy.iterations()), (SALT_BYTES, ITERATIONS_DEFAULT));
                let parts = (decoy.stored_key(), decoy.server_key());
                assert_eq!((parts.0.len(), parts.1.len()), (mechanism.hash_bytes(), mechanism.hash_bytes()));
                assert_ne!(parts.0, parts.1);
                assert!(salts.insert(decoy.salt().to_vec()), "{mechanism:?} {user}");
            }
        }
    }

    #[test]
    fn nothing_that_is_printed_shows_a_secret() {
        let verifier = ScramVerifier::from_password(ScramMechanism::Sha256, "pencil", SALT, 4_096).unwrap();
        let shown = "ScramVerifier { mechanism: \"SCRAM-SHA-256\", iterations: 4096, .. }";
        assert_eq!(format!("{verifier:?}"), shown);
    }
}
