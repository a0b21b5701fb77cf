//! Finds separators and bytes that need a closer look, sixteen bytes at a time.

use crate::Dialect;

/// Bytes examined together.
const BLOCK: usize = 16;

/// The padding after the end of a text: neither a separator nor unusual.
const PADDING: u64 = u64::from_ne_bytes([b'a'; 8]);

/// The bytes to look for.
#[derive(Clone, Copy)]
pub(crate) struct Scanner {
    separator: u8,
    /// Bytes up to this one are forbidden.
    forbidden_to: u8,
    /// Bytes that are wildcards in this dialect.
    wildcards: [u8; 2],
}

impl Scanner {
    #[inline]
    pub(crate) fn new(dialect: Dialect) -> Self {
        let (forbidden_to, wildcards) = match dialect {
            Dialect::Nats => (b' ', [0x7f; 2]),
            Dialect::Amqp => (0, [0; 2]),
            Dialect::Mqtt => (b' ' - 1, [dialect.one(), dialect.many()]),
        };
        Self { separator: dialect.separator(), forbidden_to, wildcards }
    }

    /// Calls `word` with the start and the end of each word, in order. The empty text has one empty word.
    /// Returns nonzero if a byte is not ASCII or may be forbidden.
    #[inline(always)]
    pub(crate) fn words(self, text: &[u8], mut word: impl FnMut(usize, usize)) -> u32 {
        let (mut suspicious, mut start, mut at) = (0, 0, 0);
        loop {
            let (mut ends, unusual) = self.scan(text, at);
            suspicious |= unusual;
            let left = text.len() - at;
            if left <= BLOCK {
                // The end of the text ends the last word.
                ends |= 1 << left;
            }
            while ends != 0 {
                let end = at + ends.trailing_zeros() as usize;
                ends &= ends - 1;
                word(start, end);
                start = end + 1;
            }
            if left <= BLOCK {
                return suspicious;
            }
            at += BLOCK;
        }
    }

    /// Examines the block of a text that starts at `at`. Returns the positions of separators as bits, and
    /// nonzero if a byte of the block is not ASCII or may be forbidden.
    #[inline]
    fn scan(self, text: &[u8], at: usize) -> (u32, u32) {
        let left = text.len() - at;
        if left >= BLOCK {
            self.look(eight(text, at), eight(text, at + 8))
        } else if let Some(behind) = text.len().checked_sub(BLOCK) {
            // The last sixteen bytes; those before the block are shifted out.
            let (separators, unusual) = self.look(eight(text, behind), eight(text, behind + 8));
            (separators >> (BLOCK - left), unusual)
        } else {
            self.look(padded(text, 0), padded(text, 8))
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn look(self, low: u64, high: u64) -> (u32, u32) {
        #[expect(
            unsafe_code,
            reason = "the compiler asks for it even where the target always has the feature"
        )]
        // SAFETY: every x86-64 processor has SSE2.
        unsafe {
            self.look_sse2(low, high)
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "sse2")]
    #[inline]
    fn look_sse2(self, low: u64, high: u64) -> (u32, u32) {
        use std::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
        };
        let all = |byte: u8| _mm_set1_epi8(byte.cast_signed());
        let bytes = _mm_set_epi64x(high.cast_signed(), low.cast_signed());
        let separators = _mm_cmpeq_epi8(bytes, all(self.separator));
        let forbidden = _mm_cmpeq_epi8(_mm_min_epu8(bytes, all(self.forbidden_to)), bytes);
        let [one, many] = self.wildcards.map(|wildcard| _mm_cmpeq_epi8(bytes, all(wildcard)));
        let delete = _mm_cmpeq_epi8(bytes, all(0x7f));
        // In a byte that is not ASCII the high bit is already set.
        let unusual =
            _mm_or_si128(_mm_or_si128(bytes, forbidden), _mm_or_si128(_mm_or_si128(one, many), delete));
        (_mm_movemask_epi8(separators).cast_unsigned(), _mm_movemask_epi8(unusual).cast_unsigned())
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn look(self, low: u64, high: u64) -> (u32, u32) {
        let mut bytes = [0; BLOCK];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&high.to_le_bytes());
        let bits = |of: &dyn Fn(u8) -> bool| {
            bytes.iter().enumerate().fold(0, |bits, (index, byte)| bits | u32::from(of(*byte)) << index)
        };
        let unusual = |byte: u8| byte >= 0x7f || byte <= self.forbidden_to || self.wildcards.contains(&byte);
        (bits(&|byte| byte == self.separator), bits(&unusual))
    }
}

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
pub(crate) fn eight(text: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&text[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// At most eight bytes as a number. Reads eight if the text has them.
#[inline]
pub(crate) fn short(text: &[u8], start: usize, length: usize) -> u64 {
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

/// Eight bytes of a text shorter than a block, with padding after its end.
#[inline]
fn padded(text: &[u8], at: usize) -> u64 {
    match text.len().saturating_sub(at) {
        0 => PADDING,
        length @ 1..8 => short(text, at, length) | PADDING << (8 * length),
        _ => eight(text, at),
    }
}
