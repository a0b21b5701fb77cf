//! Scrubbing: reads a whole segment to check that it still is what was written.

use std::sync::Arc;

use tailrace_records::BatchHeader;
use tailrace_types::{LeaderEpoch, Offset, RaftIndex};

use crate::compact::Pace;
use crate::damage::{Damage, DamagedRange};
use crate::disk::{Disk, DiskFile, OpenMode, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::names::Kind;
use crate::format::row::{ROW_BYTES, Row, check_head, row_position};
use crate::reader::LogReader;
use crate::rows::Rows;
use crate::scan::{BatchScanner, Scanned};
use crate::segment::{LenOf, Segment};

/// Rows per read: 64 KiB.
const ROWS_AT_ONCE: u32 = 1024;

/// A segment to scrub, with its current rows.
pub struct ScrubTarget<D: Disk> {
    segment: Arc<Segment<D>>,
    rows: u32,
}

/// The result of scrubbing a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scrubbed {
    /// Everything is as it was written.
    Sound,
    /// The segment was removed or truncated in the meantime.
    Gone,
    /// Something is damaged.
    Damaged {
        /// Damaged batches of the `.log`. Only they are out of service from now on.
        log: Vec<Damage>,
        /// Damage to the index. It can be rebuilt ([`Log::repair_index`](crate::Log::repair_index)).
        index: Option<Damage>,
    },
}

/// The most damages of one segment that are reported individually. Further ones are out of service all the
/// same.
const TOLD_MAX: usize = 100;

impl<D: Disk> ScrubTarget<D> {
    /// Base offset of the segment.
    pub fn base_offset(&self) -> Offset {
        self.segment.base_offset
    }

    /// Length of the `.log` in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.segment.bytes())
    }
}

impl<D: Disk> LogReader<D> {
    /// Returns all segments with batches, oldest first.
    pub fn scrub_targets(&self) -> Vec<ScrubTarget<D>> {
        let list = self.segments.load();
        let with_batches = list.iter().filter(|s| s.rows() > 0);
        with_batches.map(|s| ScrubTarget { rows: s.rows(), segment: Arc::clone(s) }).collect()
    }

    /// Reads a segment and checks: every batch's length and checksum, every row's checksum, that each row
    /// matches its batch, and that offsets, epochs and raft indexes are in order. A damaged batch that is
    /// whole again is served again. Does not take the log's lock.
    ///
    /// # Errors
    /// The disk's errors, except those that are damage. The error with which `pace` stops.
    pub fn scrub(&self, target: &ScrubTarget<D>, pace: &mut impl Pace) -> Result<Scrubbed, LogError> {
        let segment = &target.segment;
        let mut ranges = Vec::new();
        let walked = Walk::open(self, segment, target.rows).and_then(|mut walk| {
            let walked = walk.run(pace);
            walk.forget();
            ranges = walk.damaged;
            walked.map(|()| walk.wrong_index)
        });
        let index = match walked {
            Ok(index) => index,
            Err(error) => {
                let damage = self.missing_or(&error, segment).ok_or(error)?;
                let (base_offset, end_offset) = (segment.base_offset, segment.end_offset());
                ranges = vec![DamagedRange::found(base_offset, end_offset, damage)];
                None
            }
        };
        if !self.segments.load().iter().any(|other| Arc::ptr_eq(other, segment)) {
            return Ok(Scrubbed::Gone);
        }
        self.replace_damage(segment, &ranges);
        if ranges.is_empty() && index.is_none() {
            return Ok(Scrubbed::Sound);
        }
        Ok(Scrubbed::Damaged {
            log: ranges.into_iter().take(TOLD_MAX).map(|range| range.damage).collect(),
            index,
        })
    }

    /// Replaces the known damage of a segment with the damage found.
    fn replace_damage(&self, segment: &Arc<Segment<D>>, found: &[DamagedRange]) {
        let known = self.damage.all();
        let (base, end) = (segment.base_offset, segment.end_offset());
        for range in known.iter().filter(|range| (base..end).contains(&range.base_offset) && !range.is_lost) {
            let overlaps =
                |f: &DamagedRange| f.base_offset < range.end_offset && f.end_offset > range.base_offset;
            if !found.iter().any(overlaps) && self.is_covered(segment, range).unwrap_or(false) {
                self.open_again(range);
                self.damage.forget(range.base_offset, range.end_offset);
            }
        }
        for range in found {
            self.damage.add(range);
        }
    }

    /// True if the rows of a segment cover a range without a hole.
    fn is_covered(&self, segment: &Arc<Segment<D>>, range: &DamagedRange) -> Result<bool, LogError> {
        let files = self.files(segment)?;
        let mut rows = Rows::new(segment, &files);
        let mut next = range.base_offset;
        for number in rows.first_where(|row| row.next_offset() > range.base_offset)?..rows.count {
            let row = rows.get_ahead(number)?;
            if next >= range.end_offset || row.base_offset > next {
                break;
            }
            next = row.next_offset();
        }
        Ok(next >= range.end_offset)
    }

