//! A copy of another replica's log that is being received, next to the log that it will replace.
//!
//! Its files carry a generation that no file of the log has or will get, and no checkpoint lists them. Until
//! they are installed they do not count, and the next start removes them.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use tailrace_records::{BatchHeader, HEADER_BYTES, check};
use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs};

use crate::disk::{Disk, DiskFile, OpenMode, remove_if_there};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::SegmentEntry;
use crate::format::names::{self, Kind};
use crate::format::row::{encode_head, row_position};
use crate::format::segment_header::{Compacted, SegmentHeader};
use crate::log::Log;
use crate::pin::SegmentInfo;
use crate::rebuild::{RowWriter, row_of};
use crate::segment::{Segment, SegmentFiles};

/// Position of a batch's length.
const LENGTH_AT: usize = 8;

/// A copy that is being received.
pub struct Staging<D: Disk> {
    pub(crate) disk: D,
    pub(crate) dir: Arc<Path>,
    pub(crate) generation: u32,
    /// Segments that have not started.
    waiting: VecDeque<SegmentInfo>,
    current: Option<Arriving<D>>,
    /// Complete segments, synced except for their headers.
    pub(crate) done: Vec<(SegmentInfo, Arc<Segment<D>>)>,
    next_offset: Offset,
    last_epoch: LeaderEpoch,
    epoch_max: LeaderEpoch,
}

/// The segment that is being received.
struct Arriving<D: Disk> {
    info: SegmentInfo,
    files: SegmentFiles<D>,
    /// Bytes after the last whole batch: less than one batch.
    pending: Vec<u8>,
    /// Bytes of whole batches.
    bytes: u32,
    rows: u32,
    first_timestamp: TimestampMs,
    max_timestamp: TimestampMs,
}

impl<D: Disk> Log<D> {
    /// Starts a copy of `segments`, whose batches have no epoch above `epoch_max`. Blocks to write a
    /// checkpoint if the log never had one, because without it the copy's files could not be told from those
    /// that count.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] and the disk's errors.
    pub fn begin_staging(
        &mut self,
        segments: Vec<SegmentInfo>,
        epoch_max: LeaderEpoch,
    ) -> Result<Staging<D>, LogError> {
        self.check_writable()?;
        if self.reader.checkpoint.lock().written.is_none() {
            self.checkpoint(None)?;
        }
        // A round of compaction under way writes the generation after the current one.
        let newest = self.reader.segments.load().iter().map(|s| s.generation).max().unwrap_or(0);
        Ok(Staging {
            disk: self.reader.store.disk().clone(),
            dir: Arc::clone(&self.reader.dir),
            generation: newest + 2,
            waiting: segments.into(),
            current: None,
            done: Vec::new(),
            next_offset: Offset(0),
            last_epoch: LeaderEpoch::UNKNOWN,
            epoch_max,
        })
    }
}

impl<D: Disk> Staging<D> {
    /// Returns the number of the segment whose bytes are wanted next, the position in it, and the bytes left.
    /// `None` once everything was received.
    pub fn wanted(&self) -> Option<(usize, u32, u32)> {
        let (position, info) = match &self.current {
            Some(current) => (current.received(), &current.info),
            None => (0, self.waiting.front()?),
        };
        let left = info.bytes.checked_sub(position);
        Some((self.done.len(), position, left.expect("no more is taken than was announced")))
    }

    /// One past the last offset received.
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// Takes the next bytes of what [`Staging::wanted`] returned. Checks every batch and passes it to `note`.
    /// Blocks at the end of a segment to sync it.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if they are not what was announced. The disk's errors. The copy is useless then.
    pub fn push(&mut self, bytes: &[u8], mut note: impl FnMut(&BatchHeader, &[u8])) -> Result<(), LogError> {
        let mut arriving = match self.current.take() {
            Some(arriving) => arriving,
            None => {
                let Some(info) = self.waiting.pop_front() else { return Ok(()) };
                self.begin(info)?
            }
        };
        let result = self.take(&mut arriving, bytes, &mut note);
        let is_whole = arriving.received() >= arriving.info.bytes;
        self.current = Some(arriving);
        result?;
        if is_whole { self.finish() } else { Ok(()) }
    }

    fn begin(&self, info: SegmentInfo) -> Result<Arriving<D>, LogError> {
        let create = |kind| {
            let path = self.path(&info, kind);
            self.disk.open(&path, OpenMode::Truncate).context("create", &path)
        };
        let files: SegmentFiles<D> = SegmentFiles { log: create(Kind::Log)?, index: create(Kind::Index)? };
        let head = encode_head(info.base_offset);
        let written = files.index.write_all_at(&[IoSlice::new(&head)], 0);
        written.context("write", &self.path(&info, Kind::Index))?;
        Ok(Arriving {
            info,
            files,
            pending: Vec::new(),
            bytes: 0,
            rows: 0,
            first_timestamp: TimestampMs::NONE,
            max_timestamp: TimestampMs::NONE,
        })
    }

