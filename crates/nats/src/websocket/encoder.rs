//! Encodes the server's bytes as binary frames, compressed if that was negotiated and saves space.

use std::cell::RefCell;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::{COMPRESSED, CONTROL_BYTES_MAX, DEFLATE_END, FINAL, opcode};

/// Smaller payloads are sent uncompressed, because without a context compression saves little. nats-server
/// compresses from 64 bytes on. But clients inflate outside their event loop, and nats.js then confuses the
/// order of an INFO and a closing frame right after it.
const COMPRESSED_BYTES_MIN: usize = 512;

/// Longest header of the server's frames.
const HEADER_BYTES_MAX: usize = 10;

thread_local! {
    /// Contexts do not outlive a message, so one compressor (about 300 KiB) serves all connections of a
    /// thread.
    static COMPRESSOR: RefCell<Option<Compress>> = const { RefCell::new(None) };
}

/// Appends a complete message with these bytes.
pub(super) fn message(out: &mut Vec<u8>, payload: &[u8], compression: bool) {
    if compression && payload.len() >= COMPRESSED_BYTES_MIN {
        let mut compressed = Vec::new();
        if compress(payload, &mut compressed) {
            frame(out, FINAL | COMPRESSED | opcode::BINARY, &compressed);
            return;
        }
    }
    frame(out, FINAL | opcode::BINARY, payload);
}

/// Appends the answer to a PING.
pub(super) fn pong(out: &mut Vec<u8>, payload: &[u8]) {
    frame(out, FINAL | opcode::PONG, payload);
}

/// Appends the closing frame. Without a status it is empty.
pub(super) fn close(out: &mut Vec<u8>, status: Option<u16>, reason: &str) {
    let mut payload = Vec::with_capacity(CONTROL_BYTES_MAX);
    if let Some(status) = status {
        payload.extend_from_slice(&status.to_be_bytes());
        // The server's reasons are short ASCII texts.
        payload.extend(reason.bytes().take(CONTROL_BYTES_MAX - 2));
    }
    frame(out, FINAL | opcode::CLOSE, &payload);
}

fn frame(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    out.reserve(HEADER_BYTES_MAX + payload.len());
    out.push(first);
    match payload.len() {
        // Fits into a byte.
        length @ 0..=125 => out.push(length as u8),
        length => match u16::try_from(length) {
            Ok(length) => {
                out.push(126);
                out.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                out.push(127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        },
    }
    out.extend_from_slice(payload);
}

/// Returns the largest output of the fastest level for incompressible bytes: nine bits for each, and a few
/// more.
fn bytes_at_most(payload: usize) -> usize {
    payload + payload / 4 + 128
}

/// Compresses into `out`, which is empty. Returns false if that is not worthwhile.
///
/// There is always room for the worst case. At its fastest level, zlib-rs 0.6 panics when a compressor is
/// reset that could not write all of its output (`buf.len() must fit in remaining()`). A compressor that does
/// not finish is dropped.
fn compress(payload: &[u8], out: &mut Vec<u8>) -> bool {
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = slot.get_or_insert_with(|| Compress::new(Compression::fast(), false));
        compressor.reset();
        out.reserve(bytes_at_most(payload.len()));
        let status = compressor.compress_vec(payload, out, FlushCompress::Sync);
        let is_whole = matches!(status, Ok(Status::Ok)) && out.len() < out.capacity();
        if !is_whole || compressor.total_in() != payload.len() as u64 || !out.ends_with(&DEFLATE_END) {
            *slot = None;
            return false;
        }
        // The receiver adds these last bytes itself.
        out.truncate(out.len() - DEFLATE_END.len());
        out.len() < payload.len()
    })
}

#[cfg(test)]
mod tests {
    use flate2::{Decompress, FlushDecompress};

    use super::*;

    #[test]
    fn what_was_compressed_comes_out_again_and_what_cannot_be_is_left_as_it_is() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u8::try_from(state >> 56).expect("a byte")
        };
        let (mut compressed, mut left) = (0, 0);
        for length in (64..40_000).step_by(1_237).cycle().take(300) {
            let letters = random() | 1;
            let payload: Vec<u8> =
                (0..length).map(|_| if letters > 200 { random() } else { random() % letters }).collect();
            let mut out = Vec::new();
            if !compress(&payload, &mut out) {
                left += 1;
                continue;
            }
            compressed += 1;
            out.extend_from_slice(&DEFLATE_END);
            let mut back = Vec::with_capacity(length + 1);
            Decompress::new(false).decompress_vec(&out, &mut back, FlushDecompress::Sync).unwrap();
            assert!(back == payload, "length {length}");
        }
        assert!(compressed > 50 && left > 50, "{compressed} {left}");
    }
}
