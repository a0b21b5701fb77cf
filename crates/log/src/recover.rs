//! Recovery: reads everything beyond the recovery point.
//!
//! A bad batch there is a torn tail and is truncated, unless a later index row shows that the bytes had been
//! synced. In that case it is damage and stays in place. docs/format.md, "Recovery", has the reasoning.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use tailrace_records::BatchHeader;
use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs};

use crate::damage::{Damage, DamagedRange};
use crate::disk::{Disk, DiskFile, OpenMode, read_full_at};
use crate::entries::SideFile;
use crate::epochs::EpochTable;
use crate::error::{IoContext, LogError};
use crate::format::FormatError;
use crate::format::checkpoint::Checkpoint;
use crate::format::names::{self, Kind};
use crate::format::row::{ROW_BYTES, Row, check_head, encode_head, row_position};
use crate::format::segment_header::SegmentHeader;
use crate::generations::read_segment_header;
use crate::listing::Listing;
use crate::reader::SegmentList;
use crate::rebuild::{RowWriter, row_of};
use crate::recovery::{Origin, Recovery, epochs_of};
use crate::scan::{BatchScanner, Scanned};
use crate::segment::{LenOf, Segment, SegmentFiles};
use crate::store::LogStore;
use crate::trim::remove_segment_files;

/// The end of the log as known so far.
pub(crate) struct Tail<D: Disk> {
    pub(crate) segments: SegmentList<D>,
    /// The first offset of the log, if no checkpoint has it.
    pub(crate) first_offset: Offset,
    pub(crate) next_offset: Offset,
    pub(crate) next_raft_index: RaftIndex,
    /// True if the previous segment has lost its index and its header, so that its batches were counted and
    /// may have been more.
    pub(crate) index_is_a_guess: bool,
    pub(crate) last_epoch: LeaderEpoch,
    pub(crate) epochs: EpochTable,
    /// End of the part that the checkpoint covers.
    pub(crate) durable_offset: Offset,
}

impl<D: Disk> Tail<D> {
    /// Skips the entries without records that come next.
    pub(crate) fn pass_entries(&mut self, side: &SideFile) {
        while let Some(entry) = side.at(self.next_raft_index) {
            self.next_raft_index.0 += 1;
            self.begin_epoch(entry.leader_epoch, self.next_offset);
        }
    }

    pub(crate) fn begin_epoch(&mut self, epoch: LeaderEpoch, start: Offset) {
        if epoch > self.last_epoch {
            self.last_epoch = epoch;
            self.epochs.assign(epoch, start);
        }
    }
}

/// The first bad position of the log.
pub(crate) struct Bad {
    pub(crate) position: u64,
    pub(crate) reason: String,
}

pub(crate) struct Recovering<'a, D: Disk> {
    pub(crate) store: &'a LogStore<D>,
    pub(crate) dir: &'a Arc<Path>,
    pub(crate) side: &'a SideFile,
    pub(crate) recovery: &'a mut Recovery,
    pub(crate) now: TimestampMs,
    pub(crate) origin: Origin,
    /// Headers of the segments that compaction wrote, if there is no checkpoint.
    pub(crate) compacted: BTreeMap<Offset, SegmentHeader>,
}

