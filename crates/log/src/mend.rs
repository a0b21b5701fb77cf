//! Rebuilds a damaged segment from what this replica has intact and from another replica's copy of the rest.
//!
//! The result is a segment of the next generation. It replaces the damaged one as the output of compaction
//! does: through the checkpoint, in one step. The replicas need not have the same segments, because whole
//! batches are requested by offset.

use std::path::PathBuf;
use std::sync::Arc;

use tailrace_records::{BatchHeader, HEADER_BYTES, check, is_hole, write_hole, write_lost};
use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs};

use crate::compact::{Output, Rewritten, Unhurried};
use crate::damage::DamagedRange;
use crate::disk::Disk;
use crate::error::LogError;
use crate::format::names::Kind;
use crate::format::row::Row;
use crate::log::Log;
use crate::reader::LogReader;
use crate::rows::Rows;
use crate::segment::Segment;

/// Bytes per write.
const WRITE_BYTES: usize = 256 << 10;

/// Records that are lost for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The offsets of the records.
    pub range: DamagedRange,
    /// The file with the bytes that were there, if there were any to keep.
    pub kept: Option<PathBuf>,
}

/// The replacement of a damaged segment.
pub struct Patch<D: Disk> {
    reader: Arc<LogReader<D>>,
    source: Arc<Segment<D>>,
    output: Output<D>,
    /// True if the segment was never compacted, so that there are no holes.
    is_gapless: bool,
    /// Raft indexes within the segment that belong to entries without records, ascending.
    taken: Vec<RaftIndex>,
    next_index: RaftIndex,
    /// Raft index of the segment's last batch.
    last_index: RaftIndex,
    next_offset: Offset,
    last_epoch: LeaderEpoch,
    /// Offsets of its markers so far.
    markers: Vec<Offset>,
    token: Arc<()>,
}

impl<D: Disk> Log<D> {
    /// Starts to rebuild the segment at `base`, which must take no more appends ([`Log::seal`]). `None` if
    /// there is no such segment, or if compaction is under way.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] and the disk's errors.
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
        let taken: Vec<_> =
            self.entries().iter().map(|entry| entry.raft_index).filter(|index| *index >= first).collect();
        let next = list.iter().find(|segment| segment.base_offset > base);
        let mut last_index =
            next.map_or(self.next_raft_index, |next| next.first_raft_index).0.saturating_sub(1);
        while taken.binary_search(&RaftIndex(last_index)).is_ok() {
            last_index -= 1;
        }
        Ok(Some(Patch {
            // The first dirty offset is unknown if the checkpoint was lost.
            is_gapless: reader.first_dirty() == Offset(0) && source.generation == 0,
            taken,
            next_index: first,
            last_index: RaftIndex(last_index),
            next_offset: source.base_offset,
            last_epoch: LeaderEpoch::UNKNOWN,
            markers: Vec::new(),
            reader,
            source,
            output,
            token,
        }))
    }

    /// Makes the next append start a new segment, so that the segment at `base` takes no more. Does nothing
    /// if it takes none anyway.
    pub fn seal(&mut self, base: Offset) {
        if self.active.as_ref().is_some_and(|active| active.base_offset == base && active.rows() > 0) {
            self.give_back_reserved();
            self.active.take().iter().for_each(|active| active.close_for_good());
        }
    }
}

impl<D: Disk> Patch<D> {
    /// Base offset of the segment.
    pub fn base_offset(&self) -> Offset {
        self.source.base_offset
    }

    /// Returns the range of offsets that is wanted from other replicas. `None` if this replica has the next
    /// batch itself ([`Patch::copy_own`]), or if the patch is complete.
    pub fn wanted(&self) -> Option<(Offset, Offset)> {
        self.wanted_range().map(|range| (range.base_offset, range.end_offset))
    }

    /// Like [`Patch::wanted`], with what is known about the damage.
    pub fn wanted_range(&self) -> Option<DamagedRange> {
        let end = self.source.end_offset();
        let range = self.reader.damage.within(self.next_offset, end)?;
        (range.base_offset <= self.next_offset).then(|| DamagedRange {
            base_offset: self.next_offset,
            end_offset: range.end_offset.min(end),
            ..range
        })
    }

