//! Recovery of segments that compaction wrote, if the checkpoint is missing or damaged.
//!
//! Such a segment was synced as a whole before it counted, so any fault in it is damage, never a torn tail.
//! Its `.log` no longer tells the raft indexes of its batches, but its header has the index that comes after.
//! Rows are numbered from the segment's first index on, which is never too high.

use std::sync::Arc;

use tailrace_records::BatchHeader;
use tailrace_types::{Offset, RaftIndex};

use crate::damage::{Damage, DamagedRange};
use crate::disk::{Disk, DiskFile, OpenMode, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::SegmentEntry;
use crate::format::names::Kind;
use crate::format::row::{ROW_BYTES, Row, row_position};
use crate::format::segment_header::{Compacted, SegmentHeader};
use crate::generations::UNKNOWN_INDEX;
use crate::rebuild::{RowWriter, row_of};
use crate::recover::{Recovering, Tail, discontinuity};
use crate::scan::{BatchScanner, Scanned};
use crate::segment::{LenOf, Segment, SegmentFiles};

impl<D: Disk> Recovering<'_, D> {
    /// Reads the whole of a compacted segment and adds it to the log.
    pub(crate) fn recover_compacted(
        &mut self,
        tail: &mut Tail<D>,
        header: &SegmentHeader,
    ) -> Result<(), LogError> {
        let Some(compacted) = header.compacted else { return Ok(()) };
        let named = Segment::<D>::of_generation(self.dir, header.base_offset, compacted.generation);
        let path = named.path(Kind::Log);
        let is_unknown = header.first_raft_index == UNKNOWN_INDEX;
        let first_raft_index = if is_unknown { tail.next_raft_index } else { header.first_raft_index };
        tail.index_is_a_guess = is_unknown;
        let header = &SegmentHeader { first_raft_index, ..*header };
        if header.base_offset != tail.next_offset || header.first_raft_index < tail.next_raft_index {
            let reason = format!(
                "it starts at offset {}, raft index {}; the log before it ends at {}, {}",
                header.base_offset, header.first_raft_index, tail.next_offset, tail.next_raft_index
            );
            return Err(LogError::damaged(&path, 0, reason));
        }
        let log = self.store.disk().open(&path, OpenMode::Write).context("open", &path)?;
        let len = log.len_of(&path)?.min(crate::SEGMENT_BYTES_MAX);
        let segment = self.read_compacted(tail, header, &compacted, log, len)?;
        if segment.rows() == 0 || segment.end_offset() != compacted.end_offset {
            let reason = format!("it ends at offset {}, not {}", segment.end_offset(), compacted.end_offset);
            return Err(LogError::damaged(&path, len, reason));
        }
        for entry in self.side.entries() {
            if entry.raft_index < compacted.next_raft_index {
                tail.begin_epoch(entry.leader_epoch, entry.offset);
            }
        }
        let beyond_last =
            segment.last_row(self.store)?.map_or(UNKNOWN_INDEX, |row| RaftIndex(row.raft_index.0 + 1));
        tail.next_raft_index = compacted.next_raft_index.max(beyond_last);
        tail.pass_entries(self.side);
        self.store.admit(&segment);
        tail.segments.push(segment);
        Ok(())
    }

    /// Checks every batch and writes the rows. An existing row stays, and tells how far a damaged batch
    /// reaches.
    fn read_compacted(
        &mut self,
        tail: &mut Tail<D>,
        header: &SegmentHeader,
        compacted: &Compacted,
        log: D::File,
        len: u64,
    ) -> Result<Arc<Segment<D>>, LogError> {
        let entry = empty_entry(header, compacted.generation);
        let segment = Segment::from_entry(self.dir, &entry);
        let (log_path, index_path) = (segment.path(Kind::Log), segment.path(Kind::Index));
        let index = self.store.disk().open(&index_path, OpenMode::Create).context("create", &index_path)?;
        let head = crate::format::row::encode_head(segment.base_offset);
        index.write_all_at(&[std::io::IoSlice::new(&head)], 0).context("write", &index_path)?;
        let mut writer = RowWriter::new(&index, segment.base_offset, row_position(0));
        let mut scanner = BatchScanner::new(&log, 0, len);
        let mut next = segment.first_raft_index;
        loop {
            let old = old_row(&index, &segment, segment.rows()).filter(|row| row.raft_index >= next);
            let (position, reason) = match scanner.next_or_unreadable().context("read", &log_path)? {
                Scanned::End if segment.end_offset() >= compacted.end_offset => break,
                Scanned::End => (scanner.position(), "the file ends early".to_owned()),
                Scanned::Bad { position, reason } => (position, reason),
                Scanned::Batch { header, position, .. } => match discontinuity(tail, &segment, &header)
                    .or_else(|| contradiction(old.as_ref(), position, &header, compacted))
                {
                    Some(reason) => (position, reason),
                    None => {
                        let running = segment.max_timestamp();
                        let fits = |old: &Row| u64::from(old.position) == position;
                        let index = old.filter(fits).map_or(next, |old| old.raft_index);
                        let row = row_of(&header, index, position as u32, running, 0);
                        self.take_row(tail, &segment, &row, &mut writer)?;
                        next = RaftIndex(row.raft_index.0 + 1);
                        continue;
                    }
                },
            };
            let continues = |row: &Row| {
                u64::from(row.position) == position
                    && row.base_offset >= tail.next_offset
                    && row.next_offset() <= compacted.end_offset
                    && row.leader_epoch >= tail.last_epoch
            };
            let Some(row) = old.filter(continues) else {
                return Err(LogError::damaged(&log_path, position, reason));
            };
            let damage = Damage { file: log_path.clone(), position, reason };
            self.recovery.damaged.push(DamagedRange::found(row.base_offset, row.next_offset(), damage));
            self.take_row(tail, &segment, &row, &mut writer)?;
            scanner.skip_to(u64::from(row.end_position()));
            next = RaftIndex(row.raft_index.0 + 1);
        }
        self.recovery.bytes_read += scanner.bytes_read;
        writer.flush().context("write", &index_path)?;
        index.set_len(row_position(segment.rows())).context("shorten", &index_path)?;
        index.sync_all().context("sync", &index_path)?;
        let segment = Arc::new(segment);
        segment.install(&Arc::new(SegmentFiles { log, index }));
        Ok(segment)
    }

    fn take_row(
        &mut self,
        tail: &mut Tail<D>,
        segment: &Segment<D>,
        row: &Row,
        writer: &mut RowWriter<'_, D::File>,
    ) -> Result<(), LogError> {
        writer.push(row).context("write", &segment.path(Kind::Index))?;
        segment.publish(row, self.now);
        tail.begin_epoch(row.leader_epoch, row.base_offset);
        tail.next_offset = row.next_offset();
        self.recovery.batches_recovered += 1;
        Ok(())
    }
}

