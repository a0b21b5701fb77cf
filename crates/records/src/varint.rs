//! Zigzag varints, as in Kafka and Protocol Buffers, and a cursor over bytes.

use crate::RecordFault;

/// Reads forward through a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, RecordFault> {
        let byte = *self.bytes.get(self.at).ok_or(RecordFault::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], RecordFault> {
        let end = self.at.checked_add(count).ok_or(RecordFault::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(RecordFault::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    /// Reads a varint of at most 5 bytes. Drops bits beyond the 32nd, like Kafka.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<i32, RecordFault> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(unzigzag_32(u32::from(first)));
        }
        let mut value = u32::from(first & 0x7f);
        for shift in [7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(unzigzag_32(value));
            }
        }
        Err(RecordFault::Varint)
    }

    /// Reads a varint of at most 10 bytes. Drops bits beyond the 64th.
    #[inline]
    pub(crate) fn varlong(&mut self) -> Result<i64, RecordFault> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(RecordFault::Varint)
    }

    /// Reads bytes after their varint length. Any negative length means null, as in Kafka.
    #[inline]
    pub(crate) fn nullable(&mut self) -> Result<Option<&'a [u8]>, RecordFault> {
        let length = self.varint()?;
        if length < 0 { Ok(None) } else { self.take(length as usize).map(Some) }
    }
}

const fn unzigzag_32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

pub(crate) fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_unsigned(out, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

pub(crate) fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the bytes that a varint or varlong takes.
pub(crate) const fn varint_bytes(value: i64) -> usize {
    let zigzag = ((value << 1) ^ (value >> 63)) as u64;
    let bits = 64 - (zigzag | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1i64 << shift, -(1i64 << shift.min(62)), (1i64 << shift).wrapping_sub(1)] {
                let mut out = Vec::new();
                put_varlong(&mut out, value);
                assert_eq!(out.len(), varint_bytes(value));
                assert_eq!(Cursor::new(&out).varlong(), Ok(value));
                let small = value as i32;
                out.clear();
                put_varint(&mut out, small);
                assert_eq!(out.len(), varint_bytes(i64::from(small)));
                assert_eq!(Cursor::new(&out).varint(), Ok(small));
            }
        }
    }

    #[test]
    fn endless_and_cut_varints_are_refused() {
        assert_eq!(Cursor::new(&[0x80; 5]).varint(), Err(RecordFault::Varint));
        assert_eq!(Cursor::new(&[0x80; 4]).varint(), Err(RecordFault::Truncated));
        assert_eq!(Cursor::new(&[0x80; 10]).varlong(), Err(RecordFault::Varint));
        assert_eq!(Cursor::new(&[0x80; 9]).varlong(), Err(RecordFault::Truncated));
    }
}