    /// Returns where the first wanted batch ends, as far as the index tells. Otherwise returns the end of the
    /// wanted range.
    pub fn wanted_batch_end(&self) -> Option<Offset> {
        let (from, end) = self.wanted()?;
        let row = self.row_from(from).ok().flatten().filter(|row| row.base_offset < end);
        Some(row.map_or(end, |row| row.next_offset().min(end)))
    }

    /// True once nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.next_offset >= self.source.end_offset()
    }

    /// Copies this replica's own batches up to the next damaged one: about `bytes_max` bytes, and at least
    /// one batch. Returns true if there is more to copy. A batch that turns out to be damaged becomes wanted.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// The disk's errors. [`LogError::Damaged`] for an index row with a wrong checksum. The patch is useless
    /// then.
    pub fn copy_own(&mut self, bytes_max: usize) -> Result<bool, LogError> {
        let mut copied = 0;
        while !self.is_whole() && self.wanted().is_none() {
            if copied >= bytes_max {
                return Ok(true);
            }
            let Some(row) = self.row_from(self.next_offset)? else {
                return Err(self.refused(format!("nothing at offset {} or beyond", self.next_offset)));
            };
            if self.reader.damage.within(row.base_offset, row.next_offset()).is_some() {
                // After a hole that compaction has left.
                self.next_offset = row.base_offset;
                continue;
            }
            let files = self.reader.files(&self.source)?;
            let mut bytes = vec![0; row.batch_bytes as usize];
            let read = crate::batches::read_batch(&self.source, &files, &row, &mut bytes);
            if let Err(error) = read {
                if !self.reader.condemn_batch(&row, &error) {
                    return Err(error);
                }
                continue;
            }
            copied += bytes.len();
            let header = check(&bytes).map_err(|error| self.refused(error.to_string()))?;
            self.take(&header, &bytes, Some(row.raft_index))?;
        }
        Ok(false)
    }

    /// Takes the next whole batches of another replica, and checks each.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if they are not the wanted ones. The disk's errors. The patch is useless then.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), LogError> {
        while !bytes.is_empty() {
            let bytes_left = bytes.len();
            let header =
                check(prefix(bytes).unwrap_or(bytes)).map_err(|error| self.refused(error.to_string()))?;
            let batch = bytes.get(..header.total_bytes()).filter(|batch| batch.len() >= HEADER_BYTES);
            let batch =
                batch.ok_or_else(|| self.refused(format!("{bytes_left} bytes are not a whole batch")))?;
            let Some((_, end)) = self.wanted() else {
                return Err(self.refused("more than was asked for".to_owned()));
            };
            if header.next_offset() > end {
                let last = header.last_offset();
                return Err(self.refused(format!("a batch up to offset {last}, expected less than {end}")));
            }
            // Without rows, or without the `.log` that is read along with them, the indexes are counted.
            let own = self.row_from(header.base_offset).ok().flatten();
            let own = own.filter(|row| row.base_offset == header.base_offset);
            if own.is_none() && is_hole(&header) && self.may_end_in_hole(header.next_offset()) {
                self.next_offset = header.next_offset();
            } else {
                self.take(&header, batch, own.map(|row| row.raft_index))?;
            }
            bytes = &bytes[batch.len()..];
        }
        Ok(())
    }

    /// True if there may be a hole up to `upto`, as compaction leaves them. A batch without records would
    /// need a raft index, and there may be none between those of its neighbours. At the end of a segment such
    /// a batch is needed anyway.
    fn may_end_in_hole(&self, upto: Offset) -> bool {
        !self.is_gapless && upto < self.source.end_offset()
    }

    /// True if the first of `batches` can be taken: it passes the check and belongs to the wanted range.
    pub(crate) fn fits(&self, batches: &[u8]) -> bool {
        let Some((from, end)) = self.wanted() else { return false };
        check(prefix(batches).unwrap_or(batches)).is_ok_and(|header| {
            let follows =
                if self.is_gapless { header.base_offset == from } else { header.base_offset >= from };
            follows && header.next_offset() <= end
        })
    }

    /// Records that a compacted copy has nothing left in the wanted range. It becomes a hole here too, or a
    /// batch without records.
    ///
    /// # Errors
    /// The disk's errors.
    pub fn push_hole(&mut self) -> Result<(), LogError> {
        match self.wanted() {
            Some((_, end)) if self.may_end_in_hole(end) => {
                self.next_offset = end;
                Ok(())
            }
            Some((_, end)) => self.push_empty(end, write_hole),
            None => Ok(()),
        }
    }

    /// Puts batches without records in place of the wanted ones below `upto`.
    fn push_empty(
        &mut self,
        upto: Offset,
        write: impl Fn(Offset, Offset, LeaderEpoch, &mut Vec<u8>) -> BatchHeader,
    ) -> Result<(), LogError> {
        let (mut next, end) = (self.next_offset, upto);
        // One for each former batch, as far as the rows tell.
        while next < end {
            let row = self.row_from(next).ok().flatten().filter(|row| row.next_offset() <= end);
            let upto = row.map_or(end, |row| row.next_offset());
            let epoch = match row {
                Some(row) => row.leader_epoch,
                None => self.reader.epoch_at(next).unwrap_or(self.last_epoch),
            };
            let mut bytes = Vec::new();
            let header = write(next, Offset(upto.0 - 1), epoch.max(self.last_epoch), &mut bytes);
            // Another copy may have supplied the first part of the row's batch.
            let index = row.filter(|row| row.base_offset >= next).map(|row| row.raft_index);
            self.take(&header, &bytes, index)?;
            next = upto;
        }
        Ok(())
    }

    /// Gives up on the wanted batches below `upto`, which no replica has, and puts batches without records in
    /// their place. Their offsets stay, and the records are lost for good. Keeps the old bytes in a separate
    /// file. `None` if nothing is wanted.
    ///
    /// # Errors
    /// The disk's errors.
    pub fn give_up(&mut self, upto: Offset) -> Result<Option<GivenUp>, LogError> {
        let Some(range) = self.wanted_range().filter(|range| range.base_offset < upto) else {
            return Ok(None);
        };
        let range = DamagedRange { end_offset: range.end_offset.min(upto), ..range };
        let kept = self.reader.keep_damaged(&range)?;
        self.push_empty(range.end_offset, write_lost)?;
        Ok(Some(GivenUp { range, kept }))
    }

    fn take(&mut self, header: &BatchHeader, batch: &[u8], index: Option<RaftIndex>) -> Result<(), LogError> {
        let (base, epoch) = (header.base_offset, header.leader_epoch);
        let follows = if self.is_gapless { base == self.next_offset } else { base >= self.next_offset };
        if !follows || header.next_offset() > self.source.end_offset() {
            return Err(self.refused(format!("a batch at offset {base}, expected {}", self.next_offset)));
        }
        let known = self.reader.epoch_at(base).unwrap_or(epoch);
        if epoch != known || epoch < self.last_epoch {
            return Err(self.refused(format!("a batch of epoch {epoch} at offset {base}, expected {known}")));
        }
        self.pass_entries();
        // Without a row, compaction may have removed some batches in between. Only the last batch's index is
        // known.
        let is_last = header.next_offset() == self.source.end_offset();
        let guess = if is_last { self.last_index.max(self.next_index) } else { self.next_index };
        let index = index.unwrap_or(guess);
        if index < self.next_index {
            let next = self.next_index;
            return Err(
                self.refused(format!("more batches before offset {base} than raft index {next} allows"))
            );
        }
        self.output.pending.extend_from_slice(batch);
        self.output.push(header, index, WRITE_BYTES, &mut Unhurried)?;
        // A marker whose record compaction has removed ends no transaction for a client.
        if header.attributes.is_control() && header.record_count > 0 {
            self.markers.push(base);
        }
        self.next_index = RaftIndex(index.0 + 1);
        (self.next_offset, self.last_epoch) = (header.next_offset(), epoch);
        Ok(())
    }

    /// Returns the row of the batch that holds `offset`, or of the next batch.
    fn row_from(&self, offset: Offset) -> Result<Option<Row>, LogError> {
        let files = self.reader.files(&self.source)?;
        let mut rows = Rows::new(&self.source, &files);
        let number = rows.first_where(|row| row.next_offset() > offset)?;
        if number < rows.count { rows.get(number).map(Some) } else { Ok(None) }
    }

    fn pass_entries(&mut self) {
        while self.taken.binary_search(&self.next_index).is_ok() {
            self.next_index.0 += 1;
        }
    }

    fn refused(&self, reason: String) -> LogError {
        LogError::damaged(&self.source.path(Kind::Log), 0, format!("its replacement does not fit: {reason}"))
    }

    /// Syncs the new segment. [`Log::install_compacted`] puts it in place.
    ///
    /// # Errors
    /// The disk's errors.
    ///
    /// # Panics
    /// If batches are missing.
    pub fn finish(self) -> Result<Rewritten<D>, LogError> {
        assert!(self.is_whole(), "a patch that is not whole");
        let sources = vec![self.source];
        let segment = self.output.finish(&sources, &mut Unhurried)?;
        Ok(Rewritten {
            reader: self.reader,
            sources,
            segment: Some(segment),
            first_dirty: None,
            removed_aborts: Vec::new(),
            markers: Some(self.markers),
            _token: self.token,
        })
    }

    /// Removes the files. What cannot be removed now is removed at the next start.
    pub fn discard(self) {
        self.output.abandon();
    }
}

