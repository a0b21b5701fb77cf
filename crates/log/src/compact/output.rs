//! The files of a new generation while they are being written.
//!
//! `.log` and `.index` get their final names at once. They do not count as long as there is no whole
//! `.header` for them and no checkpoint lists them. The header comes last, after the other two are synced.

use std::io::IoSlice;
use std::sync::Arc;

use tailrace_records::BatchHeader;
use tailrace_types::{Offset, RaftIndex, TimestampMs};

use super::pace::Pace;
use crate::disk::{Disk, DiskFile, OpenMode, remove_if_there, replace_file};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::SegmentEntry;
use crate::format::names::Kind;
use crate::format::row::{Row, encode_head, row_position};
use crate::format::segment_header::{Compacted, SegmentHeader};
use crate::reader::LogReader;
use crate::rebuild::row_of;
use crate::segment::{Segment, SegmentFiles};

pub(crate) struct Output<D: Disk> {
    reader: Arc<LogReader<D>>,
    segment: Segment<D>,
    files: SegmentFiles<D>,
    /// Bytes not yet in the `.log`.
    pub(crate) pending: Vec<u8>,
    rows: Vec<u8>,
    rows_written: u32,
    bytes: u32,
    running_max: TimestampMs,
    first: Option<TimestampMs>,
    last: Option<Row>,
    now: TimestampMs,
    /// An earlier round has covered everything below.
    first_dirty: Offset,
    /// See [`Segment::next_horizon`].
    pub(crate) next_horizon: TimestampMs,
}

impl<D: Disk> Output<D> {
    /// Creates the files for the replacement of `sources`.
    pub(crate) fn create(
        reader: &Arc<LogReader<D>>,
        sources: &[Arc<Segment<D>>],
        now: TimestampMs,
    ) -> Result<Self, LogError> {
        let generation = sources.iter().map(|s| s.generation).max().unwrap_or(0) + 1;
        let entry = SegmentEntry { generation, ..sources[0].to_entry() };
        let segment = Segment::from_entry(&reader.dir, &entry);
        match Self::create_files(reader, &segment) {
            Ok(files) => Ok(Self {
                reader: Arc::clone(reader),
                segment,
                files,
                pending: Vec::new(),
                rows: Vec::new(),
                rows_written: 0,
                bytes: 0,
                running_max: TimestampMs::NONE,
                first: None,
                last: None,
                now,
                first_dirty: reader.first_dirty().max(reader.log_start()),
                next_horizon: TimestampMs(i64::MAX),
            }),
            Err(error) => {
                remove_files(reader, &segment);
                Err(error)
            }
        }
    }

    fn create_files(reader: &LogReader<D>, segment: &Segment<D>) -> Result<SegmentFiles<D>, LogError> {
        let disk = reader.store.disk();
        // A leftover of an earlier, aborted round.
        remove_if_there(disk, &segment.path(Kind::Header))?;
        let create = |kind| {
            let path = segment.path(kind);
            disk.open(&path, OpenMode::Truncate).context("create", &path)
        };
        let files: SegmentFiles<D> = SegmentFiles { log: create(Kind::Log)?, index: create(Kind::Index)? };
        let head = encode_head(segment.base_offset);
        let written = files.index.write_all_at(&[IoSlice::new(&head)], 0);
        written.context("write", &segment.path(Kind::Index))?;
        Ok(files)
    }

    /// Adds the row of a batch whose bytes are the last ones of `pending`. `raft_index` comes from its old
    /// row.
    pub(crate) fn push(
        &mut self,
        header: &BatchHeader,
        raft_index: RaftIndex,
        flush_at: usize,
        pace: &mut impl Pace,
    ) -> Result<(), LogError> {
        let row = row_of(header, raft_index, self.bytes, self.running_max, 0);
        self.running_max = row.running_max_timestamp;
        // What had expired was removed in this round, except in the part that no earlier round has covered.
        let stays = header.base_timestamp > self.now || header.base_offset >= self.first_dirty;
        if header.attributes.has_delete_horizon() && stays {
            self.next_horizon = self.next_horizon.min(header.base_timestamp);
        }
        self.first.get_or_insert(row.max_timestamp);
        self.bytes = row.end_position();
        self.rows.extend_from_slice(&row.encode(self.segment.base_offset));
        self.last = Some(row);
        if self.pending.len() >= flush_at { self.flush(pace) } else { Ok(()) }
    }

