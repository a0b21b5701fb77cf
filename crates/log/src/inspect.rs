//! Looking at a partition's folder offline: `tailrace log verify` and `tailrace log dump`. Read only; nothing is recovered,
//! rebuilt or removed. Also reads folders that Kafka wrote, as far as the `.log` files go.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use tailrace_records::BatchHeader;
use tailrace_types::{LeaderEpoch, Offset, TimestampMs};

use crate::config::PartitionIdentity;
use crate::disk::{Disk, DiskFile, OpenMode, read_file, read_full_at};
use crate::entries::SideFile;
use crate::error::{IoContext, LogError};
use crate::folder::{Listing, read_identity};
use crate::format::checkpoint::{self, Checkpoint};
use crate::format::names::{self, Kind};
use crate::format::row::{ROW_BYTES, Row, check_head, row_position};
use crate::generations::SegmentName;
use crate::scan::{BatchScanner, Scanned};

/// What [`verify_dir`] found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Whose log it is, if the folder says.
    pub identity: Option<PartitionIdentity>,
    /// First offset that may be read, if there is a checkpoint.
    pub log_start: Option<Offset>,
    /// The recovery point, if there is a checkpoint: what lies beyond is not known to be durable.
    pub recovery_point: Option<Offset>,
    /// Entries without records.
    pub entries: u64,
    /// The segments, oldest first.
    pub segments: Vec<SegmentReport>,
    /// What is wrong with the folder as a whole. Each segment has its own list.
    pub problems: Vec<Problem>,
}

/// What one segment holds.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// The `.log`.
    pub file: PathBuf,
    /// From its name.
    pub base_offset: Offset,
    /// One past the last offset of the last good batch.
    pub next_offset: Offset,
    /// Good batches.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Length of the `.log`.
    pub bytes: u64,
    /// Bytes of good batches.
    pub good_bytes: u64,
    /// Largest timestamp.
    pub max_timestamp: TimestampMs,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub file: PathBuf,
    /// Position in the file.
    pub position: u64,
    /// What was expected and what was found.
    pub reason: String,
    /// It lies beyond the recovery point: the next start puts it right.
    pub is_recoverable: bool,
}

impl Report {
    /// All problems, those of segments included.
    pub fn all_problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().chain(self.segments.iter().flat_map(|s| &s.problems))
    }

    /// True if there is no problem but those that the next start puts right.
    pub fn is_sound(&self) -> bool {
        self.all_problems().all(|problem| problem.is_recoverable)
    }
}

/// Reads every byte of a partition's folder and says what is wrong with it.
///
/// # Errors
/// Only what the disk says. Damage is in the report.
pub fn verify_dir<D: Disk>(disk: &D, dir: &Path) -> Result<Report, LogError> {
    let mut listing = Listing::read(disk, dir)?;
    let mut report = Report::default();
    match read_identity(disk, dir) {
        Ok(identity) => report.identity = identity,
        Err(error) => report.problems.push(problem_of(error)?),
    }
    match SideFile::load(disk, dir) {
        Ok((side, torn)) => {
            report.entries = side.entries().len() as u64;
            if torn > 0 {
                let reason = format!("{torn} torn bytes at the end");
                report.problems.push(Problem {
                    file: dir.join(names::ENTRIES),
                    position: 0,
                    reason,
                    is_recoverable: true,
                });
            }
        }
        Err(error) => report.problems.push(problem_of(error)?),
    }
    let checkpoint = read_checkpoint(disk, dir, &mut report)?;
    let mut last = LeaderEpoch::UNKNOWN;
    let names = counting(disk, dir, &mut listing, checkpoint.as_ref())?;
    for (number, &(base, generation)) in names.iter().enumerate() {
        let listed = checkpoint
            .as_ref()
            .and_then(|c| c.segments.iter().find(|s| (s.base_offset, s.generation) == (base, generation)));
        let durable_bytes = listed.map_or(0, |s| u64::from(s.bytes));
        let mut segment = verify_segment(disk, dir, (base, generation), durable_bytes, &mut last)?;
        let before = number.checked_sub(1).map(|n| &report.segments[n]);
        if let Some(before) = before.filter(|before| before.next_offset != base) {
            let overlaps = before.next_offset > base;
            let reason = format!("the segment before it ends at offset {}", before.next_offset);
            let (file, is_recoverable) = (segment.file.clone(), !overlaps && listed.is_none());
            segment.problems.push(Problem { file, position: 0, reason, is_recoverable });
        }
        report.segments.push(segment);
    }
    for missing in checkpoint.iter().flat_map(|c| &c.segments) {
        if !names.contains(&(missing.base_offset, missing.generation)) {
            let file = names::path_of(dir, missing.base_offset, missing.generation, Kind::Log);
            let reason = "the checkpoint lists it, and it is missing".to_owned();
            report.problems.push(Problem { file, position: 0, reason, is_recoverable: false });
        }
    }
    Ok(report)
}