/// Returns the first batch among `bytes`, if its length is legal.
fn prefix(bytes: &[u8]) -> Option<&[u8]> {
    let raw = bytes.get(8..12)?;
    let length = i32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]);
    bytes.get(..usize::try_from(length).ok()? + 12)
}

impl<D: Disk> LogReader<D> {
    /// Reports whether batches below `upto` from a copy that is compacted up to `first_dirty` may replace
    /// this log's batches.
    ///
    /// A copy that is compacted equally far is always usable. Below what was compacted here, a copy that is
    /// compacted further is usable too. It has nothing that was removed here. What it has removed was
    /// superseded by records that exist here, or by tombstones of keys that have no older record here.
    /// Anywhere else a deleted key could come back.
    pub fn may_take(&self, upto: Offset, first_dirty: Offset) -> bool {
        let cleaned = self.first_dirty();
        first_dirty == cleaned || (first_dirty > cleaned && upto <= cleaned)
    }

    /// Returns whole batches from `from` on for another replica, all below `upto` and before the next damaged
    /// one. Includes those without records, and checks each. At most `bytes_max` bytes, but at least one
    /// batch. Empty if there is none.
    ///
    /// # Errors
    /// Those of [`LogReader::read`]. [`LogError::Damaged`] if the first batch is not what was written.
    pub fn read_checked(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
    ) -> Result<bytes::Bytes, LogError> {
        let list = self.segments.load_full();
        let number = crate::reader::segment_of(&list, from);
        let mut out = Vec::new();
        for segment in list.iter().skip(number).take_while(|segment| segment.base_offset < upto) {
            self.checked_batches(segment, from, upto, bytes_max, &mut out)?;
            if !out.is_empty() {
                break;
            }
        }
        Ok(out.into())
    }