    fn flush(&mut self, pace: &mut impl Pace) -> Result<(), LogError> {
        let position = u64::from(self.bytes) - self.pending.len() as u64;
        let written = self.files.log.write_all_at(&[IoSlice::new(&self.pending)], position);
        written.context("write", &self.segment.path(Kind::Log))?;
        let written =
            self.files.index.write_all_at(&[IoSlice::new(&self.rows)], row_position(self.rows_written));
        written.context("write", &self.segment.path(Kind::Index))?;
        let bytes = (self.pending.len() + self.rows.len()) as u64;
        self.rows_written += (self.rows.len() / crate::format::row::ROW_BYTES) as u32;
        self.pending.clear();
        self.rows.clear();
        pace.spend(bytes)
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Syncs everything, the header last. The result counts once the log lists it.
    pub(crate) fn finish(
        mut self,
        sources: &[Arc<Segment<D>>],
        pace: &mut impl Pace,
    ) -> Result<Arc<Segment<D>>, LogError> {
        match self.finish_files(sources, pace) {
            Ok(entry) => {
                let segment = Arc::new(Segment::from_entry(&self.reader.dir, &entry));
                segment.install(&Arc::new(self.files));
                segment.set_next_horizon(self.next_horizon);
                Ok(segment)
            }
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    fn finish_files(
        &mut self,
        sources: &[Arc<Segment<D>>],
        pace: &mut impl Pace,
    ) -> Result<SegmentEntry, LogError> {
        self.flush(pace)?;
        let last = self.last.expect("the last batch of a group stays");
        let end_offset = sources[sources.len() - 1].end_offset();
        assert_eq!(last.next_offset(), end_offset, "compaction lost the end of a segment");
        self.files.log.sync_all().context("sync", &self.segment.path(Kind::Log))?;
        self.files.index.sync_all().context("sync", &self.segment.path(Kind::Index))?;
        let header = SegmentHeader {
            base_offset: self.segment.base_offset,
            first_raft_index: self.segment.first_raft_index,
            created: self.segment.created,
            compacted: Some(Compacted {
                generation: self.segment.generation,
                end_offset,
                next_raft_index: RaftIndex(last.raft_index.0 + 1),
            }),
        };
        let disk = self.reader.store.disk();
        replace_file(disk, &self.segment.path(Kind::Header), &[IoSlice::new(&header.encode())])?;
        Ok(SegmentEntry {
            base_offset: self.segment.base_offset,
            generation: self.segment.generation,
            first_raft_index: self.segment.first_raft_index,
            end_offset,
            max_timestamp: self.running_max,
            first_timestamp: self.first.unwrap_or(TimestampMs::NONE),
            created: self.segment.created,
            modified: modified(sources),
            bytes: self.bytes,
            rows: self.rows_written,
        })
    }

    /// Removes the files. What cannot be removed now is removed at the next start.
    pub(crate) fn abandon(&self) {
        remove_files(&self.reader, &self.segment);
    }
}

/// Removes the files of a generation that does not count. The header goes first: without it they can never
/// count.
pub(crate) fn remove_files<D: Disk>(reader: &LogReader<D>, segment: &Segment<D>) {
    for kind in [Kind::Header, Kind::Log, Kind::Index] {
        let _ = remove_if_there(reader.store.disk(), &segment.path(kind));
    }
}

fn modified<D: Disk>(sources: &[Arc<Segment<D>>]) -> TimestampMs {
    sources.iter().map(|s| s.modified()).max().unwrap_or(TimestampMs::NONE)
}
