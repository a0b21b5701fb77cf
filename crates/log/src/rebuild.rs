//! Rebuilds a segment's index from its `.log` and the side file.

use std::io::IoSlice;

use tailrace_records::BatchHeader;
use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs};

use crate::disk::{Disk, DiskFile, OpenMode, read_full_at, sync_parent};
use crate::entries::SideFile;
use crate::error::{IoContext, LogError};
use crate::format::names::{Kind, TEMPORARY_SUFFIX, with_suffix};
use crate::format::row::{ROW_BYTES, Row, encode_head, row_position};
use crate::scan::{BatchScanner, Scanned};
use crate::segment::{LenOf, Segment, Suspect};

/// Rows are collected up to this many bytes per write.
const WRITE_BYTES: usize = 64 << 10;

/// Returns the row of a batch at `position`.
pub(crate) fn row_of(
    batch: &BatchHeader,
    raft_index: RaftIndex,
    position: u32,
    running_max_before: TimestampMs,
    synced_bytes: u32,
) -> Row {
    // A batch that compaction left without records is never the answer to a lookup by time.
    let max_timestamp = if batch.record_count == 0 { TimestampMs::NONE } else { batch.max_timestamp };
    Row {
        raft_index,
        leader_epoch: batch.leader_epoch,
        base_offset: batch.base_offset,
        last_offset_delta: batch.last_offset_delta.cast_unsigned(),
        record_count: batch.record_count.cast_unsigned(),
        position,
        batch_bytes: batch.total_bytes() as u32,
        max_timestamp,
        running_max_timestamp: max_timestamp.max(running_max_before),
        synced_bytes,
        attributes: batch.attributes,
        batch_crc: batch.crc,
    }
}

/// Writes rows in order, with buffering.
pub(crate) struct RowWriter<'f, F> {
    file: &'f F,
    base: Offset,
    position: u64,
    buf: Vec<u8>,
}

impl<'f, F: DiskFile> RowWriter<'f, F> {
    pub(crate) fn new(file: &'f F, base: Offset, position: u64) -> Self {
        Self { file, base, position, buf: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: &Row) -> std::io::Result<()> {
        self.buf.extend_from_slice(&row.encode(self.base));
        if self.buf.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        if !self.buf.is_empty() {
            self.file.write_all_at(&[IoSlice::new(&self.buf)], self.position)?;
            self.position += self.buf.len() as u64;
            self.buf.clear();
        }
        Ok(())
    }
}

/// Replaces the index of `segment`, and opens it. Returns the damaged batches too. A damaged batch keeps its
/// row if that is whole. A whole batch counts as damaged if nothing tells at which offset it is, because no
/// checksum covers a batch's offset and epoch. It gets all the offsets that it may have.
///
/// # Errors
/// [`LogError::Damaged`] if neither the batch nor its row tells what is at a position. The disk's errors.
pub(crate) fn rebuild_index<D: Disk>(
    disk: &D,
    segment: &Segment<D>,
    log: &D::File,
) -> Result<(D::File, Vec<Suspect>), LogError> {
    let path = segment.path(Kind::Index);
    let temporary = with_suffix(&path, TEMPORARY_SUFFIX);
    let old = disk.open(&path, OpenMode::Read).ok();
    let (side, _) = SideFile::load(disk, segment.dir())?;
    let file = disk.open(&temporary, OpenMode::Truncate).context("create", &temporary)?;
    file.write_all_at(&[IoSlice::new(&encode_head(segment.base_offset))], 0).context("write", &temporary)?;
    let rebuild = Rebuild { segment, log, side: &side, old: old.as_ref() };
    let suspects = rebuild.write_rows(&file)?;
    file.sync_all().context("sync", &temporary)?;
    disk.rename(&temporary, &path).context("rename", &temporary)?;
    sync_parent(disk, &path)?;
    Ok((file, suspects))
}

struct Rebuild<'a, D: Disk> {
    segment: &'a Segment<D>,
    log: &'a D::File,
    side: &'a SideFile,
    /// The old index.
    old: Option<&'a D::File>,
}

