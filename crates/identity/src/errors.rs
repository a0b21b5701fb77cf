//! Errors of user definitions and of client credentials. None of them shows a secret.

/// Why a client is denied access. This is for the log; the client is told less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Credentials are required, and the client presented none.
    #[error("it presented no credentials")]
    NoCredentials,
    /// No such user or key exists.
    #[error("it presented an unknown user or key")]
    Unknown,
    /// The user or token exists, but the secret is wrong.
    #[error("its password or token is wrong")]
    WrongSecret,
    /// The key exists, but the signature is wrong.
    #[error("its signature does not match its key and this connection's nonce")]
    WrongSignature,
    /// The user may connect, but not like this.
    #[error("its user may not have a connection of this kind")]
    ConnectionKind,
}

/// What is wrong with the definition of a user's credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// An empty secret.
    #[error("it must not be empty")]
    Empty,
    /// A password that looks like a bcrypt hash.
    #[error("it starts like a bcrypt hash but is not one: expected $2b$COST$ and 53 characters")]
    NotBcrypt,
    /// The cost is too low to be safe, or so high that a check takes too long.
    #[error("the cost of a bcrypt hash must be between {cost_min} and {cost_max}, not {cost}")]
    Cost {
        /// The hash's cost exponent.
        cost: u32,
        /// The lowest accepted cost.
        cost_min: u32,
        /// The highest accepted cost.
        cost_max: u32,
    },
    /// A private key, which the error does not show.
    #[error("this is a private seed: keep it secret, and give the public key, which starts with U")]
    Seed,
    /// The text does not have the form of a key.
    #[error("expected a public user nkey: U and 55 more letters and digits of base32")]
    NotAKey,
    /// A key with a wrong checksum.
    #[error("its checksum is wrong: a character was changed")]
    Checksum,
    /// A key of another kind.
    #[error("it is not a user's key: those start with U")]
    NotAUsersKey,
    /// A name that stands for everybody in rules: what is allowed to this user would be allowed to all.
    #[error("a user cannot be called *, which stands for everybody in rules")]
    Everybody,
    /// A name that could forge a line of the log.
    #[error("a user's name must not have control characters")]
    Control,
    /// The name or key belongs to another user already.
    #[error("the user {name} is defined twice")]
    Twice {
        /// The user's name.
        name: String,
    },
}

/// What is wrong with a users file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct UsersFileError {
    /// The line number, counted from 1.
    pub line: usize,
    /// The key in the file, and what is wrong with it.
    pub reason: String,
}