/// The segments that count, in order. What compaction has left beside them goes at the next start.
fn counting<D: Disk>(
    disk: &D,
    dir: &Path,
    listing: &mut Listing,
    checkpoint: Option<&Checkpoint>,
) -> Result<Vec<SegmentName>, LogError> {
    let mut names: Vec<SegmentName> = match checkpoint {
        Some(checkpoint) => {
            listing.settle_by(checkpoint);
            let appended = listing.segments.iter().map(|base| (*base, 0));
            appended.chain(listing.compacted.iter().copied()).collect()
        }
        None => {
            let (_, headers) = listing.settle_alone(disk, dir)?;
            let generation = |base| headers.get(base).and_then(|h| h.compacted).map_or(0, |c| c.generation);
            listing.segments.iter().map(|base| (*base, generation(base))).collect()
        }
    };
    names.sort_unstable();
    Ok(names)
}

/// Damage becomes a problem; what the disk says stays an error.
fn problem_of(error: LogError) -> Result<Problem, LogError> {
    match error {
        LogError::Damaged { file, position, reason } => {
            Ok(Problem { file, position, reason, is_recoverable: false })
        }
        LogError::NewerFormat { ref file, .. } => {
            let (file, reason) = (file.clone(), error.to_string());
            Ok(Problem { file, position: 8, reason, is_recoverable: false })
        }
        error => Err(error),
    }
}

fn read_checkpoint<D: Disk>(
    disk: &D,
    dir: &Path,
    report: &mut Report,
) -> Result<Option<Checkpoint>, LogError> {
    let path = dir.join(names::CHECKPOINT);
    let Some(bytes) = read_file(disk, &path, checkpoint::BYTES_MAX).context("read", &path)? else {
        return Ok(None);
    };
    match Checkpoint::decode(&bytes) {
        Ok(checkpoint) => {
            report.log_start = Some(checkpoint.log_start);
            report.recovery_point = Some(checkpoint.end_offset);
            Ok(Some(checkpoint))
        }
        Err(error) => {
            report.problems.push(problem_of(error.in_file(&path))?);
            Ok(None)
        }
    }
}

fn verify_segment<D: Disk>(
    disk: &D,
    dir: &Path,
    (base, generation): SegmentName,
    durable_bytes: u64,
    last_epoch: &mut LeaderEpoch,
) -> Result<SegmentReport, LogError> {
    let file = names::path_of(dir, base, generation, Kind::Log);
    let log = disk.open(&file, OpenMode::Read).context("open", &file)?;
    let bytes = log.len().context("read the length of", &file)?;
    let mut report = SegmentReport {
        file: file.clone(),
        base_offset: base,
        next_offset: base,
        batches: 0,
        records: 0,
        bytes,
        good_bytes: 0,
        max_timestamp: TimestampMs::NONE,
        problems: Vec::new(),
    };
    let rows = RowFile::open(disk, dir, (base, generation), durable_bytes, &mut report.problems)?;
    let mut scanner = BatchScanner::new(&log, 0, bytes);
    loop {
        let (position, reason) = match scanner.next().context("read", &file)? {
            Scanned::End => break,
            Scanned::Bad { position, reason } => (position, reason),
            Scanned::Batch { header, position, .. } => {
                let is_durable = position < durable_bytes;
                if let Some(rows) = &rows {
                    rows.compare(report.batches, position, &header, is_durable, &mut report.problems)?;
                }
                match continuity(&report, *last_epoch, &header) {
                    Some(reason) => (position, reason),
                    None => {
                        report.batches += 1;
                        report.records += u64::try_from(header.record_count).unwrap_or(0);
                        report.next_offset = header.next_offset();
                        report.good_bytes = position + header.total_bytes() as u64;
                        report.max_timestamp = report.max_timestamp.max(header.max_timestamp);
                        *last_epoch = header.leader_epoch;
                        continue;
                    }
                }
            }
        };
        report.problems.push(Problem { file, position, reason, is_recoverable: position >= durable_bytes });
        break;
    }
    Ok(report)
}

fn continuity(report: &SegmentReport, last_epoch: LeaderEpoch, batch: &BatchHeader) -> Option<String> {
    let (offset, expected) = (batch.base_offset, report.next_offset);
    if offset < expected {
        return Some(format!("a batch at offset {offset}, expected {expected} or later"));
    }
    let epoch = batch.leader_epoch;
    (epoch < last_epoch).then(|| format!("a batch of epoch {epoch} after epoch {last_epoch}"))
}

/// The index beside a `.log` under inspection.
struct RowFile<F> {
    file: F,
    path: PathBuf,
    base: Offset,
}