impl<D: Disk> Rebuild<'_, D> {
    fn write_rows(&self, file: &D::File) -> Result<Vec<Suspect>, LogError> {
        let segment = self.segment;
        let (log_path, index_path) = (segment.path(Kind::Log), segment.path(Kind::Index));
        let len = self.log.len_of(&log_path)?.min(u64::from(segment.bytes()));
        let mut scanner = BatchScanner::new(self.log, 0, len);
        let mut chain = Chain::new(segment);
        let mut writer = RowWriter::new(file, segment.base_offset, row_position(0));
        let (mut next, mut running_max) = (segment.first_raft_index, TimestampMs::NONE);
        let mut suspects = Vec::new();
        let mut write = |link: Link| {
            let mut row = link.row;
            if !link.keeps_index {
                next = self.side.next_free(next);
                row.raft_index = next;
            }
            row.running_max_timestamp = row.max_timestamp.max(running_max);
            (next, running_max) = (RaftIndex(row.raft_index.0 + 1), row.running_max_timestamp);
            suspects.extend(link.fault.map(|reason| Suspect { row, reason }));
            writer.push(&row).context("write", &index_path)
        };
        for number in 0..segment.rows() {
            let link = match scanner.next_or_unreadable().context("read", &log_path)? {
                Scanned::Batch { header, position, .. } => self.link(number, &header, position),
                found => {
                    let (position, reason) = match found {
                        Scanned::Bad { position, reason } => (position, reason),
                        _ => (len, "the file ends early".to_owned()),
                    };
                    let kept = self.old_row(number).filter(|row| u64::from(row.position) == position);
                    let row = kept.ok_or_else(|| LogError::damaged(&log_path, position, &*reason))?;
                    scanner.skip_to(u64::from(row.end_position()));
                    Link { row, trust: Trust::Certain, keeps_index: true, fault: Some(reason) }
                }
            };
            chain.push(link).map_err(|position| no_room(&log_path, position))?;
            chain.take_settled().into_iter().try_for_each(&mut write)?;
        }
        chain.end().map_err(|position| no_room(&log_path, position))?;
        chain.take_settled().into_iter().try_for_each(&mut write)?;
        writer.flush().context("write", &index_path)?;
        if scanner.position() != u64::from(segment.bytes()) {
            let reason = format!("{} batches do not reach its end", segment.rows());
            return Err(LogError::damaged(&log_path, scanner.position(), reason));
        }
        Ok(suspects)
    }

    /// Determines the row of a whole batch, and how far its offset and epoch can be trusted.
    fn link(&self, number: u32, header: &BatchHeader, position: u64) -> Link {
        let row = row_of(header, RaftIndex(0), position as u32, TimestampMs::NONE, 0);
        let fault = |trust| (trust == Trust::None).then(|| NOWHERE.to_owned());
        let link = |trust| Link { row, trust, keeps_index: false, fault: fault(trust) };
        if let Some(old) = self.old_row(number).filter(|old| u64::from(old.position) == position) {
            return match old.describes(header) {
                // Counting would yield a wrong raft index if compaction has removed some batches.
                true => Link {
                    row: Row { raft_index: old.raft_index, ..row },
                    keeps_index: true,
                    ..link(Trust::Certain)
                },
                false => Link {
                    row: old,
                    trust: Trust::Certain,
                    keeps_index: true,
                    fault: Some("the batch is not the one its index row describes".to_owned()),
                },
            };
        }
        let restored = |bytes: [u8; ROW_BYTES]| Row::restored(&bytes, self.segment.base_offset, &row);
        if let Some(row) = self.old_bytes(number).and_then(restored) {
            return Link { row, keeps_index: true, ..link(Trust::Certain) };
        }
        let places = |row: &Row| (row.base_offset, row.leader_epoch);
        match self.old_bytes(number).map(|bytes| Row::decode_unchecked(&bytes, self.segment.base_offset)) {
            // The row is damaged elsewhere.
            Some(old) if old.batch_crc == row.batch_crc && places(&old) == places(&row) => {
                link(Trust::Certain)
            }
            // Either the batch or the row is damaged in these fields.
            Some(old) if old.batch_crc == row.batch_crc => link(Trust::None),
            _ => link(Trust::Plausible),
        }
    }

    fn old_row(&self, number: u32) -> Option<Row> {
        Row::decode(&self.old_bytes(number)?, self.segment.base_offset)
    }

    fn old_bytes(&self, number: u32) -> Option<[u8; ROW_BYTES]> {
        let mut bytes = [0; ROW_BYTES];
        let read = read_full_at(self.old?, &mut bytes, row_position(number)).ok()?;
        (read == ROW_BYTES).then_some(bytes)
    }
}

fn no_room(path: &std::path::Path, position: u32) -> LogError {
    LogError::damaged(path, u64::from(position), "neither the batch nor its row gives its offset")
}

