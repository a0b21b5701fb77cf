//! Compression of record bodies: one function in, one function out, for every codec.
//!
//! Decompression trusts no length that the data claim. The output grows with what was really produced, never beyond
//! the caller's limit, and each codec says in its module what an input byte can justify at most. Nothing is accepted
//! that Kafka's own readers could not read, since batches are stored as they came.

mod gzip;
mod lz4;
mod snappy;
mod xxh32;
mod zstd;

use std::borrow::Cow;

use crate::{BatchError, Compression};

/// How hard each codec tries. Out-of-range values are clamped when used.
///
/// LZ4 has no level here: the pure Rust implementation has only the fast mode, which is Kafka's default; a topic's
/// `compression.lz4.level` is accepted and without effect. Snappy has no levels anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionLevels {
    /// `compression.gzip.level`: 1 to 9, or -1 for zlib's default (6).
    pub gzip: i32,
    /// `compression.zstd.level`: -131072 to 22; Kafka's default is 3.
    pub zstd: i32,
}

impl Default for CompressionLevels {
    fn default() -> Self {
        Self { gzip: -1, zstd: 3 }
    }
}

/// Why a body was not decompressed; the codec and the limit are added by [`decompress`].
#[derive(Debug)]
pub(crate) enum Fault {
    /// The output would exceed the limit.
    TooLarge,
    /// The data are not what the codec writes.
    Corrupt(Cow<'static, str>),
}

impl Fault {
    fn of(error: &dyn std::fmt::Display) -> Self {
        Self::Corrupt(Cow::Owned(error.to_string()))
    }
}

impl From<&'static str> for Fault {
    fn from(text: &'static str) -> Self {
        Self::Corrupt(Cow::Borrowed(text))
    }
}

/// Replaces the content of `out` by the decompressed `body`, at most `bytes_max` bytes. With
/// [`Compression::None`] that is a copy.
///
/// # Errors
/// `Decompression` for corrupt data and `ExpandsTooLarge` beyond the limit; `out` then holds anything.
pub fn decompress(
    compression: Compression,
    body: &[u8],
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), BatchError> {
    out.clear();
    let result = match compression {
        Compression::None if body.len() > bytes_max => Err(Fault::TooLarge),
        Compression::None => {
            out.extend_from_slice(body);
            Ok(())
        }
        Compression::Gzip => gzip::decompress(body, bytes_max, out),
        Compression::Snappy => snappy::decompress(body, bytes_max, out),
        Compression::Lz4 => lz4::decompress(body, bytes_max, out),
        Compression::Zstd => zstd::decompress(body, bytes_max, out),
    };
    result.map_err(|fault| match fault {
        Fault::TooLarge => BatchError::ExpandsTooLarge { bytes_max },
        Fault::Corrupt(reason) => BatchError::Decompression { compression, reason: reason.into_owned() },
    })
}

/// Lengthens `out` by `bytes`, but to at most `bytes_max`, with zeros. The capacity at most doubles, and does not exceed
/// the limit either.
fn grow(out: &mut Vec<u8>, bytes: usize, bytes_max: usize) {
    let length = out.len().saturating_add(bytes).min(bytes_max);
    if length > out.capacity() {
        let capacity = length.max(out.capacity().saturating_mul(2).min(bytes_max));
        out.reserve_exact(capacity - out.len());
    }
    out.resize(length, 0);
}

/// Appends the compressed `body` to `out`.
pub fn compress(compression: Compression, levels: CompressionLevels, body: &[u8], out: &mut Vec<u8>) {
    match compression {
        Compression::None => out.extend_from_slice(body),
        Compression::Gzip => gzip::compress(body, levels.gzip, out),
        Compression::Snappy => snappy::compress(body, out),
        Compression::Lz4 => lz4::compress(body, out),
        Compression::Zstd => zstd::compress(body, levels.zstd, out),
    }
}
