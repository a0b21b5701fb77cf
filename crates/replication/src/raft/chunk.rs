//! The pieces in which a snapshot's files go from one replica to another, and how they are asked for.
//!
//! A request as bytes, little endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | 0 for the table of producers, 1 for a segment |
//! | 2 | 0 |
//! | 4 | number of the segment in the manifest |
//! | 4 | position |
//! | 4 | bytes at most |
//! | 4 x 8 | from, to, index and term of the snapshot |
//!
//! The answer is the bytes themselves.

use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_log::{Disk, LogError, SegmentPin};
use tailrace_types::ReplicaId;

use super::ballot::Point;
use super::wire::WireError;

const VERSION: u8 = 1;
const REQUEST_BYTES: usize = 16 + 4 * 8;

/// Most bytes of one chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

/// A piece of a snapshot that a replica asks another one for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRequest {
    pub(super) from: ReplicaId,
    pub(super) to: ReplicaId,
    pub(super) snapshot: Point,
    pub(super) part: Part,
    pub(super) position: u32,
    pub(super) bytes_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Producers,
    Segment(u32),
}

impl ChunkRequest {
    /// Who asks.
    pub fn from(&self) -> ReplicaId {
        self.from
    }

    /// Whom to ask.
    pub fn to(&self) -> ReplicaId {
        self.to
    }

    /// Appends it to `out`, as bytes. The format stands at the head of `chunk.rs`.
    pub fn encode(&self, out: &mut BytesMut) {
        let (part, number) = match self.part {
            Part::Producers => (0, 0),
            Part::Segment(number) => (1, number),
        };
        out.put_slice(&[VERSION, part, 0, 0]);
        out.put_u32_le(number);
        out.put_u32_le(self.position);
        out.put_u32_le(self.bytes_max);
        for value in [self.from.0, self.to.0, self.snapshot.index, self.snapshot.term] {
            out.put_u64_le(value);
        }
    }

    /// Reads a request, which must be all of `bytes`.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(mut bytes: Bytes) -> Result<Self, WireError> {
        if bytes.len() != REQUEST_BYTES {
            return Err(WireError::Length { bytes: bytes.len() });
        }
        let (version, part) = (bytes.get_u8(), bytes.get_u8());
        if version != VERSION {
            return Err(WireError::Version { found: version });
        }
        bytes.advance(2);
        let number = bytes.get_u32_le();
        let part = match part {
            0 => Part::Producers,
            1 => Part::Segment(number),
            found => return Err(WireError::Kind { what: "chunk request", found }),
        };
        Ok(Self {
            part,
            position: bytes.get_u32_le(),
            bytes_max: bytes.get_u32_le(),
            from: ReplicaId(bytes.get_u64_le()),
            to: ReplicaId(bytes.get_u64_le()),
            snapshot: Point { index: bytes.get_u64_le(), term: bytes.get_u64_le() },
        })
    }
}

/// What a snapshot that was offered is read from, also when its segments have left the log meanwhile.
pub(super) struct Source<D: Disk> {
    pub(super) producers: Bytes,
    pub(super) segments: Vec<SegmentPin<D>>,
}

/// Reads one chunk, without the replica.
pub struct ChunkReader<D: Disk> {
    pub(super) source: Arc<Source<D>>,
    pub(super) request: ChunkRequest,
}

impl<D: Disk> ChunkReader<D> {
    /// The chunk: as many bytes as were asked for, fewer at the end of a part, at most [`CHUNK_BYTES_MAX`]. Blocks on the disk.
    ///
    /// # Errors
    /// The disk's; [`LogError::Io`] with `NotFound` if there is no such part any more. The replica that asks is to be told that
    /// there is nothing, and will be offered a newer snapshot.
    pub fn read(&self) -> Result<Bytes, LogError> {
        let request = &self.request;
        let bytes_max = (request.bytes_max as usize).min(CHUNK_BYTES_MAX);
        let position = request.position as usize;
        match request.part {
            Part::Producers => {
                let producers = &self.source.producers;
                let start = position.min(producers.len());
                Ok(producers.slice(start..producers.len().min(start + bytes_max)))
            }
            Part::Segment(number) => match self.source.segments.get(number as usize) {
                Some(segment) => segment.read(request.position, bytes_max),
                None => {
                    let gone = std::io::ErrorKind::NotFound.into();
                    Err(LogError::io("find a segment of a snapshot in", std::path::Path::new("."), gone))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_and_nothing_else_is_one() {
        for part in [Part::Producers, Part::Segment(7)] {
            let (from, to) = (ReplicaId(3), ReplicaId(9));
            let snapshot = Point { index: 5, term: 6 };
            let request = ChunkRequest { from, to, snapshot, part, position: 11, bytes_max: 12 };
            let mut bytes = BytesMut::new();
            request.encode(&mut bytes);
            let bytes = bytes.freeze();
            assert_eq!(ChunkRequest::decode(bytes.clone()), Ok(request));
            for end in 0..bytes.len() {
                assert!(ChunkRequest::decode(bytes.slice(..end)).is_err(), "{end} bytes");
            }
            assert!(ChunkRequest::decode([&bytes[..], &[0]].concat().into()).is_err());
            for at in [0, 1] {
                let mut wrong = bytes.to_vec();
                wrong[at] = 9;
                assert!(ChunkRequest::decode(wrong.into()).is_err(), "byte {at}");
            }
        }
    }
}
