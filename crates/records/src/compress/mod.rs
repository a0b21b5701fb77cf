//! Compression of record bodies: one function in, one function out, for every codec.
//!
//! Decompression trusts no length in the data. The output grows with what was actually produced, never beyond
//! the caller's limit. Each codec module states the most that one input byte can yield. Batches are stored as
//! they arrive, so nothing is accepted that Kafka's own readers cannot read.

mod gzip;
mod lz4;
mod output;
mod snappy;
mod zstd;

use self::output::Fault;
use crate::{BatchError, Compression};

/// The compression levels of the codecs. Out-of-range values are clamped on use.
///
/// LZ4 has no level here. The pure Rust implementation has only the fast mode, which is Kafka's default. A
/// topic's `compression.lz4.level` is accepted and has no effect. Snappy has no levels anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionLevels {
    /// `compression.gzip.level`: 1 to 9, or -1 for zlib's default (6).
    pub gzip: i32,
    /// `compression.zstd.level`: -131072 to 22. Kafka's default is 3.
    pub zstd: i32,
}

/// The level that -1 stands for.
const GZIP_DEFAULT: i32 = 6;

const ZSTD_DEFAULT: i32 = 3;

impl Default for CompressionLevels {
    fn default() -> Self {
        Self { gzip: -1, zstd: ZSTD_DEFAULT }
    }
}

impl CompressionLevels {
    /// True if this codec takes several times as long as at its default level: even 32 KiB may take 10 ms.
    pub const fn are_slow(self, compression: Compression) -> bool {
        match compression {
            Compression::Gzip => self.gzip > GZIP_DEFAULT,
            Compression::Zstd => self.zstd > ZSTD_DEFAULT,
            Compression::None | Compression::Snappy | Compression::Lz4 => false,
        }
    }
}

/// Replaces the content of `out` with the decompressed `body`, at most `bytes_max` bytes. For
/// [`Compression::None`] this copies.
///
/// # Errors
/// `Decompression` for corrupt data and `ExpandsTooLarge` beyond the limit. The content of `out` is
/// unspecified then.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_above_the_default_are_slow_where_the_codec_has_levels() {
        let high = CompressionLevels { gzip: 9, zstd: 22 };
        for (compression, is_slow) in [
            (Compression::None, false),
            (Compression::Gzip, true),
            (Compression::Snappy, false),
            (Compression::Lz4, false),
            (Compression::Zstd, true),
        ] {
            assert_eq!(high.are_slow(compression), is_slow, "{compression:?}");
            assert!(!CompressionLevels::default().are_slow(compression), "{compression:?}");
        }
    }
}
