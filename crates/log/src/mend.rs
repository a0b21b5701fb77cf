//! Putting a damaged segment together anew from the batches of another replica.
//!
//! What is put together becomes a segment of the next generation, and takes the place of the damaged one as compaction's work does:
//! by the checkpoint, in one step. The replicas need not have the same segments: whole batches are asked for, by offset.

use std::sync::Arc;

use tailrace_records::{HEADER_BYTES, check};
use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs};

use crate::compact::{Output, Rewritten, Unhurried};
use crate::disk::Disk;
use crate::error::LogError;
use crate::format::names::Kind;
use crate::log::Log;
use crate::reader::LogReader;
use crate::segment::Segment;

/// Bytes that are gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// What is to take the place of a damaged segment.
pub struct Patch<D: Disk> {
    reader: Arc<LogReader<D>>,
    source: Arc<Segment<D>>,
    output: Output<D>,
    /// Nothing was ever compacted: there are no holes.
    is_gapless: bool,
    /// Raft indexes within the segment that entries without records have taken, ascending.
    taken: Vec<RaftIndex>,
    next_index: RaftIndex,
    next_offset: Offset,
    last_epoch: LeaderEpoch,
    token: Arc<()>,
}

impl<D: Disk> Log<D> {
    /// Begins to put the segment at `base` together anew. It must take no more appends ([`Log::seal`]). `None` if there is no such
    /// segment, or compaction is under way.
    ///
    /// # Errors
    /// [`LogError::Poisoned`]; the disk's.
    pub fn begin_patch(&mut self, base: Offset) -> Result<Option<Patch<D>>, LogError> {
        self.check_writable()?;
        let list = self.reader.segments.load_full();
        let is_active = |segment: &Arc<Segment<D>>| {
            self.active.as_ref().is_some_and(|active| Arc::ptr_eq(active, segment))
        };
        let found = list.iter().find(|segment| segment.base_offset == base && !is_active(segment));
        let Some(source) = found.filter(|_| self.compaction.upgrade().is_none()).cloned() else {
            return Ok(None);
        };
        let reader = self.reader();
        let output = Output::create(&reader, std::slice::from_ref(&source), TimestampMs(i64::MIN))?;
        let token = Arc::new(());
        self.compaction = Arc::downgrade(&token);
        let first = source.first_raft_index;
        let taken = self.entries().iter().map(|entry| entry.raft_index).filter(|index| *index >= first);
        Ok(Some(Patch {
            is_gapless: reader.first_dirty() == Offset(0),
            taken: taken.collect(),
            next_index: first,
            next_offset: source.base_offset,
            last_epoch: LeaderEpoch::UNKNOWN,
            reader,
            source,
            output,
            token,
        }))
    }
}

impl<D: Disk> Patch<D> {
    /// The offset from which batches are wanted, and where they end. `None` when all are there.
    pub fn wanted(&self) -> Option<(Offset, Offset)> {
        let end = self.source.end_offset();
        (self.next_offset < end).then_some((self.next_offset, end))
    }

    /// Takes the next batches, whole ones. Each is checked.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if they are not what is wanted; the disk's. The patch is then of no use.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), LogError> {
        while !bytes.is_empty() {
            let bytes_left = bytes.len();
            let header =
                check(prefix(bytes).unwrap_or(bytes)).map_err(|error| self.refused(error.to_string()))?;
            let batch = bytes.get(..header.total_bytes()).filter(|batch| batch.len() >= HEADER_BYTES);
            let batch =
                batch.ok_or_else(|| self.refused(format!("{bytes_left} bytes are no whole batch")))?;
            let (base, epoch) = (header.base_offset, header.leader_epoch);
            let follows = if self.is_gapless { base == self.next_offset } else { base >= self.next_offset };
            if !follows || header.next_offset() > self.source.end_offset() {
                return Err(self.refused(format!("a batch at offset {base}, expected {}", self.next_offset)));
            }
            let known = self.reader.epoch_at(base).unwrap_or(epoch);
            if epoch != known || epoch < self.last_epoch {
                return Err(
                    self.refused(format!("a batch of epoch {epoch} at offset {base}, expected {known}"))
                );
            }
            self.pass_entries();
            self.output.pending.extend_from_slice(batch);
            self.output.push(&header, self.next_index, WRITE_BYTES, &mut Unhurried)?;
            self.next_index.0 += 1;
            (self.next_offset, self.last_epoch) = (header.next_offset(), epoch);
            bytes = &bytes[batch.len()..];
        }
        Ok(())
    }

    fn pass_entries(&mut self) {
        while self.taken.binary_search(&self.next_index).is_ok() {
            self.next_index.0 += 1;
        }
    }

    fn refused(&self, reason: String) -> LogError {
        LogError::damaged(&self.source.path(Kind::Log), 0, format!("what another replica has: {reason}"))
    }

    /// Syncs it. Put in place by [`Log::install_compacted`].
    ///
    /// # Errors
    /// The disk's.
    ///
    /// # Panics
    /// If batches are missing.
    pub fn finish(self) -> Result<Rewritten<D>, LogError> {
        assert!(self.wanted().is_none(), "a patch that is not whole");
        let sources = vec![self.source];
        let segment = self.output.finish(&sources, &mut Unhurried)?;
        Ok(Rewritten {
            reader: self.reader,
            sources,
            segment: Some(segment),
            first_dirty: None,
            removed_aborts: Vec::new(),
            _token: self.token,
        })
    }

    /// Removes what was written. What cannot be removed goes at the next start.
    pub fn discard(self) {
        self.output.abandon();
    }
}

/// The first batch among `bytes`, if its length is legal.
fn prefix(bytes: &[u8]) -> Option<&[u8]> {
    let raw = bytes.get(8..12)?;
    let length = i32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]);
    bytes.get(..usize::try_from(length).ok()? + 12)
}

impl<D: Disk> LogReader<D> {
    /// Whole batches from `from` on, all below `upto`, for another replica: those without records are among them, and each was checked.
    /// At most `bytes_max` bytes, but at least one batch. Empty if there is none. A damaged segment is out of service from then on.
    ///
    /// # Errors
    /// As [`LogReader::read`]; [`LogError::Damaged`] for a batch that is not what was written.
    pub fn read_checked(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
    ) -> Result<bytes::Bytes, LogError> {
        let list = self.segments.load_full();
        let number = crate::reader::segment_of(&list, from);
        for segment in list.iter().skip(number).take_while(|segment| segment.base_offset < upto) {
            segment.refuse_damaged()?;
            let found = self.checked_batches(segment, (from, upto), bytes_max);
            let found = crate::damage::note(self, segment, found)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(bytes::Bytes::new())
    }

    fn checked_batches(
        &self,
        segment: &Arc<Segment<D>>,
        (from, upto): (Offset, Offset),
        bytes_max: usize,
    ) -> Result<bytes::Bytes, LogError> {
        let files = segment.files(&self.store)?;
        let mut rows = crate::rows::Rows::new(segment, &files);
        let first = rows.first_where(|row| row.next_offset() > from)?;
        let mut out = Vec::new();
        for number in first..rows.count {
            let row = rows.get_ahead(number)?;
            let bytes = row.batch_bytes as usize;
            if row.next_offset() > upto || (!out.is_empty() && out.len() + bytes > bytes_max) {
                break;
            }
            let at = out.len();
            out.resize(at + bytes, 0);
            crate::indexed::read_batch(segment, &files, &row, &mut out[at..])?;
        }
        Ok(out.into())
    }
}
