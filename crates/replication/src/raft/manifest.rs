//! The manifest of a snapshot, which describes the log. The batches themselves are fetched in chunks.
//!
//! Integers are little endian.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | version: 1, or 2 if records are lost |
//! | 8 | log start |
//! | 8 | end offset: one past the last batch at or below the snapshot's index |
//! | 8 | first dirty offset: compaction has covered everything below |
//! | 8 | first index that the sender can send as an entry |
//! | 8 | offset of the table of producers |
//! | 4, 4 | bytes of the table of producers, 0 for none, and their CRC-32C |
//! | 4, 4 | number of epochs, number of segments |
//! | 12 each | epochs: epoch i32, first offset i64, ascending |
//! | 56 each | segments: base and end offset, first and next raft index, created, modified (8 bytes each), |
//! | | bytes, batches (4 bytes each) |
//! | 4 | in version 2, number of lost ranges |
//! | 16 each | in version 2, lost ranges of offsets: first, one past the last |

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tailrace_log::{SEGMENT_BYTES_MAX, SNAPSHOT_BYTES_MAX, SegmentInfo};
use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs};

const VERSION: u32 = 1;
/// In this version, the offsets whose records are lost follow the segments: first and one past the last, 8
/// bytes each.
const VERSION_WITH_LOST: u32 = 2;
const LOST_BYTES: usize = 16;
const FIXED_BYTES: usize = 4 + 5 * 8 + 4 * 4;
const EPOCH_BYTES: usize = 12;
const SEGMENT_BYTES: usize = 56;

/// The longest manifest in bytes: about 250,000 segments.
pub(super) const MANIFEST_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) log_start: Offset,
    pub(super) end_offset: Offset,
    pub(super) first_dirty: Offset,
    pub(super) first_index: u64,
    pub(super) producers_offset: Offset,
    pub(super) producers_bytes: u32,
    pub(super) producers_crc: u32,
    pub(super) epochs: Vec<(LeaderEpoch, Offset)>,
    pub(super) segments: Vec<SegmentInfo>,
    /// Offsets whose records are lost on every replica.
    pub(super) lost: Vec<(Offset, Offset)>,
}

impl Manifest {
    /// Encodes the manifest. `None` if it would be longer than [`MANIFEST_BYTES_MAX`].
    pub(super) fn encode(&self) -> Option<Bytes> {
        let lists = self.epochs.len() * EPOCH_BYTES
            + self.segments.len() * SEGMENT_BYTES
            + self.lost.len() * LOST_BYTES;
        if FIXED_BYTES + lists > MANIFEST_BYTES_MAX {
            return None;
        }
        let mut out = BytesMut::with_capacity(FIXED_BYTES + lists);
        out.put_u32_le(if self.lost.is_empty() { VERSION } else { VERSION_WITH_LOST });
        out.put_i64_le(self.log_start.0);
        out.put_i64_le(self.end_offset.0);
        out.put_i64_le(self.first_dirty.0);
        out.put_u64_le(self.first_index);
        out.put_i64_le(self.producers_offset.0);
        out.put_u32_le(self.producers_bytes);
        out.put_u32_le(self.producers_crc);
        out.put_u32_le(u32::try_from(self.epochs.len()).ok()?);
        out.put_u32_le(u32::try_from(self.segments.len()).ok()?);
        for (epoch, start) in &self.epochs {
            out.put_i32_le(epoch.0);
            out.put_i64_le(start.0);
        }
        for segment in &self.segments {
            out.put_i64_le(segment.base_offset.0);
            out.put_i64_le(segment.end_offset.0);
            out.put_u64_le(segment.first_raft_index.0);
            out.put_u64_le(segment.next_raft_index.0);
            out.put_i64_le(segment.created.0);
            out.put_i64_le(segment.modified.0);
            out.put_u32_le(segment.bytes);
            out.put_u32_le(segment.rows);
        }
        if !self.lost.is_empty() {
            out.put_u32_le(u32::try_from(self.lost.len()).ok()?);
        }
        for (from, upto) in &self.lost {
            out.put_i64_le(from.0);
            out.put_i64_le(upto.0);
        }
        Some(out.freeze())
    }

