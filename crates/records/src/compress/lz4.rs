//! LZ4 frames that Kafka can read: version 1, independent blocks, no dictionary.
//!
//! This module parses the frame itself, because the library's decoder allocates the block size of the header
//! (up to 4 MiB) before a block has arrived. One byte of an LZ4 block yields at most 255 bytes, so each block
//! gets at most that much.

use std::io::Write;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use twox_hash::XxHash32;

use super::output::{Fault, grow};

const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
const VERSION: u8 = 0b01;
const EXPANSION_MAX: usize = 255;
/// The high bit of a block's length: the block is stored uncompressed.
const STORED: u32 = 1 << 31;

/// The fields of a frame header.
struct Frame {
    block_bytes_max: usize,
    block_checksums: bool,
    content_checksum: bool,
}

/// Reads one frame. Kafka ignores bytes after the end mark. This reader refuses them.
pub(super) fn decompress(body: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (frame, mut rest) = frame_header(body)?;
    loop {
        let length = take_u32(&mut rest)?;
        if length == 0 {
            break;
        }
        let block = take(&mut rest, (length & !STORED) as usize)?;
        if block.len() > frame.block_bytes_max {
            return Err("a block is larger than the frame allows".into());
        }
        if frame.block_checksums && take_u32(&mut rest)? != xxh32(block) {
            return Err("a block's checksum is wrong".into());
        }
        append(&frame, block, length & STORED != 0, bytes_max, out)?;
    }
    if frame.content_checksum && take_u32(&mut rest)? != xxh32(out) {
        return Err("the content's checksum is wrong".into());
    }
    if rest.is_empty() { Ok(()) } else { Err("bytes follow the frame".into()) }
}

fn append(
    frame: &Frame,
    block: &[u8],
    stored: bool,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let allowed = bytes_max.saturating_sub(out.len());
    if stored {
        if block.len() > allowed {
            return Err(Fault::TooLarge);
        }
        let start = out.len();
        grow(out, block.len(), bytes_max);
        out[start..].copy_from_slice(block);
        return Ok(());
    }
    let room = frame.block_bytes_max.min(block.len().saturating_mul(EXPANSION_MAX));
    let start = out.len();
    grow(out, room, bytes_max);
    match lz4_flex::block::decompress_into(block, &mut out[start..]) {
        Ok(written) => {
            out.truncate(start + written);
            Ok(())
        }
        Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if allowed < room => {
            Err(Fault::TooLarge)
        }
        Err(error) => Err(Fault::of(&error)),
    }
}

fn frame_header(body: &[u8]) -> Result<(Frame, &[u8]), Fault> {
    let mut rest = body;
    if take(&mut rest, 4)? != MAGIC {
        return Err("the frame magic is wrong".into());
    }
    let descriptor = rest;
    let [flags, block] = *take(&mut rest, 2)? else { return Err("the frame is cut off".into()) };
    let set = |bit: u8| flags & (1 << bit) != 0;
    if flags >> 6 != VERSION || set(0) || set(1) || block & 0b1000_1111 != 0 {
        return Err("the frame version is unknown, or reserved bits or a dictionary are set".into());
    }
    if !set(5) {
        return Err("blocks depend on each other, which Kafka's reader does not support".into());
    }
    if set(3) {
        take(&mut rest, 8)?;
    }
    let block_bytes_max = match block >> 4 {
        code @ 4..=7 => 1 << (8 + 2 * code),
        _ => return Err("the block size is unknown".into()),
    };
    let hashed = &descriptor[..descriptor.len() - rest.len()];
    if take(&mut rest, 1)? != [(xxh32(hashed) >> 8) as u8] {
        return Err("the frame header's checksum is wrong".into());
    }
    Ok((Frame { block_bytes_max, block_checksums: set(4), content_checksum: set(2) }, rest))
}

/// The checksum of LZ4 frames: xxHash32 with seed 0.
fn xxh32(bytes: &[u8]) -> u32 {
    XxHash32::oneshot(0, bytes)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], Fault> {
    let (taken, after) = rest.split_at_checked(count).ok_or("the frame is cut off")?;
    *rest = after;
    Ok(taken)
}

fn take_u32(rest: &mut &[u8]) -> Result<u32, Fault> {
    let (taken, after) = rest.split_first_chunk::<4>().ok_or("the frame is cut off")?;
    *rest = after;
    Ok(u32::from_le_bytes(*taken))
}

/// Compresses like Kafka's producer: independent blocks of 64 KiB, without checksums.
pub(super) fn compress(body: &[u8], out: &mut Vec<u8>) {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    let written = encoder.write_all(body).is_ok() && encoder.try_finish().is_ok();
    assert!(written, "writing to memory cannot fail");
}