/// The fault of a whole batch whose offset is unknown.
const NOWHERE: &str = "nothing gives its offset";

/// The trust in the offset and the epoch of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The index has the same ones.
    Certain,
    /// Only the batch has them.
    Plausible,
    /// They are not trusted.
    None,
}

/// The row of one batch, before it is known whether it fits between its neighbours.
#[derive(Clone, Debug)]
struct Link {
    row: Row,
    trust: Trust,
    /// True if the row existed before, with its raft index.
    keeps_index: bool,
    /// The fault of the batch, if it is damaged.
    fault: Option<String>,
}

impl Link {
    fn doubt(&mut self) {
        self.trust = Trust::None;
        self.fault = Some(NOWHERE.to_owned());
    }
}

/// The rows of a segment in order, each checked against its neighbours.
struct Chain {
    /// One past the last offset of the settled rows.
    floor: Offset,
    epoch: LeaderEpoch,
    /// End offset of the segment.
    end: Offset,
    /// Rows that wait for their successors: some that are not trusted, and then perhaps one that is
    /// plausible.
    open: Vec<Link>,
    settled: Vec<Link>,
}

impl Chain {
    fn new<D: Disk>(segment: &Segment<D>) -> Self {
        Self {
            floor: segment.base_offset,
            epoch: LeaderEpoch::UNKNOWN,
            end: segment.end_offset(),
            open: Vec::new(),
            settled: Vec::new(),
        }
    }

    /// # Errors
    /// The position of a batch for which there are no offsets.
    fn push(&mut self, mut link: Link) -> Result<(), u32> {
        if link.trust == Trust::Plausible && !self.fits(&link.row) {
            link.doubt();
        }
        // The previous row may be the wrong one. If neither is certain, there is no way to tell which.
        if let Some(before) = self.open.last_mut().filter(|before| before.trust == Trust::Plausible)
            && link.trust != Trust::None
            && (link.row.base_offset < before.row.next_offset()
                || link.row.leader_epoch < before.row.leader_epoch)
        {
            before.doubt();
            if link.trust == Trust::Plausible {
                link.doubt();
            }
        }
        match link.trust {
            Trust::Certain => {
                self.close(link.row.base_offset)?;
                self.settle(link);
            }
            Trust::Plausible if self.open.last().is_some_and(|before| before.trust == Trust::Plausible) => {
                self.close(link.row.base_offset)?;
                self.open.push(link);
            }
            Trust::Plausible | Trust::None => self.open.push(link),
        }
        Ok(())
    }

    /// True if a batch may follow the others at its claimed offset. Compaction may have left holes.
    fn fits(&self, row: &Row) -> bool {
        let least = match self.open.last() {
            Some(before) if before.trust == Trust::Plausible => self.floor,
            // Each of them has at least one offset.
            _ => self.floor.plus(self.open.len() as i64),
        };
        row.base_offset >= least && row.next_offset() <= self.end && row.leader_epoch >= self.epoch
    }

    fn end(&mut self) -> Result<(), u32> {
        self.close(self.end)
    }

    /// Settles all open rows, below `upto`.
    fn close(&mut self, upto: Offset) -> Result<(), u32> {
        let open = std::mem::take(&mut self.open);
        for (number, mut link) in open.iter().cloned().enumerate() {
            if link.trust == Trust::None {
                // All offsets up to the next trusted row. Of several untrusted rows in a row, the last one
                // gets them.
                let limit = match open.get(number + 1) {
                    Some(next) if next.trust == Trust::None => self.floor.plus(1),
                    Some(next) => next.row.base_offset,
                    None => upto,
                };
                let length = limit.0 - self.floor.0;
                let delta = u32::try_from(length - 1).map_err(|_| link.row.position)?;
                let epoch = self.epoch.max(LeaderEpoch(0));
                link.row = Row {
                    base_offset: self.floor,
                    last_offset_delta: delta,
                    leader_epoch: epoch,
                    ..link.row
                };
            }
            if link.row.base_offset < self.floor || link.row.next_offset() > upto {
                return Err(link.row.position);
            }
            self.settle(link);
        }
        Ok(())
    }

    fn settle(&mut self, link: Link) {
        (self.floor, self.epoch) = (link.row.next_offset(), link.row.leader_epoch.max(self.epoch));
        self.settled.push(link);
    }

    fn take_settled(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.settled)
    }
}
