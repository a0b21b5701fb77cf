//! What may be wrong with users, and with what a client presents. Nothing here shows a secret.

/// Why somebody is not let in. For a log: who presents something learns less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Something has to be presented.
    #[error("it presented no credentials")]
    NoCredentials,
    /// There is no such user or key.
    #[error("it presented a user or key that is unknown")]
    Unknown,
    /// There is such a user, or a token.
    #[error("its password or token is wrong")]
    WrongSecret,
    /// There is such a key.
    #[error("its signature is not that of its key over this connection's nonce")]
    WrongSignature,
}

/// What is wrong with a user's credential, as somebody has set it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// A secret that everybody knows.
    #[error("it must not be empty")]
    Empty,
    /// A password that looks like a hash.
    #[error("it begins like a bcrypt hash and is none: $2b$COST$ and 53 characters")]
    NotBcrypt,
    /// Too quick to be safe, or too slow for anybody to wait.
    #[error("the cost of a bcrypt hash must be between {cost_min} and {cost_max}, not {cost}")]
    Cost {
        /// The exponent in the hash.
        cost: u32,
        /// The smallest that is accepted.
        cost_min: u32,
        /// The largest that is accepted.
        cost_max: u32,
    },
    /// The private key, which is not shown.
    #[error("this is a private seed: keep it secret, and give the public key, which begins with U")]
    Seed,
    /// Not the form of a key.
    #[error("expected a public user nkey: U and 55 more letters and digits of base32")]
    NotAKey,
    /// A key with a letter that was changed.
    #[error("its checksum is wrong: a letter was changed")]
    Checksum,
    /// The key of something else.
    #[error("it is not a user's key: those begin with U")]
    NotAUsersKey,
    /// The name or key is that of another user.
    #[error("the user {name} is there twice")]
    Twice {
        /// Of the user.
        name: String,
    },
}

/// What is wrong with a file of users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct UsersFileError {
    /// Counted from 1.
    pub line: usize,
    /// The key, and what is wrong with it.
    pub reason: String,
}