    /// Returns the damage in an error. A missing `.log` of a listed segment also counts.
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

/// The scrub of one segment.
pub(crate) struct Walk<'a, D: Disk> {
    reader: &'a LogReader<D>,
    segment: &'a Segment<D>,
    rows: u32,
    log: Arc<D::File>,
    index: Option<D::File>,
    window: Vec<u8>,
    window_first: u32,
    /// The first damage of the index. Its other rows still locate batches.
    pub(crate) wrong_index: Option<Damage>,
    next_offset: Offset,
    last_epoch: LeaderEpoch,
    last_index: RaftIndex,
    /// The damage of the `.log`.
    pub(crate) damaged: Vec<DamagedRange>,
    /// Counts of whole batches, their records and their bytes.
    pub(crate) batches: u64,
    pub(crate) records: u64,
    pub(crate) good_bytes: u64,
}

impl<'a, D: Disk> Walk<'a, D> {
    pub(crate) fn open(
        reader: &'a LogReader<D>,
        segment: &'a Segment<D>,
        rows: u32,
    ) -> Result<Self, LogError> {
        let disk = reader.store.disk();
        let path = segment.path(Kind::Log);
        // Opens the files separately, so that a scrub of everything does not evict files in use from the
        // table of open files.
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
            damaged: Vec::new(),
            batches: 0,
            records: 0,
            good_bytes: 0,
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

    /// Reads the whole segment.
    pub(crate) fn run(&mut self, pace: &mut impl Pace) -> Result<(), LogError> {
        let path = self.segment.path(Kind::Log);
        let log = Arc::clone(&self.log);
        let len = log.len_of(&path)?;
        // The file may already hold appended bytes that have no published row.
        let mut scanner = BatchScanner::new(log.as_ref(), 0, len.min(u64::from(self.segment.bytes())));
        let mut spent = 0;
        // A whole batch whose offsets are unknown. They end where the next batch starts.
        let mut nowhere: Option<Damage> = None;
        for number in 0..self.rows {
            let row = self.row(number);
            let (position, reason) = match scanner.next_or_unreadable().context("read", &path)? {
                Scanned::End => {
                    (scanner.position(), format!("it ends after {number} batches, expected {}", self.rows))
                }
                Scanned::Bad { position, reason } => (position, reason),
                Scanned::Batch { header, position, .. } => {
                    match self.wrong(&header, position, row.as_ref()) {
                        Some(reason) if row.is_none() => {
                            nowhere.get_or_insert(Damage { file: path.clone(), position, reason });
                            continue;
                        }
                        Some(reason) => (position, reason),
                        None => {
                            self.note_nowhere(nowhere.take(), header.base_offset);
                            (self.next_offset, self.last_epoch) = (header.next_offset(), header.leader_epoch);
                            self.batches += 1;
                            self.records += header.records();
                            self.good_bytes += header.total_bytes() as u64;
                            let bytes = std::mem::replace(&mut spent, scanner.bytes_read);
                            pace.spend(scanner.bytes_read - bytes)?;
                            continue;
                        }
                    }
                }
            };
            let damage = Damage { file: path.clone(), position, reason };
            let limit = row.as_ref().map_or(self.next_offset, |row| row.base_offset);
            self.note_nowhere(nowhere.take(), limit);
            let Some(row) = row.filter(|row| u64::from(row.end_position()) > position) else {
                // Nothing tells where the next batch starts.
                let (base_offset, end_offset) = (self.next_offset, self.segment.end_offset());
                self.damaged.push(DamagedRange::found(base_offset, end_offset, damage));
                break;
            };
            let (base_offset, end_offset) = (row.base_offset, row.next_offset());
            self.damaged.push(DamagedRange::found(base_offset, end_offset, damage));
            scanner.skip_to(u64::from(row.end_position()));
            (self.next_offset, self.last_index) = (row.next_offset(), row.raft_index);
        }
        self.note_nowhere(nowhere, self.segment.end_offset());
        Ok(())
    }

    fn note_nowhere(&mut self, damage: Option<Damage>, upto: Offset) {
        let Some(damage) = damage.filter(|_| upto > self.next_offset) else { return };
        self.damaged.push(DamagedRange::found(self.next_offset, upto, damage));
    }

    /// Returns row `number`, if it can be trusted.
    fn row(&mut self, number: u32) -> Option<Row> {
        let in_window = |walk: &Self| {
            number >= walk.window_first && number - walk.window_first < (walk.window.len() / ROW_BYTES) as u32
        };
        if number >= self.rows {
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
                    self.index = None;
                    self.window.clear();
                    return None;
                }
                Err(error) => {
                    self.blame_index(position, &error.to_string());
                    self.index = None;
                    self.window.clear();
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

    /// Returns the fault of a batch whose checksum is right.
    fn wrong(&mut self, header: &BatchHeader, position: u64, row: Option<&Row>) -> Option<String> {
        let (base, epoch) = (header.base_offset, header.leader_epoch);
        if base < self.next_offset || header.next_offset() > self.segment.end_offset() {
            return Some(format!("a batch at offset {base}, expected {} or later", self.next_offset));
        }
        // The batch's checksum covers neither of them.
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

    /// Drops the segment from the page cache if no one else has it open.
    fn forget(&self) {
        if !self.segment.is_open() {
            self.log.forget(0, u64::from(self.segment.bytes()));
            if let Some(index) = &self.index {
                index.forget(0, row_position(self.rows));
            }
        }
    }
}
