//! The server's bytes in binary frames, compressed where that was agreed and where it helps.

use std::cell::RefCell;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::{COMPRESSED, CONTROL_BYTES_MAX, DEFLATE_END, FINAL, opcode};

/// Smaller payloads are sent as they are, as nats-server does.
const COMPRESSED_BYTES_MIN: usize = 64;

/// Longest header of a frame of ours.
const HEADER_BYTES_MAX: usize = 10;

thread_local! {
    /// No context outlives a message, so one compressor (about 300 KiB) serves every connection of a thread.
    static COMPRESSOR: RefCell<Option<Compress>> = const { RefCell::new(None) };
}

/// Appends one whole message with these bytes.
pub(super) fn message(out: &mut Vec<u8>, payload: &[u8], compression: bool) {
    if compression && payload.len() >= COMPRESSED_BYTES_MIN {
        let mut compressed = Vec::with_capacity(payload.len());
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

/// Appends the last frame. Without a status it is empty.
pub(super) fn close(out: &mut Vec<u8>, status: Option<u16>, reason: &str) {
    let mut payload = Vec::with_capacity(CONTROL_BYTES_MAX);
    if let Some(status) = status {
        payload.extend_from_slice(&status.to_be_bytes());
        // Our reasons are short ASCII texts.
        payload.extend(reason.bytes().take(CONTROL_BYTES_MAX - 2));
    }
    frame(out, FINAL | opcode::CLOSE, &payload);
}

fn frame(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    out.reserve(HEADER_BYTES_MAX + payload.len());
    out.push(first);
    match payload.len() {
        // A byte holds it.
        length @ 0..=125 => out.push(u8::try_from(length).unwrap_or(0)),
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

/// Compresses into `out`, which has room for as much as it is worth: false if it does not fit.
fn compress(payload: &[u8], out: &mut Vec<u8>) -> bool {
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = slot.get_or_insert_with(|| Compress::new(Compression::fast(), false));
        compressor.reset();
        let status = compressor.compress_vec(payload, out, FlushCompress::Sync);
        // With room left over, everything was written, up to the end that a receiver adds by itself.
        let is_whole = matches!(status, Ok(Status::Ok)) && out.len() < out.capacity();
        if is_whole && compressor.total_in() == payload.len() as u64 && out.ends_with(&DEFLATE_END) {
            out.truncate(out.len() - DEFLATE_END.len());
            return true;
        }
        false
    })
}
