//! Public keys of all kinds, and keys that sign claims.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::Serialize;

use crate::errors::CredentialError;
use crate::nkey;

/// Whose key it is: the first letter of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// `O`
    Operator,
    /// `A`
    Account,
    /// `U`
    User,
    /// `N`
    Server,
    /// `X`, for sealing. It cannot sign.
    Curve,
}

impl KeyKind {
    fn byte(self) -> u8 {
        match self {
            Self::Operator => 14 << 3,
            Self::Account => 0,
            Self::User => 20 << 3,
            Self::Server => 13 << 3,
            Self::Curve => 23 << 3,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        let kinds = [Self::Operator, Self::Account, Self::User, Self::Server, Self::Curve];
        kinds.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// What is wrong with the text of a public key. Texts are not shown: they may be seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NkeyError {
    /// Not 56 letters and digits of base32.
    #[error("expected a public nkey: 56 letters and digits of base32")]
    Form,
    /// A wrong checksum.
    #[error("the checksum of a public nkey is wrong: a character was changed")]
    Checksum,
    /// An unexpected kind.
    #[error("expected the public key of kind {expected:?}")]
    Kind {
        /// The expected kind.
        expected: KeyKind,
    },
}

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nkey {
    kind: KeyKind,
    bytes: [u8; 32],
}

impl Nkey {
    /// Makes a key of its bytes.
    pub fn new(kind: KeyKind, bytes: [u8; 32]) -> Self {
        Self { kind, bytes }
    }

    /// Reads the text of a public key.
    ///
    /// # Errors
    /// It is not one, or of a kind that is not known here.
    pub fn parse(text: &str) -> Result<Self, NkeyError> {
        let (byte, bytes) = nkey::decode(text).map_err(|error| match error {
            CredentialError::Checksum => NkeyError::Checksum,
            _ => NkeyError::Form,
        })?;
        Ok(Self { kind: KeyKind::of(byte).ok_or(NkeyError::Form)?, bytes })
    }

    /// Reads the text of a public key of one kind.
    ///
    /// # Errors
    /// It is not one.
    pub fn parse_as(kind: KeyKind, text: &str) -> Result<Self, NkeyError> {
        let key = Self::parse(text)?;
        if key.kind == kind { Ok(key) } else { Err(NkeyError::Kind { expected: kind }) }
    }

    /// Returns its kind.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// Returns its text.
    pub fn text(&self) -> String {
        nkey::encode(self.kind.byte(), &self.bytes)
    }

    /// Reports whether `signature` is this key's signature of `message`. A curve key has none.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.bytes);
        self.kind != KeyKind::Curve && key.verify(message, signature).is_ok()
    }

    /// Reports whether `signature` (base64) is this key's signature of a nonce.
    pub(super) fn verifies_nonce(&self, nonce: &str, signature: &str) -> bool {
        self.kind != KeyKind::Curve && nkey::PublicKey::from_bytes(self.bytes).verifies(nonce, signature)
    }
}

/// A private key. It is never shown.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: String,
}

impl SigningKey {
    /// Makes a key from 32 bytes that must be unpredictable. `None` for a curve key, which cannot sign.
    pub fn new(kind: KeyKind, seed: &[u8; 32]) -> Option<Self> {
        if kind == KeyKind::Curve {
            return None;
        }
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let bytes = <[u8; 32]>::try_from(pair.public_key().as_ref()).ok()?;
        Some(Self { public: Nkey::new(kind, bytes).text(), pair })
    }

    /// Returns the text of the public key.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// Makes a token of claims, which must name this key as `iss`.
    pub(in crate::nats_accounts) fn token(
        &self,
        claims: &impl Serialize,
    ) -> Result<String, serde_json::Error> {
        Ok(self.sign(&serde_json::to_vec(claims)?))
    }

    /// Makes a token of claims as JSON. Nothing in them is checked.
    pub fn sign(&self, claims: &[u8]) -> String {
        const HEADER: &[u8] = br#"{"typ":"JWT","alg":"ed25519-nkey"}"#;
        let mut token = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.as_ref(), &mut token);
        token
    }
}