impl<F: DiskFile> RowFile<F> {
    /// `None` if there is no usable index, which the next use rebuilds.
    fn open<D: Disk<File = F>>(
        disk: &D,
        dir: &Path,
        (base, generation): SegmentName,
        durable_bytes: u64,
        problems: &mut Vec<Problem>,
    ) -> Result<Option<Self>, LogError> {
        let path = names::path_of(dir, base, generation, Kind::Index);
        let file = match disk.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if durable_bytes > 0 {
                    let reason = "the index is missing and will be rebuilt".to_owned();
                    problems.push(Problem { file: path, position: 0, reason, is_recoverable: true });
                }
                return Ok(None);
            }
            Err(error) => return Err(LogError::io("open", &path, error)),
        };
        let mut head = [0; ROW_BYTES];
        let read = read_full_at(&file, &mut head, 0).context("read", &path)?;
        if let Err(error) = check_head(&head[..read], base) {
            let reason = format!("{error}: not an index of tailrace, or damaged; it will be rebuilt");
            problems.push(Problem { file: path, position: 0, reason, is_recoverable: true });
            return Ok(None);
        }
        Ok(Some(Self { file, path, base }))
    }

    fn compare(
        &self,
        number: u64,
        batch_position: u64,
        batch: &BatchHeader,
        is_durable: bool,
        problems: &mut Vec<Problem>,
    ) -> Result<(), LogError> {
        let position = row_position(u32::try_from(number).unwrap_or(u32::MAX));
        let mut row = [0; ROW_BYTES];
        let read = read_full_at(&self.file, &mut row, position).context("read", &self.path)?;
        let reason = match Row::decode(&row, self.base) {
            _ if read < ROW_BYTES => format!("row {number} is missing"),
            None => format!("row {number} has a wrong checksum"),
            Some(row) if !row.describes(batch) || u64::from(row.position) != batch_position => {
                format!("row {number} describes another batch than the one at {batch_position}")
            }
            Some(_) => return Ok(()),
        };
        problems.push(Problem { file: self.path.clone(), position, reason, is_recoverable: !is_durable });
        Ok(())
    }
}

/// One batch of a dump.
#[derive(Clone, Debug)]
pub struct DumpedBatch {
    /// The `.log` it lies in.
    pub file: PathBuf,
    /// Where.
    pub position: u64,
    /// Its header.
    pub header: BatchHeader,
    /// The whole batch. Its CRC is right.
    pub bytes: Bytes,
}

/// The batches of a folder in order. See [`dump_dir`].
pub struct Dump<D: Disk> {
    disk: D,
    /// `.log` files that are left, last first.
    files: Vec<PathBuf>,
    open: Option<(D::File, PathBuf, u64, u64)>,
}

/// Walks over all batches of a partition's folder, or over those of one `.log` if `path` is one. A bad batch is an
/// error; the walk goes on with the next segment.
///
/// # Errors
/// If the folder cannot be listed.
pub fn dump_dir<D: Disk>(disk: &D, path: &Path) -> Result<Dump<D>, LogError> {
    let is_segment = path.extension().is_some_and(|extension| extension == "log");
    let mut files = if is_segment {
        vec![path.to_owned()]
    } else {
        let mut listing = Listing::read(disk, path)?;
        // What cannot be read is not asked: the log itself is what is looked at.
        let checkpoint = read_checkpoint(disk, path, &mut Report::default())?;
        let names = counting(disk, path, &mut listing, checkpoint.as_ref())?;
        names.iter().map(|name| names::path_of(path, name.0, name.1, Kind::Log)).collect::<Vec<_>>()
    };
    files.reverse();
    Ok(Dump { disk: disk.clone(), files, open: None })
}

impl<D: Disk> Dump<D> {
    fn advance(&mut self) -> Result<Option<DumpedBatch>, LogError> {
        loop {
            if self.open.is_none() {
                let Some(path) = self.files.pop() else { return Ok(None) };
                let file = self.disk.open(&path, OpenMode::Read).context("open", &path)?;
                let len = file.len().context("read the length of", &path)?;
                self.open = Some((file, path, 0, len));
            }
            let Some((file, path, position, len)) = &mut self.open else { continue };
            let mut scanner = BatchScanner::new(file, *position, *len);
            scanner.read_exactly();
            match scanner.next().context("read", path)? {
                Scanned::Batch { header, position: at, bytes } => {
                    let bytes = Bytes::copy_from_slice(bytes);
                    let dumped = DumpedBatch { file: path.clone(), position: at, header, bytes };
                    *position = at + dumped.bytes.len() as u64;
                    return Ok(Some(dumped));
                }
                Scanned::End => self.open = None,
                Scanned::Bad { position, reason } => {
                    let error = LogError::damaged(path, position, reason);
                    self.open = None;
                    return Err(error);
                }
            }
        }
    }
}

impl<D: Disk> Iterator for Dump<D> {
    type Item = Result<DumpedBatch, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(dumped) => dumped.map(Ok),
            Err(error) => {
                self.open = None;
                Some(Err(error))
            }
        }
    }
}
