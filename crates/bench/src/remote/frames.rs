//! Frames: a length of four bytes, big endian, and that many bytes. No I/O. Lengths are not trusted.

use super::RemoteError;

/// Size of the length field.
const HEAD_BYTES: usize = 4;

/// Appends a frame.
///
/// # Errors
/// It is longer than `bytes_max`.
pub(super) fn push(out: &mut Vec<u8>, body: &[u8], bytes_max: usize) -> Result<(), RemoteError> {
    if body.len() > bytes_max {
        return Err(RemoteError::FrameTooLong { bytes: body.len() as u64, bytes_max });
    }
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    Ok(())
}

/// Bytes received that are not a complete frame yet. It grows with the bytes received, not with the announced
/// length.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    start: usize,
}

impl Incoming {
    /// Adds received bytes.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next frame, if it is complete.
    ///
    /// # Errors
    /// Its announced length exceeds `bytes_max`.
    pub(super) fn next(&mut self, bytes_max: usize) -> Result<Option<&[u8]>, RemoteError> {
        let Some((head, rest)) = self.bytes[self.start..].split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*head) as usize;
        if length > bytes_max {
            return Err(RemoteError::FrameTooLong { bytes: length as u64, bytes_max });
        }
        if rest.len() < length {
            return Ok(None);
        }
        let begin = self.start + HEAD_BYTES;
        self.start = begin + length;
        Ok(Some(&self.bytes[begin..begin + length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_any_pieces() {
        let mut out = Vec::new();
        let bodies: [&[u8]; 4] = [b"", b"a", &[7; 300], b"end"];
        bodies.iter().for_each(|body| push(&mut out, body, 300).unwrap());
        for piece in [1, 3, 7, 1000] {
            let (mut incoming, mut found) = (Incoming::default(), Vec::new());
            for bytes in out.chunks(piece) {
                incoming.extend(bytes);
                while let Some(frame) = incoming.next(300).unwrap() {
                    found.push(frame.to_vec());
                }
            }
            assert_eq!(found, bodies);
        }
    }

    #[test]
    fn a_bound_holds_both_ways() {
        assert!(push(&mut Vec::new(), &[0; 11], 10).is_err());
        let mut incoming = Incoming::default();
        incoming.extend(&[0xFF, 0xFF, 0xFF, 0xFF]);
        let words = incoming.next(1024).unwrap_err().to_string();
        assert!(words.contains("4294967295 bytes") && words.contains("1024"), "{words}");
    }
}
