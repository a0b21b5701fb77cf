//! What the codecs share: their errors, and the growth of the output.

use std::borrow::Cow;

/// The reason why a body could not be decompressed. [`decompress`](super::decompress) adds the codec and the
/// limit.
#[derive(Debug)]
pub(super) enum Fault {
    /// The output would exceed the limit.
    TooLarge,
    /// The codec could not have written the data.
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

/// Extends `out` with zeros by `bytes`, up to a length of `bytes_max`. The capacity at most doubles, and does
/// not exceed the limit either.
pub(super) fn grow(out: &mut Vec<u8>, bytes: usize, bytes_max: usize) {
    let length = out.len().saturating_add(bytes).min(bytes_max);
    if length > out.capacity() {
        let capacity = length.max(out.capacity().saturating_mul(2).min(bytes_max));
        out.reserve_exact(capacity - out.len());
    }
    out.resize(length, 0);
}
