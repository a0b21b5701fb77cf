//! Snappy as in Kafka: blocks in snappy-java's ("xerial") framing. A bare Snappy block is also read.
//!
//! The framing is 16 bytes (magic, version, least compatible version), then blocks, each after its length as
//! a big-endian `i32`. Kafka does not use the framing of the Snappy project itself, which other tools write.

use super::output::{Fault, grow};

/// The start of each stream. Another stream may follow. Its magic cannot be mistaken for a block's length.
const MAGIC: [u8; 8] = *b"\x82SNAPPY\x00";
const HEADER_BYTES: usize = 16;
/// Version 1, readable by version 1.
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// Uncompressed bytes per written block: snappy-java's default.
const BLOCK_BYTES: usize = 32 * 1024;
/// The most bytes that one byte of a block can yield: a three-byte copy yields 64, a two-byte copy 11.
const EXPANSION_MAX: usize = 22;

pub(super) fn decompress(body: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    if body.get(..MAGIC.len()) != Some(&MAGIC) {
        return block(body, bytes_max, out);
    }
    let mut rest = body;
    while !rest.is_empty() {
        if rest.get(..MAGIC.len()) == Some(&MAGIC) {
            rest = stream(rest)?;
            continue;
        }
        let (length, after) = rest.split_first_chunk::<4>().ok_or("a block length is cut off")?;
        let length =
            usize::try_from(i32::from_be_bytes(*length)).map_err(|_| "a block length is negative")?;
        let (compressed, after) = after.split_at_checked(length).ok_or("a block is cut off")?;
        block(compressed, bytes_max, out)?;
        rest = after;
    }
    Ok(())
}

/// Skips the header of a stream. Ignores its versions, like Kafka.
fn stream(bytes: &[u8]) -> Result<&[u8], Fault> {
    bytes.get(HEADER_BYTES..).ok_or_else(|| "the stream header is cut off".into())
}

/// Appends one block. Trusts its claimed length only as far as its own bytes can yield it.
fn block(compressed: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let claimed = snap::raw::decompress_len(compressed).map_err(|error| Fault::of(&error))?;
    if claimed > compressed.len().saturating_mul(EXPANSION_MAX) {
        return Err("a block claims more bytes than it can hold".into());
    }
    if claimed > bytes_max.saturating_sub(out.len()) {
        return Err(Fault::TooLarge);
    }
    let start = out.len();
    grow(out, claimed, bytes_max);
    let written = snap::raw::Decoder::new().decompress(compressed, &mut out[start..]);
    out.truncate(start + written.map_err(|error| Fault::of(&error))?);
    Ok(())
}

pub(super) fn compress(body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSIONS);
    let mut encoder = snap::raw::Encoder::new();
    for chunk in body.chunks(BLOCK_BYTES) {
        let start = out.len();
        out.resize(start + 4 + snap::raw::max_compress_len(chunk.len()), 0);
        let length = encoder.compress(chunk, &mut out[start + 4..]).expect("room for the largest output");
        out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
        out.truncate(start + 4 + length);
    }
}