impl<D: Disk> Recovering<'_, D> {
    /// Returns the recovery point.
    pub(crate) fn begin(
        &self,
        checkpoint: Option<&Checkpoint>,
        listing: &Listing,
    ) -> Result<Tail<D>, LogError> {
        let (epochs, last_epoch) = epochs_of(checkpoint);
        let first_listed = listing.segments.first().copied().unwrap_or_default();
        let (next_offset, next_raft_index) = match checkpoint {
            Some(checkpoint) => (checkpoint.end_offset, checkpoint.next_raft_index),
            None if self.origin == Origin::Fresh => (Offset(0), RaftIndex(1)),
            None => (first_listed, self.first_raft_index(listing)?),
        };
        Ok(Tail {
            segments: Vec::new(),
            first_offset: next_offset,
            next_offset,
            next_raft_index: next_raft_index.max(RaftIndex(1)),
            index_is_a_guess: false,
            last_epoch,
            epochs,
            durable_offset: checkpoint.map_or(Offset(0), |c| c.end_offset),
        })
    }

    /// Without a checkpoint: returns the raft index at which the log starts.
    fn first_raft_index(&self, listing: &Listing) -> Result<RaftIndex, LogError> {
        let header = match listing.segments.first() {
            Some(base) if self.compacted.contains_key(base) => self.compacted.get(base).copied(),
            Some(base) => read_segment_header(self.store.disk(), self.dir, *base, 0)?,
            None => None,
        };
        let entry = self.side.entries().first().map(|entry| entry.raft_index);
        let batch = header.map(|header| header.first_raft_index);
        // The entries right before the first batch belong to the log.
        Ok(match (entry, batch) {
            (Some(entry), Some(batch)) => {
                let mut first = batch;
                while first > entry && self.side.at(RaftIndex(first.0 - 1)).is_some() {
                    first.0 -= 1;
                }
                first
            }
            (Some(entry), None) if listing.segments.is_empty() => entry,
            (_, Some(batch)) => batch,
            (_, None) => RaftIndex(1),
        })
    }

    /// Reads everything beyond `tail`, truncates a torn end, and returns the whole log.
    pub(crate) fn run(
        &mut self,
        mut tail: Tail<D>,
        known: SegmentList<D>,
        listing: &Listing,
    ) -> Result<Tail<D>, LogError> {
        self.recovery.clean = self.origin == Origin::Checkpoint || listing.segments.is_empty();
        tail.pass_entries(self.side);
        tail.segments = known;
        if let Some(last) = tail.segments.last().cloned() {
            let path = last.path(Kind::Log);
            let len = self.store.disk().len(&path).context("read the length of", &path)?;
            if len > u64::from(last.bytes()) || has_rows_beyond(self.store.disk(), &last)? {
                tail.segments.pop();
                if self.recover_segment(&mut tail, last, listing)? {
                    return Ok(tail);
                }
            }
        }
        let known_end = tail.durable_offset;
        let is_known = |base: Offset| tail.segments.iter().any(|s| s.base_offset == base);
        let beyond: Vec<_> =
            listing.segments.iter().copied().filter(|b| *b >= known_end && !is_known(*b)).collect();
        for base in beyond {
            self.recovery.clean = false;
            if let Some(header) = self.compacted.get(&base).copied() {
                self.recover_compacted(&mut tail, &header)?;
                continue;
            }
            let path = names::path(self.dir, base, Kind::Log);
            let is_empty = self.store.disk().len(&path).context("read the length of", &path)? == 0;
            if is_empty && self.synced_segment_after(Offset(base.0 - 1), listing)?.is_none() {
                // Its creation was aborted, or none of its content reached the disk.
                remove_segment_files(
                    self.store.disk(),
                    &Segment::<D>::new(self.dir, base, RaftIndex(0), self.now),
                )?;
                continue;
            }
            let segment = match self.next_segment(&mut tail, base)? {
                Ok(segment) => segment,
                Err(bad) => {
                    self.cut_between(&tail, base, &bad, listing)?;
                    return Ok(tail);
                }
            };
            if self.recover_segment(&mut tail, segment, listing)? {
                break;
            }
        }
        Ok(tail)
    }

    /// Checks that the segment at `base` continues the log, and returns it.
    fn next_segment(
        &mut self,
        tail: &mut Tail<D>,
        base: Offset,
    ) -> Result<Result<Arc<Segment<D>>, Bad>, LogError> {
        let header = read_segment_header(self.store.disk(), self.dir, base, 0)?;
        if tail.index_is_a_guess {
            let known = header.map_or(tail.next_raft_index, |header| header.first_raft_index);
            tail.next_raft_index = tail.next_raft_index.max(known);
        }
        let first = tail.next_raft_index;
        if base != tail.next_offset || header.is_some_and(|h| h.first_raft_index != first) {
            let found = header.map_or(RaftIndex(0), |h| h.first_raft_index);
            let reason = format!(
                "it starts at offset {base}, raft index {found}; the log before it ends at {}, {first}",
                tail.next_offset
            );
            return Ok(Err(Bad { position: 0, reason }));
        }
        let created = header.map_or(self.now, |h| h.created);
        if header.is_none() {
            let header =
                SegmentHeader { base_offset: base, first_raft_index: first, created, compacted: None };
            let path = names::path(self.dir, base, Kind::Header);
            let file = self.store.disk().open(&path, OpenMode::Truncate).context("create", &path)?;
            file.write_all_at(&[IoSlice::new(&header.encode())], 0).context("write", &path)?;
        }
        Ok(Ok(Arc::new(Segment::new(self.dir, base, first, created))))
    }

    /// Reads the rest of one segment and adds it to the log. Returns true if the log was truncated in it.
    fn recover_segment(
        &mut self,
        tail: &mut Tail<D>,
        segment: Arc<Segment<D>>,
        listing: &Listing,
    ) -> Result<bool, LogError> {
        self.recovery.clean = false;
        let disk = self.store.disk();
        let path = segment.path(Kind::Log);
        let log = disk.open(&path, OpenMode::Write).context("open", &path)?;
        let len = log.len_of(&path)?;
        let index = self.open_index(&segment, &log)?;
        let files = SegmentFiles { log, index };
        let bad = loop {
            let scanned = self.scan(tail, &segment, &files, len)?;
            let ends_early =
                || Bad { position: u64::from(segment.bytes()), reason: "the file ends early".to_owned() };
            let is_bad = scanned.is_some();
            let bad = scanned.unwrap_or_else(ends_early);
            let proof = if is_bad {
                self.proof_of_damage(&segment, &files, &bad, listing)?
            } else {
                self.proof_of_loss(tail, &segment, &files, &bad, listing)?
            };
            let Some(proof) = proof else { break is_bad.then_some(bad) };
            if !self.pass_damaged(tail, &segment, &files, &bad, &proof)? {
                return Err(LogError::damaged(&path, bad.position, format!("{}; {proof}", bad.reason)));
            }
        };
        if let Some(bad) = &bad {
            self.cut(&segment, &files, bad, len, listing)?;
        }
        let index_path = segment.path(Kind::Index);
        files.index.set_len(row_position(segment.rows())).context("shorten", &index_path)?;
        if segment.rows() == 0 {
            remove_segment_files(disk, &segment)?;
        } else {
            segment.install(&Arc::new(files));
            self.store.admit(&segment);
            tail.segments.push(segment);
        }
        Ok(bad.is_some())
    }

    /// Returns the index, which is valid up to the published rows. Later rows are still the old ones.
    fn open_index(&self, segment: &Arc<Segment<D>>, log: &D::File) -> Result<D::File, LogError> {
        let disk = self.store.disk();
        let path = segment.path(Kind::Index);
        let index = disk.open(&path, OpenMode::Create).context("open", &path)?;
        let mut head = [0; ROW_BYTES];
        let read = read_full_at(&index, &mut head, 0).context("read", &path)?;
        let head = check_head(&head[..read], segment.base_offset);
        if let Err(error @ FormatError::Newer(_)) = head {
            return Err(error.in_file(&path));
        }
        let is_long_enough = index.len_of(&path)? >= row_position(segment.rows());
        if segment.rows() > 0 && (head.is_err() || !is_long_enough) {
            let (index, suspects) = crate::rebuild::rebuild_index(disk, segment, log)?;
            segment.suspect(suspects);
            return Ok(index);
        }
        if head.is_err() {
            index
                .write_all_at(&[IoSlice::new(&encode_head(segment.base_offset))], 0)
                .context("write", &path)?;
        }
        Ok(index)
    }

    /// Reads batches up to `len` and writes their rows. Returns the first bad position.
    fn scan(
        &mut self,
        tail: &mut Tail<D>,
        segment: &Arc<Segment<D>>,
        files: &SegmentFiles<D>,
        len: u64,
    ) -> Result<Option<Bad>, LogError> {
        let (log_path, index_path) = (segment.path(Kind::Log), segment.path(Kind::Index));
        let len = len.min(crate::SEGMENT_BYTES_MAX);
        let mut scanner = BatchScanner::new(&files.log, u64::from(segment.bytes()), len);
        let mut writer = RowWriter::new(&files.index, segment.base_offset, row_position(segment.rows()));
        let bad = loop {
            match scanner.next().context("read", &log_path)? {
                Scanned::Batch { header, position, .. } => {
                    if let Some(reason) = discontinuity(tail, segment, &header) {
                        break Some(Bad { position, reason });
                    }
                    let index = tail.next_raft_index;
                    let row = row_of(&header, index, position as u32, segment.max_timestamp(), 0);
                    writer.push(&row).context("write", &index_path)?;
                    segment.publish(&row, self.now);
                    tail.begin_epoch(header.leader_epoch, header.base_offset);
                    tail.next_offset = header.next_offset();
                    tail.next_raft_index.0 += 1;
                    tail.pass_entries(self.side);
                    self.recovery.batches_recovered += 1;
                }
                Scanned::End => break None,
                Scanned::Bad { position, reason } => break Some(Bad { position, reason }),
            }
        };
        self.recovery.bytes_read += scanner.bytes_read;
        writer.flush().context("write", &index_path)?;
        Ok(bad)
    }
}

