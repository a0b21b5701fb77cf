//! What the codecs share: why a body was not decompressed, and room for its output.

use std::borrow::Cow;

/// Why a body was not decompressed; the codec and the limit are added by [`decompress`](super::decompress).
#[derive(Debug)]
pub(super) enum Fault {
    /// The output would exceed the limit.
    TooLarge,
    /// The data are not what the codec writes.
    Corrupt(Cow<'static, str>),
}

impl Fault {
    pub(super) fn of(error: &dyn std::fmt::Display) -> Self {
        Self::Corrupt(Cow::Owned(error.to_string()))
    }
}

impl From<&'static str> for Fault {
    fn from(text: &'static str) -> Self {
        Self::Corrupt(Cow::Borrowed(text))
    }
}

/// Lengthens `out` by `bytes`, but to at most `bytes_max`, with zeros. The capacity at most doubles, and does not exceed
/// the limit either.
pub(super) fn grow(out: &mut Vec<u8>, bytes: usize, bytes_max: usize) {
    let length = out.len().saturating_add(bytes).min(bytes_max);
    if length > out.capacity() {
        let capacity = length.max(out.capacity().saturating_mul(2).min(bytes_max));
        out.reserve_exact(capacity - out.len());
    }
    out.resize(length, 0);
}
