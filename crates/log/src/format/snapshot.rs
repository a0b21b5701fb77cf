//! `NNN.snapshot`: producer state, opaque here.

use bytes::Bytes;
use tailrace_types::Offset;

use super::bytes::{Writer, i64_at, u32_at};
use super::{FormatError, check_lead, told_from_newer};

const MAGIC: &[u8; 8] = b"TRPRODS\n";
pub(crate) const HEAD_BYTES: usize = 32;
/// Most bytes of a whole file.
pub(crate) const FILE_BYTES_MAX: u64 = (crate::config::SNAPSHOT_BYTES_MAX + HEAD_BYTES) as u64;

/// The head; the payload follows it in the file.
pub(crate) fn encode_head(offset: Offset, payload: &[u8]) -> Vec<u8> {
    Writer::with_lead(MAGIC, HEAD_BYTES)
        .u32(payload.len() as u32)
        .i64(offset.0)
        .u32(crc32c::crc32c(payload))
        .sealed()
}

fn check_head(head: &[u8]) -> Result<(), FormatError> {
    check_lead(head, MAGIC)?;
    if head.len() < HEAD_BYTES || u32_at(head, 28) != crc32c::crc32c(&head[..28]) {
        return Err(FormatError::damaged(28, "wrong checksum of the head"));
    }
    Ok(())
}

/// The payload of a whole file.
pub(crate) fn decode(file: Bytes, offset: Offset) -> Result<Bytes, FormatError> {
    told_from_newer(&file[..file.len().min(HEAD_BYTES)], check_head)?;
    let (bytes, found) = (u32_at(&file, 12) as usize, i64_at(&file, 16));
    if found != offset.0 || file.len() != HEAD_BYTES + bytes {
        return Err(FormatError::damaged(12, format!("head names offset {found} and {bytes} bytes")));
    }
    let payload_crc = u32_at(&file, 24);
    let payload = file.slice(HEAD_BYTES..);
    if payload_crc != crc32c::crc32c(&payload) {
        return Err(FormatError::damaged(24, "wrong checksum of the payload"));
    }
    Ok(payload)
}
