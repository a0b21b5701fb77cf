//! Recovery of segments that compaction wrote, where no checkpoint tells of them: it is missing or damaged.
//!
//! Such a segment was synced as a whole before it counted, so that anything wrong in it is damage, never a torn tail. Its
//! `.log` no longer tells the raft indexes of its batches; its header tells the one that comes after. Rows are numbered
//! from its first one on, which is never too high.

use std::sync::Arc;

use tailrace_types::{Offset, RaftIndex};

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::SegmentEntry;
use crate::format::names::Kind;
use crate::format::row::row_position;
use crate::format::segment_header::{Compacted, SegmentHeader};
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
        if header.base_offset != tail.next_offset || header.first_raft_index < tail.next_raft_index {
            let reason = format!(
                "it begins at offset {}, raft index {}; the log before it ends at {}, {}",
                header.base_offset, header.first_raft_index, tail.next_offset, tail.next_raft_index
            );
            return Err(LogError::damaged(&path, 0, reason));
        }
        let log = self.store.disk().open(&path, OpenMode::Write).context("open", &path)?;
        let len = log.len_of(&path)?.min(crate::SEGMENT_BYTES_MAX);
        let segment = self.read_compacted(tail, header, &compacted, (log, len))?;
        if segment.rows() == 0 || segment.end_offset() != compacted.end_offset {
            let reason = format!("it ends at offset {}, not {}", segment.end_offset(), compacted.end_offset);
            return Err(LogError::damaged(&path, len, reason));
        }
        for entry in self.side.entries() {
            if entry.raft_index < compacted.next_raft_index {
                tail.begin_epoch(entry.leader_epoch, entry.offset);
            }
        }
        tail.next_raft_index = compacted.next_raft_index;
        tail.pass_entries(self.side);
        self.store.admit(&segment);
        tail.segments.push(segment);
        Ok(())
    }

    /// Checks every batch and writes the rows anew.
    fn read_compacted(
        &mut self,
        tail: &mut Tail<D>,
        header: &SegmentHeader,
        compacted: &Compacted,
        (log, len): (D::File, u64),
    ) -> Result<Arc<Segment<D>>, LogError> {
        let entry = empty_entry(header, compacted.generation);
        let segment = Segment::from_entry(self.dir, &entry);
        let (log_path, index_path) = (segment.path(Kind::Log), segment.path(Kind::Index));
        let index = self.store.disk().open(&index_path, OpenMode::Truncate).context("create", &index_path)?;
        let head = crate::format::row::encode_head(segment.base_offset);
        index.write_all_at(&[std::io::IoSlice::new(&head)], 0).context("write", &index_path)?;
        let mut writer = RowWriter::new(&index, segment.base_offset, row_position(0));
        let mut scanner = BatchScanner::new(&log, 0, len);
        let mut next = segment.first_raft_index;
        loop {
            let (position, reason) = match scanner.next().context("read", &log_path)? {
                Scanned::End => break,
                Scanned::Bad { position, reason } => (position, reason),
                Scanned::Batch { header, position, .. } => match discontinuity(tail, &segment, &header) {
                    Some(reason) => (position, reason),
                    None => {
                        let running = segment.max_timestamp();
                        let row = row_of(&header, next, position as u32, running, 0);
                        writer.push(&row).context("write", &index_path)?;
                        segment.publish(&row, self.now);
                        tail.begin_epoch(header.leader_epoch, header.base_offset);
                        tail.next_offset = header.next_offset();
                        next = RaftIndex(next.0 + 1);
                        self.recovery.batches_recovered += 1;
                        continue;
                    }
                },
            };
            return Err(LogError::damaged(&log_path, position, reason));
        }
        self.recovery.bytes_read += scanner.bytes_read;
        writer.flush().context("write", &index_path)?;
        index.sync_all().context("sync", &index_path)?;
        let segment = Arc::new(segment);
        segment.install(&Arc::new(SegmentFiles { log, index }));
        Ok(segment)
    }
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
