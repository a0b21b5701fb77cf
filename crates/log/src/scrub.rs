//! Scrubbing: reading a segment as a whole, only to see whether it still is what was written.

use std::sync::Arc;

use tailrace_records::BatchHeader;
use tailrace_types::{LeaderEpoch, Offset, RaftIndex};

use crate::compact::Pace;
use crate::damage::Damage;
use crate::disk::{Disk, DiskFile, OpenMode, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::names::Kind;
use crate::format::row::{ROW_BYTES, Row, check_head, row_position};
use crate::reader::LogReader;
use crate::scan::{BatchScanner, Scanned};
use crate::segment::Segment;

/// Rows read at once: 64 KiB.
const ROWS_AT_ONCE: u32 = 1024;

/// A segment that is to be scrubbed: all that is in it now.
pub struct ScrubTarget<D: Disk> {
    segment: Arc<Segment<D>>,
    rows: u32,
}

/// What scrubbing a segment has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scrubbed {
    /// All is as it was written.
    Sound,
    /// The segment was removed, or cut, meanwhile.
    Gone,
    /// The `.log` is sound and the index is not: it can be built anew.
    Index(Damage),
    /// The `.log` is damaged. The segment is out of service from now on.
    Log(Damage),
}

impl<D: Disk> ScrubTarget<D> {
    /// What the segment is named by.
    pub fn base_offset(&self) -> Offset {
        self.segment.base_offset
    }

    /// Bytes of the `.log`.
    pub fn bytes(&self) -> u64 {
        u64::from(self.segment.bytes())
    }
}

impl<D: Disk> LogReader<D> {
    /// All segments that have batches and are in service, oldest first.
    pub fn scrub_targets(&self) -> Vec<ScrubTarget<D>> {
        let list = self.segments.load();
        let in_service = list.iter().filter(|s| s.rows() > 0 && s.damage.get().is_none());
        in_service.map(|s| ScrubTarget { rows: s.rows(), segment: Arc::clone(s) }).collect()
    }

    /// Reads a segment: every batch's length and checksum, every row's, that each row is that of its batch, and that offsets, epochs
    /// and raft indexes go on. Takes no lock of the log's.
    ///
    /// # Errors
    /// What the disk says, if it is not about the data; what `pace` stops with.
    pub fn scrub(&self, target: &ScrubTarget<D>, pace: &mut impl Pace) -> Result<Scrubbed, LogError> {
        let segment = &target.segment;
        let walked = Walk::open(self, segment, target.rows).and_then(|mut walk| {
            let walked = walk.run(pace);
            walk.forget();
            walked
        });
        let listed = self.segments.load().iter().any(|other| Arc::ptr_eq(other, segment));
        match walked {
            Ok(None) => Ok(Scrubbed::Sound),
            _ if !listed => Ok(Scrubbed::Gone),
            Ok(Some(index)) => Ok(Scrubbed::Index(index)),
            Err(error) => match self.missing_or(&error, segment) {
                Some(damage) => {
                    segment.condemn(self, &LogError::damaged(&damage.file, damage.position, &damage.reason));
                    Ok(Scrubbed::Log(damage))
                }
                None => Err(error),
            },
        }
    }

    /// The damage that an error tells of; that the `.log` of a listed segment is missing, too.
    fn missing_or(&self, error: &LogError, segment: &Segment<D>) -> Option<Damage> {
        match error {
            LogError::Io { path, source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                let is_log = *path == segment.path(Kind::Log);
                let reason = "it is missing".to_owned();
                is_log.then(|| Damage { file: path.clone(), position: 0, reason })
            }
            error => Damage::of(error),
        }
    }
}

/// One segment on its way through.
struct Walk<'a, D: Disk> {
    reader: &'a LogReader<D>,
    segment: &'a Segment<D>,
    rows: u32,
    log: Arc<D::File>,
    index: Option<D::File>,
    window: Vec<u8>,
    window_first: u32,
    /// What is wrong with the index. It is not looked at any more then.
    wrong_index: Option<Damage>,
    next_offset: Offset,
    last_epoch: LeaderEpoch,
    last_index: RaftIndex,
}

impl<'a, D: Disk> Walk<'a, D> {
    fn open(reader: &'a LogReader<D>, segment: &'a Segment<D>, rows: u32) -> Result<Self, LogError> {
        let disk = reader.store.disk();
        let path = segment.path(Kind::Log);
        // Files of its own: a scrub of everything must not push what is in use out of the table of open files.
        let log = Arc::new(disk.open(&path, OpenMode::Read).context("open", &path)?);
        let mut walk = Self {
            reader,
            segment,
            rows,
            log,
            index: None,
            window: Vec::new(),
            window_first: 0,
            wrong_index: None,
            next_offset: segment.base_offset,
            last_epoch: LeaderEpoch::UNKNOWN,
            last_index: RaftIndex(segment.first_raft_index.0.saturating_sub(1)),
        };
        walk.open_index();
        Ok(walk)
    }

