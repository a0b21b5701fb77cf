//! The chunks in which one replica fetches a snapshot's files from another, and the requests for them.
//!
//! A request, in little endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | 0 for the table of producers, 1 for a segment, 2 for batches from one offset up to another |
//! | 2 | 0 |
//! | 4 | number of the segment in the manifest |
//! | 4 | position |
//! | 4 | bytes at most |
//! | 4 x 8 | from, to, index and term of the snapshot, or for batches: from, to, first offset, end offset |
//!
//! The response is the bytes themselves. A response with batches starts with the first dirty offset and the
//! log start (8 bytes each). A first dirty offset of -1 means that the batch is damaged there too. A
//! responder that is damaged anywhere inverts all bits of the log start.

use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_log::{Disk, LogError, LogReader, SegmentPin};
use tailrace_records::write_hole;
use tailrace_types::{Offset, ReplicaId};

use super::ballot::Point;
use super::wire::WireError;

const VERSION: u8 = 1;
const REQUEST_BYTES: usize = 16 + 4 * 8;

/// The most bytes of one chunk.
pub(crate) const CHUNK_BYTES_MAX: usize = 1 << 20;

/// A request of one replica to another for a chunk of a snapshot.
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
    /// Committed batches, for a damaged segment.
    Range {
        from: Offset,
        upto: Offset,
    },
}

impl ChunkRequest {
    /// The replica that asks.
    pub fn from(&self) -> ReplicaId {
        self.from
    }

    /// The most bytes of the response.
    pub fn bytes_max(&self) -> usize {
        (self.bytes_max as usize).min(CHUNK_BYTES_MAX)
    }

    /// The replica that is asked.
    pub fn to(&self) -> ReplicaId {
        self.to
    }

    /// Appends the encoded request to `out`. The head of `chunk.rs` describes the format.
    pub fn encode(&self, out: &mut BytesMut) {
        let (part, number) = match self.part {
            Part::Producers => (0, 0),
            Part::Segment(number) => (1, number),
            Part::Range { .. } => (2, 0),
        };
        out.put_slice(&[VERSION, part, 0, 0]);
        out.put_u32_le(number);
        out.put_u32_le(self.position);
        out.put_u32_le(self.bytes_max);
        let (first, second) = match self.part {
            Part::Range { from, upto } => (from.0.cast_unsigned(), upto.0.cast_unsigned()),
            Part::Producers | Part::Segment(_) => (self.snapshot.index, self.snapshot.term),
        };
        for value in [self.from.0, self.to.0, first, second] {
            out.put_u64_le(value);
        }
    }

    /// Decodes a request, which must take up all of `bytes`.
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
        let (position, bytes_max) = (bytes.get_u32_le(), bytes.get_u32_le());
        let (from, to) = (ReplicaId(bytes.get_u64_le()), ReplicaId(bytes.get_u64_le()));
        let (first, second) = (bytes.get_u64_le(), bytes.get_u64_le());
        let point = Point { index: first, term: second };
        let (part, snapshot) = match part {
            0 => (Part::Producers, point),
            1 => (Part::Segment(number), point),
            2 => {
                let [from, upto] = [first, second].map(|offset| Offset(offset.cast_signed()));
                if upto <= from {
                    return Err(WireError::Kind { what: "range of a chunk request", found: 2 });
                }
                (Part::Range { from, upto }, Point::default())
            }
            found => return Err(WireError::Kind { what: "chunk request", found }),
        };
        Ok(Self { from, to, snapshot, part, position, bytes_max })
    }
}

/// The files of a snapshot that was offered. They stay readable after their segments have left the log.
pub(super) struct Source<D: Disk> {
    pub(super) producers: Bytes,
    pub(super) segments: Vec<SegmentPin<D>>,
}

/// The response to a request for batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RangeAnswer {
    /// Compaction has covered everything below.
    pub(super) first_dirty: Offset,
    pub(super) log_start: Offset,
    pub(super) batches: Bytes,
    /// Set if the responder lacks the first of the requested batches too. The inner offset is the end of the
    /// missing part, which older builds do not send.
    pub(super) lacks: Option<Option<Offset>>,
    /// True if the responder lacks something itself.
    pub(super) is_damaged: bool,
}

/// Sent instead of the first dirty offset if the batches are damaged here as well.
const LACKS: i64 = -1;

