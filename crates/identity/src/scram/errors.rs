//! Why a login with SCRAM fails.

use super::bounds::{MESSAGE_BYTES_MAX, NONCE_BYTES_MAX};
use super::verifier::VerifierError;
use crate::names::UserNameError;

/// Why a message of SCRAM is refused. This is for the log: the client is told only that the login failed. No
/// part of the message is shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// Longer than any legal message.
    #[error("the message has {found} bytes, more than {MESSAGE_BYTES_MAX}")]
    TooLong {
        /// The length found, in bytes.
        found: usize,
    },
    /// Not UTF-8.
    #[error("the message is not UTF-8")]
    NotUtf8,
    /// The header of GS2 (RFC 5801) or an attribute is missing, or it does not have its form.
    #[error("expected {expected}")]
    Expected {
        /// What is missing.
        expected: &'static str,
    },
    /// The client asks for channel binding (`p`), or would have liked it (`y`).
    #[error("it asks for channel binding, which is not served")]
    ChannelBinding,
    /// An extension that must be understood (`m=`). There is none that we understand.
    #[error("it has a mandatory extension, and none is served")]
    MandatoryExtension,
    /// Another extension than `tokenauth=true`, or one where there is none.
    #[error("it has an unknown extension")]
    Extension,
    /// An equals sign in a name that is not part of `=2C` or `=3D`.
    #[error("the user's name has an equals sign that is neither =2C nor =3D")]
    Escape,
    /// No user can have this name.
    #[error(transparent)]
    Name(#[from] UserNameError),
    /// The client asks to act as another user (CVE-2017-12610).
    #[error("it asks to act as another user")]
    OtherUser,
    /// A nonce is empty, too long, or has other characters than visible ASCII.
    #[error("a nonce has 1 to {NONCE_BYTES_MAX} visible characters of ASCII")]
    Nonce,
    /// Not the padded base64 of RFC 4648, or longer than any value may be.
    #[error("a value is not base64 of at most 255 bytes")]
    Base64,
    /// The salt or the number of iterations of a server is out of its range.
    #[error(transparent)]
    Verifier(#[from] VerifierError),
    /// The final message repeats another GS2 header than the first one had.
    #[error("its channel binding is not the header of its first message")]
    OtherChannelBinding,
    /// The nonce of the final message is not the whole nonce of the challenge (CVE-2024-56128).
    #[error("its nonce is not the one of the challenge")]
    OtherNonce,
    /// The user is unknown or disabled, or the proof is wrong.
    #[error("its user or proof is wrong")]
    WrongProof,
}