    /// Decodes the manifest of a snapshot at `index`. `None` if it is truncated, of another version, or
    /// contradicts itself.
    pub(super) fn decode(mut bytes: Bytes, index: u64) -> Option<Self> {
        if bytes.len() < FIXED_BYTES || bytes.len() > MANIFEST_BYTES_MAX {
            return None;
        }
        let version = bytes.get_u32_le();
        if !(VERSION..=VERSION_WITH_LOST).contains(&version) {
            return None;
        }
        let mut manifest = Self {
            log_start: Offset(bytes.get_i64_le()),
            end_offset: Offset(bytes.get_i64_le()),
            first_dirty: Offset(bytes.get_i64_le()),
            first_index: bytes.get_u64_le(),
            producers_offset: Offset(bytes.get_i64_le()),
            producers_bytes: bytes.get_u32_le(),
            producers_crc: bytes.get_u32_le(),
            ..Self::default()
        };
        let (epochs, segments) = (bytes.get_u32_le() as usize, bytes.get_u32_le() as usize);
        let lists = epochs as u128 * EPOCH_BYTES as u128 + segments as u128 * SEGMENT_BYTES as u128;
        let lost_bytes = usize::try_from((bytes.len() as u128).checked_sub(lists)?).ok()?;
        if (version == VERSION && lost_bytes > 0)
            || (version == VERSION_WITH_LOST && lost_bytes < 4 + LOST_BYTES)
        {
            return None;
        }
        for _ in 0..epochs {
            manifest.epochs.push((LeaderEpoch(bytes.get_i32_le()), Offset(bytes.get_i64_le())));
        }
        for _ in 0..segments {
            manifest.segments.push(segment(&mut bytes));
        }
        let lost = if version == VERSION_WITH_LOST { bytes.get_u32_le() as usize } else { 0 };
        if bytes.len() as u128 != lost as u128 * LOST_BYTES as u128 {
            return None;
        }
        for _ in 0..lost {
            manifest.lost.push((Offset(bytes.get_i64_le()), Offset(bytes.get_i64_le())));
        }
        manifest.is_sound(index).then_some(manifest)
    }

    /// True if it does not contradict itself.
    fn is_sound(&self, index: u64) -> bool {
        let (start, end) = (self.log_start, self.end_offset);
        let offsets = start.0 >= 0 && start <= end && (0..=end.0).contains(&self.first_dirty.0);
        let producers = self.producers_bytes as usize <= SNAPSHOT_BYTES_MAX
            && (0..=end.0).contains(&self.producers_offset.0);
        let epochs = self.epochs.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1)
            && self.epochs.iter().all(|(epoch, first)| epoch.0 >= 0 && (0..=end.0).contains(&first.0));
        let follows = |a: &SegmentInfo, b: &SegmentInfo| {
            a.end_offset <= b.base_offset && a.next_raft_index <= b.first_raft_index
        };
        let segments = self.segments.is_sorted_by(follows) && self.segments.iter().all(is_segment);
        let last = match self.segments.last() {
            Some(last) => last.end_offset == end && last.next_raft_index.0 <= index.saturating_add(1),
            None => start == end,
        };
        let first = self.segments.first().is_none_or(|first| first.base_offset <= end);
        offsets
            && producers
            && epochs
            && segments
            && last
            && first
            && self.lost.iter().all(|(from, upto)| from.0 >= 0 && from < upto && *upto <= end)
            && self.first_index <= index.saturating_add(1)
    }

    /// Total bytes to fetch.
    pub(super) fn bytes(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| u64::from(segment.bytes)).sum();
        segments + u64::from(self.producers_bytes)
    }
}

fn is_segment(segment: &SegmentInfo) -> bool {
    let (first, next) = (segment.first_raft_index.0, segment.next_raft_index.0);
    segment.base_offset.0 >= 0
        && segment.base_offset < segment.end_offset
        && first > 0
        && u64::from(segment.rows) <= next.saturating_sub(first)
        && segment.rows > 0
        && (1..=SEGMENT_BYTES_MAX).contains(&u64::from(segment.bytes))
}

