//! Zstandard.
//!
//! A streaming decoder would allocate the window of a frame header, up to 128 MiB for any 20 bytes. So a body
//! is decompressed in one call into the caller's buffer, which needs no window. The buffer grows step by
//! step. The headers of the frames' blocks are read beforehand, to bound the size and to refuse windows that
//! Kafka's reader refuses.

use std::cell::RefCell;

use zstd::zstd_safe::{self, DCtx};

use super::output::Fault;

const FRAME_MAGIC: u32 = 0xFD2F_B528;
/// Skippable frames have any of sixteen magics.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
/// The largest window that Kafka's reader accepts.
const WINDOW_BYTES_MAX: u64 = 1 << 27;
/// The most bytes that one block yields.
const BLOCK_BYTES_MAX: usize = 128 * 1024;
/// The initial size of the output, for any input.
const FIRST_BYTES: usize = 256 * 1024;
/// Growth of the output between attempts. All failed attempts together cost a third of the last one.
const GROWTH: usize = 4;

thread_local! {
    /// About 160 KiB. Each use resets it.
    static CONTEXT: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

pub(super) fn decompress(body: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let bound = size_bound(body)?;
    let limit = bound.min(bytes_max);
    let mut room = FIRST_BYTES.max(body.len().saturating_mul(GROWTH)).min(limit);
    loop {
        out.clear();
        out.reserve_exact(room);
        match CONTEXT.with_borrow_mut(|context| context.decompress(out, body)) {
            Ok(_) if out.len() > bytes_max => return Err(Fault::TooLarge),
            Ok(_) => return Ok(()),
            Err(code) if !is_too_small(code) => return Err(zstd_safe::get_error_name(code).into()),
            Err(_) if room < limit => room = room.saturating_mul(GROWTH).min(limit),
            Err(_) if bytes_max < bound => return Err(Fault::TooLarge),
            Err(_) => return Err("the blocks yield more than their headers permit".into()),
        }
    }
}

fn is_too_small(code: usize) -> bool {
    let expected = (zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();
    code == expected
}

/// Returns the most that all frames of `body` can yield, from the headers of their blocks.
fn size_bound(body: &[u8]) -> Result<usize, Fault> {
    let (mut rest, mut bound) = (body, 0usize);
    while !rest.is_empty() {
        let magic = u32::from_le_bytes(take(&mut rest)?);
        if magic & !0xf == SKIPPABLE_MAGIC {
            let bytes = u32::from_le_bytes(take(&mut rest)?);
            skip(&mut rest, bytes as usize)?;
        } else if magic == FRAME_MAGIC {
            bound = bound.saturating_add(frame_bound(&mut rest)?);
        } else {
            return Err("the frame magic is wrong".into());
        }
    }
    Ok(bound)
}

/// Skips one frame after its magic. Returns the most that its blocks can hold. RFC 8878, section 3.1.1.
fn frame_bound(rest: &mut &[u8]) -> Result<usize, Fault> {
    let [descriptor] = take(rest)?;
    let single_segment = descriptor & 0x20 != 0;
    if !single_segment {
        let [window] = take(rest)?;
        let base = 1u64 << (10 + (window >> 3));
        if base + base / 8 * u64::from(window & 7) > WINDOW_BYTES_MAX {
            return Err("the window is larger than Kafka's reader accepts".into());
        }
    }
    let dictionary_id_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size_bytes = match descriptor >> 6 {
        0 => usize::from(single_segment),
        code => 1 << code,
    };
    skip(rest, dictionary_id_bytes + content_size_bytes)?;
    let bound = blocks_bound(rest)?;
    let checksum_bytes = if descriptor & 4 != 0 { 4 } else { 0 };
    skip(rest, checksum_bytes)?;
    Ok(bound)
}

fn blocks_bound(rest: &mut &[u8]) -> Result<usize, Fault> {
    let mut bound = 0usize;
    loop {
        let [low, middle, high] = take(rest)?;
        let header = u32::from_le_bytes([low, middle, high, 0]);
        let size = (header >> 3) as usize;
        let (stored, yields) = match (header >> 1) & 3 {
            0 => (size, size),
            1 => (1, size),
            2 => (size, BLOCK_BYTES_MAX),
            _ => return Err("a block's type is unknown".into()),
        };
        skip(rest, stored)?;
        bound = bound.saturating_add(yields);
        if header & 1 != 0 {
            return Ok(bound);
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Fault> {
    let (taken, after) = rest.split_first_chunk::<N>().ok_or("the frame is cut off")?;
    *rest = after;
    Ok(*taken)
}

fn skip(rest: &mut &[u8], count: usize) -> Result<(), Fault> {
    *rest = rest.get(count..).ok_or("the frame is cut off")?;
    Ok(())
}

pub(super) fn compress(body: &[u8], level: i32, out: &mut Vec<u8>) {
    let level = level.clamp(zstd_safe::min_c_level(), zstd_safe::max_c_level());
    let start = out.len();
    out.resize(start + zstd_safe::compress_bound(body.len()), 0);
    let written = zstd_safe::compress(&mut out[start..], body, level);
    let written = written.unwrap_or_else(|code| panic!("{}", zstd_safe::get_error_name(code)));
    out.truncate(start + written);
}
