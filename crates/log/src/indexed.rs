//! Access to the log by raft index, for a consensus engine.

use bytes::Bytes;
use tailrace_types::{LeaderEpoch, RaftIndex};

use crate::batches::read_batch;
use crate::condemn::note_batch;
use crate::disk::Disk;
use crate::error::LogError;
use crate::format::entry::Entry;
use crate::format::row::Row;
use crate::log::Log;
use crate::reader::segment_of;
use crate::rows::Rows;

/// The content of a raft index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Indexed {
    /// A batch, as its index row.
    Batch(Row),
    /// An entry without records.
    Entry(Entry),
}

impl Indexed {
    /// The epoch under which it was appended.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        match self {
            Self::Batch(row) => row.leader_epoch,
            Self::Entry(entry) => entry.leader_epoch,
        }
    }
}

impl<D: Disk> Log<D> {
    /// Returns what was appended at `index`. `None` if nothing was yet, or if retention or compaction has
    /// removed it. Costs one or two preads of index rows at the end of the log, and a binary search
    /// elsewhere.
    ///
    /// # Errors
    /// [`LogError::Damaged`] for an index row with a wrong checksum.
    pub fn at_index(&self, index: RaftIndex) -> Result<Option<Indexed>, LogError> {
        if index >= self.next_raft_index {
            return Ok(None);
        }
        if let Some(entry) = self.side.at(index) {
            return Ok(Some(Indexed::Entry(entry.clone())));
        }
        let list = self.reader.segments.load_full();
        let number = list.partition_point(|segment| segment.first_raft_index <= index);
        let Some(segment) = number.checked_sub(1).and_then(|number| list.get(number)) else {
            return Ok(None);
        };
        let files = self.reader.files(segment)?;
        let mut rows = Rows::new(segment, &files);
        let at = rows.first_where(|row| row.raft_index >= index)?;
        if at == rows.count {
            return Ok(None);
        }
        let row = rows.get(at)?;
        Ok((row.raft_index == index).then_some(Indexed::Batch(row)))
    }

    /// Counts the batches and entries from `index` on. Reads the rows of one segment at most.
    ///
    /// # Errors
    /// [`LogError::Damaged`] for an index row with a wrong checksum.
    pub fn count_from(&self, index: RaftIndex) -> Result<u64, LogError> {
        let list = self.reader.segments.load_full();
        let whole = list.partition_point(|segment| segment.first_raft_index < index);
        let mut count: u64 = list[whole..].iter().map(|segment| u64::from(segment.rows())).sum();
        if let Some(segment) = whole.checked_sub(1).and_then(|last| list.get(last)) {
            let files = self.reader.files(segment)?;
            let mut rows = Rows::new(segment, &files);
            count += u64::from(rows.count - rows.first_where(|row| row.raft_index >= index)?);
        }
        Ok(count + self.entries().iter().filter(|entry| entry.raft_index >= index).count() as u64)
    }

    /// Removes the entries without records below `index`. They must be useless by now. No batch at or above
    /// `index` may share a segment with one of them, because the raft indexes of a segment's batches are
    /// counted along with them. Blocks.
    ///
    /// # Errors
    /// The disk's errors. Any error but [`LogError::NoSpace`] poisons the log.
    pub fn prune_entries(&mut self, index: RaftIndex) -> Result<usize, LogError> {
        self.check_writable()?;
        let disk = self.reader.store.disk().clone();
        let result = self.side.cut_below(&disk, index);
        self.poison_unless_no_space(result)
    }

    /// Returns the index up to which entries may be pruned if everything below `first` is useless: the start
    /// of the segment that holds `first`, if there is one.
    pub fn prunable_below(&self, first: RaftIndex) -> RaftIndex {
        let list = self.reader.segments.load();
        let begun = list.partition_point(|segment| segment.first_raft_index < first);
        // It is not worth checking whether the last of them reaches up to `first`.
        list[..begun].last().map_or(first, |segment| segment.first_raft_index)
    }

    /// Returns the batch that `row` describes, as stored in the log. Verifies its checksum, because damage
    /// here must not reach another replica. A damaged batch is out of service from then on.
    ///
    /// # Errors
    /// [`LogError::Damaged`] and the disk's errors.
    pub fn batch_at(&self, row: &Row) -> Result<Bytes, LogError> {
        let list = self.reader.segments.load_full();
        let gone = || LogError::OutOfRange {
            requested: row.base_offset,
            log_start: self.log_start(),
            log_end: self.log_end(),
        };
        let segment = list.get(segment_of(&list, row.base_offset)).ok_or_else(gone)?;
        self.reader.refuse_damaged(row.base_offset, row.next_offset())?;
        let files = self.reader.files(segment)?;
        let mut bytes = vec![0; row.batch_bytes as usize];
        note_batch(&self.reader, row, read_batch(segment, &files, row, &mut bytes))?;
        Ok(Bytes::from(bytes))
    }
}
