//! The payload of a message: its sender, its sequence, when it was due, and a checksum over everything.
//!
//! The payload is the same for every system, and each must return it unharmed. Layout, little endian:
//!
//! | bytes | |
//! |---|---|
//! | 0..4 | CRC-32C of all that follows |
//! | 4..6 | run: identifies messages of an earlier run |
//! | 6..8 | connection that sent it |
//! | 8..16 | sequence within the connection |
//! | 16..24 | due time, nanoseconds on the sender's clock |
//! | 24.. | incompressible filler |

use crate::schedule::Random;

/// The smallest payload: the fields without filler.
pub(crate) const PAYLOAD_BYTES_MIN: usize = 24;

/// The largest payload, 64 MiB.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// The fields of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Distinguishes runs.
    pub run: u16,
    /// The connection that sent it.
    pub connection: u16,
    /// The message's sequence on its connection, from 0.
    pub sequence: u64,
    /// When it was due, on the sender's clock.
    pub due_ns: u64,
}

/// A payload that arrived damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// A buffer to build one payload after another in.
#[derive(Clone, Debug)]
pub struct PayloadBuffer {
    bytes: Vec<u8>,
}

impl PayloadBuffer {
    /// Creates a buffer for payloads of `length` bytes, at least `PAYLOAD_BYTES_MIN`.
    pub fn new(length: usize) -> Self {
        let mut random = Random::new(0x7461_696c, 0);
        let mut bytes = vec![0; length.max(PAYLOAD_BYTES_MIN)];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
        }
        Self { bytes }
    }

    /// Builds the payload with these fields.
    pub fn fill(&mut self, header: Header) -> &[u8] {
        self.bytes[4..6].copy_from_slice(&header.run.to_le_bytes());
        self.bytes[6..8].copy_from_slice(&header.connection.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&header.sequence.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&header.due_ns.to_le_bytes());
        let checksum = crc32c::crc32c(&self.bytes[4..]);
        self.bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        &self.bytes
    }
}

/// Reads a payload.
///
/// # Errors
/// The length is not `expected_bytes`, or the checksum does not match.
pub(crate) fn verify(bytes: &[u8], expected_bytes: usize) -> Result<Header, Corrupt> {
    if bytes.len() != expected_bytes || bytes.len() < PAYLOAD_BYTES_MIN {
        return Err(Corrupt);
    }
    let (checksum, rest) = bytes.split_first_chunk::<4>().ok_or(Corrupt)?;
    if crc32c::crc32c(rest) != u32::from_le_bytes(*checksum) {
        return Err(Corrupt);
    }
    let number = |at: usize| {
        let mut field = [0; 8];
        field.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(field)
    };
    Ok(Header {
        run: u16::from_le_bytes([bytes[4], bytes[5]]),
        connection: u16::from_le_bytes([bytes[6], bytes[7]]),
        sequence: number(8),
        due_ns: number(16),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { run: 7, connection: 300, sequence: 1 << 40, due_ns: 123_456_789 };

    #[test]
    fn what_is_filled_is_read() {
        for length in [24, 25, 128, 1_000_000] {
            let mut buffer = PayloadBuffer::new(length);
            assert_eq!(verify(buffer.fill(HEADER), length), Ok(HEADER));
        }
    }

    #[test]
    fn every_damaged_bit_is_noticed() {
        let bytes = PayloadBuffer::new(64).fill(HEADER).to_vec();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verify(&damaged, 64), Err(Corrupt));
        }
        assert_eq!(verify(&bytes[..63], 64), Err(Corrupt));
        assert_eq!(verify(&bytes[..10], 10), Err(Corrupt));
    }
}