    /// Writes the whole batches among the bytes received.
    fn take(
        &mut self,
        arriving: &mut Arriving<D>,
        bytes: &[u8],
        note: &mut impl FnMut(&BatchHeader, &[u8]),
    ) -> Result<(), LogError> {
        let path = self.path(&arriving.info, Kind::Log);
        let damaged = |at: usize, reason: String| LogError::damaged(&path, at as u64, reason);
        if bytes.len() as u64 + u64::from(arriving.received()) > u64::from(arriving.info.bytes) {
            return Err(damaged(arriving.bytes as usize, "more bytes than announced".to_owned()));
        }
        arriving.pending.extend_from_slice(bytes);
        let index_path = self.path(&arriving.info, Kind::Index);
        let mut rows =
            RowWriter::new(&arriving.files.index, arriving.info.base_offset, row_position(arriving.rows));
        let (start, mut whole) = (arriving.bytes, 0);
        let left = (arriving.info.bytes - start) as usize;
        while let Some(batch) = whole_batch(&arriving.pending[whole..], left - whole)
            .map_err(|reason| damaged(start as usize + whole, reason))?
        {
            let position = start + whole as u32;
            let header = check(batch).map_err(|error| damaged(position as usize, error.to_string()))?;
            self.expect(&arriving.info, arriving.rows, &header)
                .map_err(|reason| damaged(position as usize, reason))?;
            let index = RaftIndex(arriving.info.first_raft_index.0 + u64::from(arriving.rows));
            let row = row_of(&header, index, position, arriving.max_timestamp, 0);
            rows.push(&row).context("write", &index_path)?;
            if arriving.rows == 0 {
                arriving.first_timestamp = row.max_timestamp;
            }
            arriving.max_timestamp = row.running_max_timestamp;
            arriving.rows += 1;
            (self.next_offset, self.last_epoch) = (header.next_offset(), header.leader_epoch);
            note(&header, batch);
            whole += batch.len();
        }
        let written =
            arriving.files.log.write_all_at(&[IoSlice::new(&arriving.pending[..whole])], u64::from(start));
        written.context("write", &path)?;
        rows.flush().context("write", &index_path)?;
        arriving.pending.drain(..whole);
        arriving.bytes += whole as u32;
        Ok(())
    }

    /// Checks that an intact batch is the expected one. Returns the fault if not.
    fn expect(&self, info: &SegmentInfo, rows: u32, batch: &BatchHeader) -> Result<(), String> {
        let (base, epoch) = (batch.base_offset, batch.leader_epoch);
        let first = self.next_offset.max(info.base_offset);
        if base < first || batch.next_offset() > info.end_offset || rows >= info.rows {
            return Err(format!(
                "a batch with offsets {base} to {}, expected {first} to {}",
                batch.last_offset(),
                info.end_offset
            ));
        }
        if epoch < self.last_epoch || epoch > self.epoch_max {
            let (least, most) = (self.last_epoch, self.epoch_max);
            return Err(format!("a batch of epoch {epoch}, expected {least} to {most}"));
        }
        let span = batch.last_offset().0 - info.base_offset.0;
        if span > i64::from(i32::MAX) {
            return Err(format!("offset {} is too far from the segment's base", batch.last_offset()));
        }
        Ok(())
    }

    /// Closes a segment that was received completely.
    fn finish(&mut self) -> Result<(), LogError> {
        let arriving = self.current.as_ref().expect("its last bytes have just come");
        let info = arriving.info;
        let path = self.path(&info, Kind::Log);
        if !arriving.pending.is_empty() || arriving.rows != info.rows || self.next_offset != info.end_offset {
            let reason = format!(
                "{} batches that end at offset {}, expected {} and {}",
                arriving.rows, self.next_offset, info.rows, info.end_offset
            );
            return Err(LogError::damaged(&path, u64::from(arriving.bytes), reason));
        }
        arriving.files.log.sync_all().context("sync", &path)?;
        arriving.files.index.sync_all().context("sync", &self.path(&info, Kind::Index))?;
        let entry = SegmentEntry {
            base_offset: info.base_offset,
            generation: self.generation,
            first_raft_index: info.first_raft_index,
            end_offset: info.end_offset,
            max_timestamp: arriving.max_timestamp,
            first_timestamp: arriving.first_timestamp,
            created: info.created,
            modified: info.modified,
            bytes: arriving.bytes,
            rows: arriving.rows,
        };
        self.done.push((info, Arc::new(Segment::from_entry(&self.dir, &entry))));
        self.current = None;
        Ok(())
    }

    /// Returns the header of a segment, which makes it count even without a checkpoint.
    pub(crate) fn header(&self, info: &SegmentInfo) -> SegmentHeader {
        SegmentHeader {
            base_offset: info.base_offset,
            first_raft_index: info.first_raft_index,
            created: info.created,
            compacted: Some(Compacted {
                generation: self.generation,
                end_offset: info.end_offset,
                next_raft_index: info.next_raft_index,
            }),
        }
    }

    fn path(&self, info: &SegmentInfo, kind: Kind) -> std::path::PathBuf {
        names::path_of(&self.dir, info.base_offset, self.generation, kind)
    }

    /// Removes the files. What cannot be removed now is removed at the next start.
    pub fn discard(self) {
        let begun = self.done.iter().map(|(info, _)| *info).chain(self.current.as_ref().map(|c| c.info));
        for info in begun {
            for kind in [Kind::Header, Kind::Log, Kind::Index] {
                let _ = remove_if_there(&self.disk, &self.path(&info, kind));
            }
        }
    }
}

impl<D: Disk> Arriving<D> {
    fn received(&self) -> u32 {
        self.bytes + self.pending.len() as u32
    }
}

/// Returns the batch at the start of `bytes`, if it is complete. `left` bytes of the segment remain from
/// here.
fn whole_batch(bytes: &[u8], left: usize) -> Result<Option<&[u8]>, String> {
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    let raw = &bytes[LENGTH_AT..LENGTH_AT + 4];
    let length = i32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]);
    let total = usize::try_from(length).ok().map(|length| length + LENGTH_AT + 4);
    match total.filter(|total| (HEADER_BYTES..=left).contains(total)) {
        Some(total) => Ok(bytes.get(..total)),
        None => Err(format!("batch length {length} does not fit the {left} bytes that are left")),
    }
}