impl<D: Disk> Recovering<'_, D> {
    /// Leaves a batch that had been durable in place, if its row tells how far it reaches, so that its
    /// successors can be read. Returns true if so.
    fn pass_damaged(
        &mut self,
        tail: &mut Tail<D>,
        segment: &Arc<Segment<D>>,
        files: &SegmentFiles<D>,
        bad: &Bad,
        proof: &str,
    ) -> Result<bool, LogError> {
        let path = segment.path(Kind::Log);
        let Some(row) = next_row(tail, segment, files, bad.position)? else { return Ok(false) };
        segment.publish(&row, self.now);
        tail.begin_epoch(row.leader_epoch, row.base_offset);
        tail.next_offset = row.next_offset();
        tail.next_raft_index = RaftIndex(row.raft_index.0 + 1);
        tail.pass_entries(self.side);
        let damage =
            Damage { file: path, position: bad.position, reason: format!("{}; {proof}", bad.reason) };
        self.recovery.damaged.push(DamagedRange::found(row.base_offset, row.next_offset(), damage));
        Ok(true)
    }
}

/// Returns the row that an earlier process left after the published ones, if it describes the next batch, at
/// `position`.
pub(crate) fn next_row<D: Disk>(
    tail: &Tail<D>,
    segment: &Segment<D>,
    files: &SegmentFiles<D>,
    position: u64,
) -> Result<Option<Row>, LogError> {
    let mut bytes = [0; ROW_BYTES];
    let read = read_full_at(&files.index, &mut bytes, row_position(segment.rows()))
        .context("read", &segment.path(Kind::Index))?;
    let row = if read == ROW_BYTES { Row::decode(&bytes, segment.base_offset) } else { None };
    Ok(row.filter(|row| {
        u64::from(row.position) == position
            && row.base_offset >= tail.next_offset
            && row.raft_index >= tail.next_raft_index
            && row.leader_epoch >= tail.last_epoch
    }))
}

/// True if the index has rows beyond those that the checkpoint covers.
fn has_rows_beyond<D: Disk>(disk: &D, segment: &Segment<D>) -> Result<bool, LogError> {
    let path = segment.path(Kind::Index);
    match disk.len(&path) {
        Ok(len) => Ok(len >= row_position(segment.rows() + 1)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(LogError::io("read the length of", &path, error)),
    }
}

/// Returns the reason why a good batch does not continue the log.
pub(crate) fn discontinuity<D: Disk>(
    tail: &Tail<D>,
    segment: &Segment<D>,
    batch: &BatchHeader,
) -> Option<String> {
    let (offset, epoch) = (batch.base_offset, batch.leader_epoch);
    if offset < tail.next_offset {
        return Some(format!("a batch at offset {offset}, expected {} or later", tail.next_offset));
    }
    if epoch < tail.last_epoch {
        return Some(format!("a batch of epoch {epoch} after epoch {}", tail.last_epoch));
    }
    let span = batch.last_offset().0 - segment.base_offset.0;
    (span > i64::from(i32::MAX))
        .then(|| format!("offset {} is too far from the segment's base", batch.last_offset()))
}
