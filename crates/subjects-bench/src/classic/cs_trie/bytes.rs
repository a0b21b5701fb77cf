//! The bytes of a short word as a number.

/// Masks for the low bytes of a number, by their number.
const MASKS: [u64; 9] = {
    let mut masks = [u64::MAX; 9];
    let mut length = 0;
    while length < 8 {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

/// Eight bytes of a text as a number.
#[inline]
fn eight(text: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&text[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// At most eight bytes as a number. Reads eight if the text has them.
#[inline]
pub(super) fn short(text: &[u8], start: usize, length: usize) -> u64 {
    let mask = MASKS[length];
    if start + 8 <= text.len() {
        eight(text, start) & mask
    } else if text.len() >= 8 {
        let past = start + 8 - text.len();
        (eight(text, text.len() - 8) >> (8 * past as u32).min(63)) & mask
    } else {
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(&text[start..start + length]);
        u64::from_le_bytes(bytes)
    }
}