/// Checks base offset and epoch, which a batch's checksum does not cover. After compaction only the row and
/// the header can confirm them.
fn contradiction(
    old: Option<&Row>,
    position: u64,
    header: &BatchHeader,
    compacted: &Compacted,
) -> Option<String> {
    if old.is_some_and(|old| u64::from(old.position) == position && !old.describes(header)) {
        return Some("the batch is not the one its index row describes".to_owned());
    }
    (header.next_offset() > compacted.end_offset).then(|| {
        let (last, end) = (header.last_offset(), compacted.end_offset);
        format!("a batch up to offset {last} in a segment that ends at {end}")
    })
}

/// Returns row `number` as an earlier process left it. It is read before a new row overwrites it.
fn old_row<D: Disk>(index: &D::File, segment: &Segment<D>, number: u32) -> Option<Row> {
    let mut bytes = [0; ROW_BYTES];
    let read = read_full_at(index, &mut bytes, row_position(number)).ok()?;
    if read == ROW_BYTES { Row::decode(&bytes, segment.base_offset) } else { None }
}

fn empty_entry(header: &SegmentHeader, generation: u32) -> SegmentEntry {
    SegmentEntry {
        base_offset: header.base_offset,
        generation,
        first_raft_index: header.first_raft_index,
        end_offset: Offset(header.base_offset.0),
        max_timestamp: tailrace_types::TimestampMs::NONE,
        first_timestamp: tailrace_types::TimestampMs::NONE,
        created: header.created,
        modified: header.created,
        bytes: 0,
        rows: 0,
    }
}