    /// True if compaction has left nothing in `from..upto`, which is within the log: neither a batch nor
    /// damage.
    ///
    /// # Errors
    /// [`LogError::Damaged`] for an index row with a wrong checksum. The disk's errors.
    pub fn is_hole(&self, from: Offset, upto: Offset) -> Result<bool, LogError> {
        if self.first_dirty() < upto || from < self.log_start() || self.refuse_damaged(from, upto).is_err() {
            return Ok(false);
        }
        let list = self.segments.load_full();
        for segment in list.iter().skip(crate::reader::segment_of(&list, from)) {
            let files = self.files(segment)?;
            let mut rows = Rows::new(segment, &files);
            let number = rows.first_where(|row| row.next_offset() > from)?;
            if number < rows.count {
                return Ok(rows.get(number)?.base_offset >= upto);
            }
        }
        Ok(false)
    }

    fn checked_batches(
        &self,
        segment: &Arc<Segment<D>>,
        from: Offset,
        upto: Offset,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        let files = self.files(segment)?;
        let mut rows = Rows::new(segment, &files);
        let first = rows.first_where(|row| row.next_offset() > from)?;
        for number in first..rows.count {
            let row = rows.get_ahead(number)?;
            let bytes = row.batch_bytes as usize;
            if row.next_offset() > upto || (!out.is_empty() && out.len() + bytes > bytes_max) {
                break;
            }
            let at = out.len();
            let read = self.refuse_damaged(row.base_offset, row.next_offset()).and_then(|()| {
                out.resize(at + bytes, 0);
                let read = crate::batches::read_batch(segment, &files, &row, &mut out[at..]);
                crate::condemn::note_batch(self, &row, read)
            });
            if let Err(error) = read {
                out.truncate(at);
                // The batches before it are whole.
                return if at > 0 { Ok(()) } else { Err(error) };
            }
        }
        Ok(())
    }
}