fn segment(bytes: &mut Bytes) -> SegmentInfo {
    SegmentInfo {
        base_offset: Offset(bytes.get_i64_le()),
        end_offset: Offset(bytes.get_i64_le()),
        first_raft_index: RaftIndex(bytes.get_u64_le()),
        next_raft_index: RaftIndex(bytes.get_u64_le()),
        created: TimestampMs(bytes.get_i64_le()),
        modified: TimestampMs(bytes.get_i64_le()),
        bytes: bytes.get_u32_le(),
        rows: bytes.get_u32_le(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest() -> Manifest {
        let segment = |base: i64, index: u64| SegmentInfo {
            base_offset: Offset(base),
            end_offset: Offset(base + 10),
            first_raft_index: RaftIndex(index),
            next_raft_index: RaftIndex(index + 10),
            created: TimestampMs(1),
            modified: TimestampMs(2),
            bytes: 1000,
            rows: 7,
        };
        Manifest {
            log_start: Offset(15),
            end_offset: Offset(30),
            first_dirty: Offset(20),
            first_index: 22,
            producers_offset: Offset(25),
            producers_bytes: 77,
            producers_crc: 78,
            epochs: vec![(LeaderEpoch(2), Offset(15)), (LeaderEpoch(4), Offset(30))],
            segments: vec![segment(10, 11), segment(20, 23)],
            lost: Vec::new(),
        }
    }

    #[test]
    fn one_with_lost_records_comes_back_and_no_part_of_it_does() {
        let manifest =
            Manifest { lost: vec![(Offset(16), Offset(18)), (Offset(21), Offset(22))], ..manifest() };
        let bytes = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(bytes.clone(), 32), Some(manifest.clone()));
        for end in 0..bytes.len() {
            assert_eq!(Manifest::decode(bytes.slice(..end), 32), None, "{end} bytes");
        }
        let beyond = Manifest { lost: vec![(Offset(29), Offset(31))], ..manifest };
        assert_eq!(Manifest::decode(beyond.encode().unwrap(), 32), None);
    }

    #[test]
    fn a_manifest_comes_back_and_no_part_of_it_does() {
        let bytes = manifest().encode().unwrap();
        assert_eq!(Manifest::decode(bytes.clone(), 32), Some(manifest()));
        for end in 0..bytes.len() {
            assert_eq!(Manifest::decode(bytes.slice(..end), 32), None, "{end} bytes");
        }
        assert_eq!(Manifest::decode([&bytes[..], &[0]].concat().into(), 32), None);
    }

    #[test]
    fn one_that_contradicts_itself_is_refused() {
        let changes: [fn(&mut Manifest); 11] = [
            |m| m.log_start = Offset(31),
            |m| m.first_dirty = Offset(31),
            |m| m.producers_offset = Offset(-1),
            |m| m.producers_bytes = u32::MAX,
            |m| m.epochs.swap(0, 1),
            |m| m.segments.swap(0, 1),
            |m| m.segments[1].end_offset = Offset(31),
            |m| m.segments[0].rows = 11,
            |m| m.segments[1].next_raft_index = RaftIndex(22),
            |m| m.segments[0].bytes = 0,
            |m| m.first_index = 34,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut changed = manifest();
            change(&mut changed);
            assert_eq!(Manifest::decode(changed.encode().unwrap(), 32), None, "change {number}");
        }
        assert_eq!(Manifest::decode(manifest().encode().unwrap(), 31), None, "beyond its index");
        assert!(Manifest::decode(manifest().encode().unwrap(), u64::MAX).is_some());
    }

    /// The positions of the 8-byte numbers in the bytes of [`manifest`].
    fn places() -> Vec<usize> {
        let epochs = (0..2).map(|n| FIXED_BYTES + n * EPOCH_BYTES + 4);
        let segments = (0..2).map(|n| FIXED_BYTES + 2 * EPOCH_BYTES + n * SEGMENT_BYTES);
        let of_segment = |at: usize| (0..SEGMENT_BYTES / 8).map(move |n| at + n * 8);
        (0..5).map(|n| 4 + n * 8).chain(epochs).chain(segments.flat_map(of_segment)).collect()
    }

    /// A number that is near a bound about half of the time.
    fn number() -> impl Strategy<Value = u64> {
        let bound = prop::sample::select(vec![0, 31, i64::MAX as u64, u64::MAX]);
        prop_oneof![(bound, 0..3_u64).prop_map(|(bound, n)| bound.wrapping_add(n)), 0..40_u64, any::<u64>()]
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(first) = bytes.get_mut(..4) {
                first.copy_from_slice(&VERSION.to_le_bytes());
            }
            let _ = Manifest::decode(bytes.into(), u64::MAX);
        }

        #[test]
        fn any_numbers_are_read_or_refused(
            changes in prop::collection::vec((prop::sample::select(places()), number()), 1..4),
            index in number(),
        ) {
            let mut bytes = manifest().encode().unwrap().to_vec();
            for (at, number) in changes {
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            if let Some(read) = Manifest::decode(bytes.clone().into(), index) {
                prop_assert_eq!(read.encode().unwrap(), bytes);
            }
        }
    }
}
