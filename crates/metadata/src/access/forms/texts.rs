//! What the forms share: errors, names, and bytes in base64.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tailrace_identity::quota::QuotaKey;
use tailrace_identity::scram::VerifierError;
use zeroize::Zeroizing;

use crate::access::bounds::RENEWERS_MAX;

/// Maximum number of bytes behind a text in base64: those of a salt. A key has at most 64.
const BINARY_BYTES_MAX: usize = 255;

/// Why a form is not a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// A name of an enumeration that has no such value.
    #[error("its {what} is none that this build knows")]
    Unknown {
        /// The field.
        what: &'static str,
    },
    /// A text is empty or too long.
    #[error("its {what} has {found} bytes, not 1 to {max}")]
    Length {
        /// The field.
        what: &'static str,
        /// The length of the text.
        found: usize,
        /// The maximum length.
        max: usize,
    },
    /// A text is not base64, or is too long.
    #[error("its {what} is not base64 of at most {BINARY_BYTES_MAX} bytes")]
    Base64 {
        /// The field.
        what: &'static str,
    },
    /// The parts of a credential do not fit each other.
    #[error("its credential is invalid: {0}")]
    Verifier(#[from] VerifierError),
    /// The credentials of a user are out of order.
    #[error("its credentials are not at most one for each mechanism, ordered by mechanism")]
    Order,
    /// A token has too many renewers.
    #[error("it has {found} renewers, expected at most {RENEWERS_MAX}")]
    Renewers {
        /// Their number.
        found: usize,
    },
    /// An entity without a part, or an address that is combined with another part.
    #[error("its entity is neither a user, nor a client id, nor both, nor an address")]
    Entity,
    /// The text of a limit is not a number, or not a legal one.
    #[error("its limit for {} is invalid", key.name())]
    Limit {
        /// The key.
        key: QuotaKey,
    },
}

/// A key in base64. It is erased when it is dropped, and cannot be printed. What serde buffers on the way is
/// not erased.
pub(super) struct KeyText(Zeroizing<String>);

impl Serialize for KeyText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for KeyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = KeyText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key in base64")
            }

            fn visit_str<E>(self, text: &str) -> Result<KeyText, E> {
                Ok(KeyText(Zeroizing::new(text.to_owned())))
            }

            fn visit_string<E>(self, text: String) -> Result<KeyText, E> {
                Ok(KeyText(Zeroizing::new(text)))
            }
        }
        deserializer.deserialize_string(Text)
    }
}

impl KeyText {
    pub(super) fn of(key: &[u8]) -> Self {
        // Long enough from the start: a text that grows leaves copies behind.
        let mut text = Zeroizing::new(String::with_capacity(key.len().div_ceil(3) * 4));
        STANDARD.encode_string(key, &mut text);
        Self(text)
    }

    pub(super) fn bytes(&self, what: &'static str) -> Result<Zeroizing<Vec<u8>>, FormError> {
        bytes_of(&self.0, what)
    }
}

/// Decodes base64 into bytes that are erased when they are dropped.
pub(super) fn bytes_of(text: &str, what: &'static str) -> Result<Zeroizing<Vec<u8>>, FormError> {
    let invalid = || FormError::Base64 { what };
    if text.len() > BINARY_BYTES_MAX.div_ceil(3) * 4 {
        return Err(invalid());
    }
    let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(text.len())]);
    let count = STANDARD.decode_slice(text, &mut bytes).map_err(|_| invalid())?;
    bytes.truncate(count);
    Ok(bytes)
}

pub(super) fn check_length(text: &str, what: &'static str, max: usize) -> Result<(), FormError> {
    let found = text.len();
    if (1..=max).contains(&found) { Ok(()) } else { Err(FormError::Length { what, found, max }) }
}

pub(super) fn known<T>(value: Option<T>, what: &'static str) -> Result<T, FormError> {
    value.ok_or(FormError::Unknown { what })
}