impl RangeAnswer {
    fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(16 + self.batches.len());
        out.put_i64_le(if self.lacks.is_some() { LACKS } else { self.first_dirty.0 });
        // Negative if this replica is damaged itself. Earlier builds take that for a low log start.
        out.put_i64_le(if self.is_damaged { !self.log_start.0 } else { self.log_start.0 });
        match self.lacks {
            // Earlier builds read nothing after these two fields.
            Some(upto) => upto.into_iter().for_each(|upto| out.put_i64_le(upto.0)),
            None => out.put_slice(&self.batches),
        }
        out.freeze()
    }

    pub(super) fn decode(mut bytes: Bytes) -> Option<Self> {
        if bytes.len() < 16 {
            return None;
        }
        let (first_dirty, log_start) = (bytes.get_i64_le(), bytes.get_i64_le());
        let upto = (bytes.len() == 8).then(|| Offset(bytes.clone().get_i64_le()));
        let lacks = (first_dirty == LACKS).then_some(upto);
        Some(Self {
            first_dirty: Offset(first_dirty),
            log_start: Offset(if log_start < 0 { !log_start } else { log_start }),
            batches: if lacks.is_some() { Bytes::new() } else { bytes },
            lacks,
            is_damaged: log_start < 0,
        })
    }
}

/// Reads one chunk without holding the replica.
pub struct ChunkReader<D: Disk> {
    pub(super) origin: Origin<D>,
    pub(super) request: ChunkRequest,
}

/// The origin of a chunk.
pub(super) enum Origin<D: Disk> {
    Snapshot(Arc<Source<D>>),
    /// The log, up to what is committed.
    Log(Arc<LogReader<D>>, Offset),
}

impl<D: Disk> ChunkReader<D> {
    /// Returns the chunk: the requested number of bytes, fewer at the end of a part, and at most
    /// `CHUNK_BYTES_MAX`. Blocks on the disk.
    ///
    /// # Errors
    /// The disk's errors. [`LogError::Io`] with `NotFound` if the part no longer exists. Tell the requesting
    /// replica that there is nothing, and it will get an offer of a newer snapshot. [`LogError::Damaged`] if
    /// this replica's copy is damaged.
    pub fn read(&self) -> Result<Bytes, LogError> {
        match &self.origin {
            Origin::Snapshot(source) => self.read_snapshot(source),
            Origin::Log(log, committed) => self.read_log(log, *committed),
        }
    }

    fn read_log(&self, log: &LogReader<D>, committed: Offset) -> Result<Bytes, LogError> {
        let Part::Range { from, upto } = self.request.part else { return Err(gone()) };
        let bytes_max = self.request.bytes_max();
        // Read before the batches, so that compaction in between is not included.
        let (first_dirty, log_start) = (log.first_dirty(), log.log_start());
        let is_damaged = log.has_wrong();
        let mut batches = match log.read_checked(from, upto.min(committed), bytes_max) {
            Ok(batches) => batches,
            Err(LogError::Damaged { .. }) => {
                let damaged = log.damaged().into_iter().find(|range| range.end_offset > from);
                let lacks = Some(damaged.map(|range| range.end_offset));
                let batches = Bytes::new();
                return Ok(RangeAnswer { first_dirty, log_start, batches, lacks, is_damaged: true }.encode());
            }
            Err(error) => return Err(error),
        };
        if batches.is_empty() && upto <= committed && log.is_hole(from, upto)? {
            // Compaction has removed the batches here. A batch without records stands for them.
            let epoch = log.epoch_at(from).ok_or_else(gone)?;
            let mut empty = Vec::new();
            write_hole(from, Offset(upto.0 - 1), epoch, &mut empty);
            batches = empty.into();
        }
        if log.first_dirty() != first_dirty {
            return Err(gone());
        }
        Ok(RangeAnswer { first_dirty, log_start, batches, lacks: None, is_damaged }.encode())
    }

    fn read_snapshot(&self, source: &Source<D>) -> Result<Bytes, LogError> {
        let request = &self.request;
        let bytes_max = request.bytes_max();
        let position = request.position as usize;
        match request.part {
            Part::Producers => {
                let producers = &source.producers;
                let start = position.min(producers.len());
                Ok(producers.slice(start..producers.len().min(start + bytes_max)))
            }
            Part::Segment(number) => match source.segments.get(number as usize) {
                Some(segment) => segment.read(request.position, bytes_max),
                None => Err(gone()),
            },
            Part::Range { .. } => Err(gone()),
        }
    }
}

fn gone() -> LogError {
    let gone = std::io::ErrorKind::NotFound.into();
    LogError::io("find a segment of a snapshot in", std::path::Path::new("."), gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_and_nothing_else_is_one() {
        let range = Part::Range { from: Offset(4), upto: Offset(8) };
        for part in [Part::Producers, Part::Segment(7), range] {
            let (from, to) = (ReplicaId(3), ReplicaId(9));
            let snapshot = if part == range { Point::default() } else { Point { index: 5, term: 6 } };
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