    fn open_index(&mut self) {
        let path = self.segment.path(Kind::Index);
        let opened = self.reader.store.disk().open(&path, OpenMode::Read).context("open", &path);
        let mut head = [0; ROW_BYTES];
        let checked = opened.and_then(|index| {
            let read = read_full_at(&index, &mut head, 0).context("read", &path)?;
            check_head(&head[..read], self.segment.base_offset).map_err(|error| error.in_file(&path))?;
            Ok(index)
        });
        match checked {
            Ok(index) => self.index = Some(index),
            Err(error) => self.blame_index(0, &error.to_string()),
        }
    }

    fn blame_index(&mut self, position: u64, reason: &str) {
        let file = self.segment.path(Kind::Index);
        self.wrong_index.get_or_insert(Damage { file, position, reason: reason.to_owned() });
    }

    /// Reads it all. What is wrong with the index, if anything.
    fn run(&mut self, pace: &mut impl Pace) -> Result<Option<Damage>, LogError> {
        let path = self.segment.path(Kind::Log);
        let log = Arc::clone(&self.log);
        // More may have been appended than the rows tell of.
        let mut scanner = BatchScanner::new(log.as_ref(), 0, u64::from(self.segment.bytes()));
        let (mut number, mut spent) = (0, 0);
        while number < self.rows {
            let damaged = |position, reason: String| Err(LogError::damaged(&path, position, reason));
            let (header, position) = match scanner.next().context("read", &path)? {
                Scanned::End => {
                    let reason = format!("{number} batches, expected {}", self.rows);
                    return damaged(u64::from(self.segment.bytes()), reason);
                }
                Scanned::Bad { position, reason } => return damaged(position, reason),
                Scanned::Batch { header, position, .. } => (header, position),
            };
            let row = self.row(number);
            if let Some(reason) = self.wrong(&header, position, row.as_ref()) {
                return damaged(position, reason);
            }
            (self.next_offset, self.last_epoch) = (header.next_offset(), header.leader_epoch);
            number += 1;
            let bytes = std::mem::replace(&mut spent, scanner.bytes_read);
            pace.spend(scanner.bytes_read - bytes)?;
        }
        Ok(self.wrong_index.take())
    }

    /// Row `number`, if the index can be believed.
    fn row(&mut self, number: u32) -> Option<Row> {
        let in_window = |walk: &Self| {
            number >= walk.window_first && number - walk.window_first < (walk.window.len() / ROW_BYTES) as u32
        };
        if self.wrong_index.is_some() || number >= self.rows {
            return None;
        }
        if !in_window(self) {
            let count = (self.rows - number).min(ROWS_AT_ONCE);
            self.window.resize(count as usize * ROW_BYTES, 0);
            self.window_first = number;
            let position = row_position(number);
            let index = self.index.as_ref()?;
            match read_full_at(index, &mut self.window, position) {
                Ok(read) if read == self.window.len() => {}
                Ok(read) => {
                    self.blame_index(position + read as u64, "the file ends early");
                    return None;
                }
                Err(error) => {
                    self.blame_index(position, &error.to_string());
                    return None;
                }
            }
        }
        let at = (number - self.window_first) as usize * ROW_BYTES;
        let row = Row::decode(&self.window[at..at + ROW_BYTES], self.segment.base_offset);
        if row.is_none() {
            self.blame_index(row_position(number), &format!("row {number} has a wrong checksum"));
        }
        row
    }

    /// What is wrong with a batch whose checksum is right.
    fn wrong(&mut self, header: &BatchHeader, position: u64, row: Option<&Row>) -> Option<String> {
        let (base, epoch) = (header.base_offset, header.leader_epoch);
        if base < self.next_offset || header.next_offset() > self.segment.end_offset() {
            return Some(format!("a batch at offset {base}, expected {} or later", self.next_offset));
        }
        // Neither is covered by the batch's checksum.
        let known = self.reader.epoch_at(base).unwrap_or(epoch);
        if epoch < self.last_epoch || epoch != known {
            return Some(format!("a batch of epoch {epoch}, expected {known}"));
        }
        let row = row?;
        if !row.describes(header) || u64::from(row.position) != position {
            return Some("the batch is not the one its index row describes".to_owned());
        }
        if row.raft_index <= self.last_index {
            self.blame_index(0, &format!("raft index {} comes after {}", row.raft_index, self.last_index));
        }
        self.last_index = row.raft_index;
        None
    }

    /// What nobody else reads need not stay in memory.
    fn forget(&self) {
        if !self.segment.is_open() {
            self.log.forget(0, u64::from(self.segment.bytes()));
            if let Some(index) = &self.index {
                index.forget(0, row_position(self.rows));
            }
        }
    }
}
