//! Repairs a damaged folder: `tailrace log repair`.
//!
//! Files that can be derived are rewritten. Records that another copy has are restored from there. Lost
//! records are given up if the operator permits it: a batch without records replaces them, so that offsets
//! stay, and the old bytes are kept in a separate file. Over an [`Overlay`](crate::Overlay) all of this
//! happens in memory, which shows what it would do.

use std::io::IoSlice;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tailrace_records::HEADER_BYTES;
use tailrace_types::{Offset, RaftIndex, TimestampMs, usize_of};

use crate::compact::Unhurried;
use crate::config::{LogConfig, PartitionIdentity};
use crate::damage::{DamagedRange, is_unreadable};
use crate::disk::{Disk, DiskFile, OpenMode, read_file, read_full_at, replace_file};
use crate::entries;
use crate::error::{IoContext, LogError};
use crate::format::names::{self, Kind};
use crate::format::row::{ROW_BYTES, Row, row_position};
use crate::format::{entry, identity};
use crate::inspect::identity_of;
use crate::listing::Listing;
use crate::log::Log;
use crate::mend::{GivenUp, Patch};
use crate::overlay::Overlay;
use crate::reader::LogReader;
use crate::rows::Rows;
use crate::scan::{BatchScanner, Scanned};
use crate::scrub::Scrubbed;
use crate::segment::{LenOf, Segment};
use crate::store::LogStore;

/// Bytes of another copy per read.
const CHUNK_BYTES: usize = 4 << 20;

/// The most attempts to open a folder, each after one more place was mended.
const TRIES_MAX: usize = 10_000;

/// The most memory for inspecting another copy.
const SOURCE_OVERLAY_BYTES: u64 = 1 << 30;

/// The operator's options.
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// Folders of the same partition, on other nodes or copies, to restore from.
    pub sources: Vec<PathBuf>,
    /// True if records that no source has are given up.
    pub give_up: bool,
}

/// What was done, or would be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairStep {
    /// A step that the server's start takes by itself.
    Recovered {
        /// The description of the step.
        what: String,
    },
    /// A derivable file was rewritten.
    Rewritten {
        /// The file.
        file: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
    /// Records were restored from another copy.
    Restored {
        /// Their offsets.
        range: DamagedRange,
        /// The folder of that copy.
        source: PathBuf,
    },
    /// Records are lost for good.
    GivenUp {
        /// Their offsets.
        range: DamagedRange,
        /// The file with the bytes that were in their place. `None` if there were none.
        kept: Option<PathBuf>,
    },
    /// Records that are still damaged: no source has them, and they were not given up.
    Left {
        /// Their offsets.
        range: DamagedRange,
    },
}

/// Repairs the folder of one partition. The server must not be running. Undamaged data is not changed.
///
/// # Errors
/// The disk's errors. [`LogError::Damaged`] for damage that cannot be repaired this way. Nothing that holds
/// records was removed in that case.
pub fn repair_dir<D: Disk>(
    disk: &D,
    dir: &Path,
    options: &RepairOptions,
) -> Result<Vec<RepairStep>, LogError> {
    let mut steps = Vec::new();
    let Some(expected) = identity_of(disk, dir)? else {
        let reason = "neither it nor a checkpoint identifies the partition";
        return Err(LogError::damaged(&dir.join(names::IDENTITY), 0, reason));
    };
    repair_identity(disk, dir, &identity::encode(&expected), &mut steps)?;
    repair_entries(disk, dir, &mut steps)?;
    let store = LogStore::new(disk.clone(), 64);
    let mut tries = 0;
    let (mut log, recovery) = loop {
        tries += 1;
        keep_torn(disk, dir, &expected, &mut steps)?;
        match Log::open(&store, dir, &expected, LogConfig::default(), TimestampMs(0)) {
            Err(LogError::Damaged { file, position, reason })
                if tries < TRIES_MAX
                    && (restore_entries(disk, dir, &options.sources, &mut steps)?
                        || bridge(disk, &file, position, &reason, &mut steps)?) => {}
            opened => break opened?,
        }
    };
    steps.extend(recovery.notes.iter().map(|what| RepairStep::Recovered { what: what.clone() }));
    scrub(&mut log, &mut steps)?;
    let rewritten = log.scrub_files(None)?;
    steps.extend(rewritten.into_iter().map(|d| RepairStep::Rewritten { file: d.file, reason: d.reason }));
    mend(&mut log, options, &mut steps)?;
    log.close(None)?;
    Ok(steps)
}

/// Saves a copy of the tail that opening the log will truncate.
fn keep_torn<D: Disk>(
    disk: &D,
    dir: &Path,
    expected: &PartitionIdentity,
    steps: &mut Vec<RepairStep>,
) -> Result<(), LogError> {
    let store = LogStore::new(Overlay::new(disk.clone(), SOURCE_OVERLAY_BYTES), 64);
    let Ok((_, recovery)) = Log::open(&store, dir, expected, LogConfig::default(), TimestampMs(0)) else {
        return Ok(());
    };
    let Some(torn) = recovery.truncated else { return Ok(()) };
    let name = torn.file.file_name().and_then(|name| name.to_str()).and_then(names::parse);
    let base = name.map_or(Offset(0), |name| name.0);
    let kept = keep_from(disk, &torn.file, torn.position)?;
    for later in Listing::read(disk, dir)?.segments.into_iter().filter(|later| *later > base) {
        keep_from(disk, &names::path(dir, later, Kind::Log), 0)?;
    }
    let (file, position, bytes) = (torn.file.display(), torn.position, torn.bytes);
    let what = format!(
        "{file} is cut at byte {position}: {}; its {bytes} bytes from there on were never synced, and are kept as {}",
        torn.reason,
        kept.display()
    );
    steps.push(RepairStep::Recovered { what });
    Ok(())
}

/// Copies the end of a `.log` into a file next to it.
fn keep_from<D: Disk>(disk: &D, file: &Path, position: u64) -> Result<PathBuf, LogError> {
    let kept = names::with_suffix(file, &format!(".cut-{position}"));
    copy_part(disk, file, &kept, position..u64::MAX)?;
    Ok(kept)
}

/// Copies `bytes` of `file` to `into`, durably, a part at a time. Unreadable parts are left out, and the rest
/// keeps its position. Returns the number of bytes. Creates no file if there are none.
fn copy_part<D: Disk>(disk: &D, file: &Path, into: &Path, bytes: Range<u64>) -> Result<u64, LogError> {
    let Range { start: from, end: upto } = bytes;
    let source = match disk.open(file, OpenMode::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        opened => opened.context("open", file)?,
    };
    let upto = upto.min(source.len_of(file)?);
    if from >= upto {
        return Ok(0);
    }
    let copy = disk.open(into, OpenMode::Truncate).context("create", into)?;
    let mut buf = vec![0; 1 << 20];
    let mut at = from;
    while at < upto {
        let wanted = usize_of(upto - at).min(buf.len());
        match read_full_at(&source, &mut buf[..wanted], at) {
            Ok(read) => copy.write_all_at(&[IoSlice::new(&buf[..read])], at - from).context("write", into)?,
            Err(error) if is_unreadable(&error) => {}
            Err(error) => return Err(error).context("read", file),
        }
        at += wanted as u64;
    }
    copy.sync_all().context("sync", into)?;
    let dir = into.parent().unwrap_or(into);
    disk.sync_dir(dir).context("sync", dir)?;
    Ok(upto - from)
}

/// A partition that was never used has only its identity, so closing it writes nothing.
fn repair_identity<D: Disk>(
    disk: &D,
    dir: &Path,
    expected: &[u8],
    steps: &mut Vec<RepairStep>,
) -> Result<(), LogError> {
    let file = dir.join(names::IDENTITY);
    let found = read_file(disk, &file, identity::BYTES_MAX).context("read", &file)?;
    if found.as_deref().is_none_or(|found| identity::decode(found).is_err()) {
        replace_file(disk, &file, &[IoSlice::new(expected)])?;
        steps.push(RepairStep::Rewritten { file, reason: "it was damaged or missing".to_owned() });
    }
    Ok(())
}

/// Keeps the entries before the first damaged one, and a copy of the whole file.
fn repair_entries<D: Disk>(disk: &D, dir: &Path, steps: &mut Vec<RepairStep>) -> Result<(), LogError> {
    let Err(LogError::Damaged { file, position, reason }) = entries::SideFile::load(disk, dir) else {
        return Ok(());
    };
    let bytes = read_file(disk, &file, entries::FILE_BYTES_MAX).context("read", &file)?.unwrap_or_default();
    let kept = names::with_suffix(&file, ".damaged");
    replace_file(disk, &kept, &[IoSlice::new(&bytes)])?;
    let mut good = entry::encode_head();
    for entry in entry::leading(&bytes) {
        good.extend_from_slice(&entry.encode());
    }
    replace_file(disk, &file, &[IoSlice::new(&good)])?;
    let reason =
        format!("at byte {position}: {reason}; what was before it is kept, the whole as {}", kept.display());
    steps.push(RepairStep::Rewritten { file, reason });
    Ok(())
}

/// Takes the entries without records from a copy that has all of ours and more. Returns true if there is one.
fn restore_entries<D: Disk>(
    disk: &D,
    dir: &Path,
    sources: &[PathBuf],
    steps: &mut Vec<RepairStep>,
) -> Result<bool, LogError> {
    let (own, _) = entries::SideFile::load(disk, dir)?;
    for source in sources {
        let Ok((theirs, _)) = entries::SideFile::load(disk, source) else { continue };
        let has_ours = own.entries().iter().all(|entry| theirs.at(entry.raft_index) == Some(entry));
        if !has_ours || theirs.entries().len() == own.entries().len() {
            continue;
        }
        let file = dir.join(names::ENTRIES);
        let mut bytes = entry::encode_head();
        theirs.entries().iter().for_each(|entry| bytes.extend_from_slice(&entry.encode()));
        replace_file(disk, &file, &[IoSlice::new(&bytes)])?;
        let missing = theirs.entries().len() - own.entries().len();
        let reason = format!("{missing} entries were missing, which {} has", source.display());
        steps.push(RepairStep::Rewritten { file, reason });
        return Ok(true);
    }
    Ok(false)
}

/// Adds rows to the index for batches that neither their bytes nor their rows describe, up to the next whole
/// batch, so that the log opens around them. Returns false if there is no such batch.
fn bridge<D: Disk>(
    disk: &D,
    file: &Path,
    position: u64,
    reason: &str,
    steps: &mut Vec<RepairStep>,
) -> Result<bool, LogError> {
    let name = file.file_name().and_then(|name| name.to_str()).and_then(names::parse);
    let (Some((base, generation, Kind::Log)), Some(dir)) = (name, file.parent()) else { return Ok(false) };
    let log = disk.open(file, OpenMode::Read).context("open", file)?;
    let index_path = names::path_of(dir, base, generation, Kind::Index);
    let index = disk.open(&index_path, OpenMode::Create).context("open", &index_path)?;
    let (before, number) = walk_to(&log, &index, base, position).context("read", file)?;
    let next_offset = before.map_or(base, |row| row.1);
    let next = next_batch(&log, position, next_offset).context("read", file)?;
    let Some((next_position, next_base)) = next else { return Ok(false) };
    if row_at(&index, base, number).is_some_and(|row| u64::from(row.position) == position) {
        // Its row was not what kept the log from opening.
        return Ok(false);
    }
    let row = Row {
        raft_index: RaftIndex(before.map_or(1, |row| row.2 + 1)),
        leader_epoch: before.map_or(tailrace_types::LeaderEpoch(0), |row| row.0),
        base_offset: next_offset,
        // Guards against bogus bytes of the next batch: an impossible row opens nothing.
        last_offset_delta: u32::try_from(next_base.0 - next_offset.0 - 1).unwrap_or(u32::MAX),
        record_count: 0,
        position: position as u32,
        batch_bytes: (next_position - position) as u32,
        max_timestamp: TimestampMs::NONE,
        running_max_timestamp: TimestampMs::NONE,
        synced_bytes: next_position as u32,
        attributes: tailrace_records::Attributes::default(),
        batch_crc: 0,
    };
    index
        .write_all_at(&[IoSlice::new(&row.encode(base))], row_position(number))
        .context("write", &index_path)?;
    index.sync_all().context("sync", &index_path)?;
    let reason = format!("the row of the batch at byte {position} of {}: {reason}", file.display());
    steps.push(RepairStep::Rewritten { file: index_path, reason });
    Ok(true)
}

/// Epoch, end offset and number of the last whole batch before a position, and the number of whole batches.
type Before = (tailrace_types::LeaderEpoch, Offset, u64);

fn walk_to<F: DiskFile>(
    log: &F,
    index: &F,
    base: Offset,
    position: u64,
) -> std::io::Result<(Option<Before>, u32)> {
    let mut scanner = BatchScanner::new(log, 0, position);
    let (mut before, mut number) = (None, 0);
    loop {
        let (epoch, next) = match scanner.next_or_unreadable()? {
            Scanned::Batch { header, .. } => (header.leader_epoch, header.next_offset()),
            Scanned::End => return Ok((before, number)),
            Scanned::Bad { position: bad, .. } => {
                let row = row_at(index, base, number).filter(|row| u64::from(row.position) == bad);
                let Some(row) = row else { return Ok((before, number)) };
                scanner.skip_to(u64::from(row.end_position()));
                (row.leader_epoch, row.next_offset())
            }
        };
        number += 1;
        before = Some((epoch, next, u64::from(number)));
    }
}

/// Returns the next position after `position` with a whole batch whose offsets continue.
fn next_batch<F: DiskFile>(log: &F, position: u64, offset: Offset) -> std::io::Result<Option<(u64, Offset)>> {
    const MAGIC_AT: u64 = 16;
    let len = log.len()?;
    let mut window = vec![0; 1 << 20];
    let mut at = position + 1;
    while at + HEADER_BYTES as u64 <= len {
        let read = read_full_at(log, &mut window, at + MAGIC_AT)?;
        if read == 0 {
            break;
        }
        for (skip, _) in window[..read].iter().enumerate().filter(|(_, byte)| **byte == 2) {
            let candidate = at + skip as u64;
            let mut scanner = BatchScanner::new(log, candidate, len);
            scanner.read_exactly();
            if let Ok(Scanned::Batch { header, .. }) = scanner.next_or_unreadable()
                && header.base_offset > offset
            {
                return Ok(Some((candidate, header.base_offset)));
            }
        }
        at += read as u64;
    }
    Ok(None)
}

fn row_at<F: DiskFile>(index: &F, base: Offset, number: u32) -> Option<Row> {
    let mut bytes = [0; ROW_BYTES];
    let read = read_full_at(index, &mut bytes, row_position(number)).ok()?;
    if read == ROW_BYTES { Row::decode(&bytes, base) } else { None }
}

/// Finds damage, and rebuilds damaged indexes.
fn scrub<D: Disk>(log: &mut Log<D>, steps: &mut Vec<RepairStep>) -> Result<(), LogError> {
    let reader = log.reader();
    for target in reader.scrub_targets() {
        if let Scrubbed::Damaged { index: Some(damage), .. } = reader.scrub(&target, &mut Unhurried)? {
            log.repair_index(target.base_offset())?;
            steps.push(RepairStep::Rewritten { file: damage.file, reason: damage.reason });
        }
    }
    Ok(())
}

/// Restores or gives up damaged records, segment by segment.
fn mend<D: Disk>(
    log: &mut Log<D>,
    options: &RepairOptions,
    steps: &mut Vec<RepairStep>,
) -> Result<(), LogError> {
    let reader = log.reader();
    let sources: Vec<_> = options
        .sources
        .iter()
        .map(|dir| open_source(&reader, dir).map(|r| (dir.as_path(), r)))
        .collect::<Result<_, _>>()?;
    let mut at = log.log_start();
    while let Some(range) = reader.damage.next_from(at) {
        let Some((base, end)) = reader.segment_bounds(range.base_offset) else { break };
        at = end;
        let within = |range: &DamagedRange| (base..end).contains(&range.base_offset);
        let damaged: Vec<_> = reader.damaged().into_iter().filter(within).collect();
        log.seal(base);
        let Some(patch) = log.begin_patch(base)? else { continue };
        let mut done = Vec::new();
        match fill(patch, &reader, &sources, options.give_up, &mut done) {
            Ok(Some(patch)) => {
                install(log, patch)?;
                reader.damage.forget(base, end);
                steps.append(&mut done);
            }
            Ok(None) => steps.extend(damaged.into_iter().map(|range| RepairStep::Left { range })),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

type Sources<'a, D> = Vec<(&'a Path, std::sync::Arc<LogReader<Overlay<D>>>)>;

fn open_source<D: Disk>(
    reader: &LogReader<D>,
    dir: &Path,
) -> Result<std::sync::Arc<LogReader<Overlay<D>>>, LogError> {
    let overlay = Overlay::new(reader.store.disk().clone(), SOURCE_OVERLAY_BYTES);
    let store = LogStore::new(overlay, 64);
    let (log, _) = Log::open(&store, dir, reader.identity(), LogConfig::default(), TimestampMs(0))?;
    Ok(log.reader())
}

/// Fills a patch. `None` if some records are in no source and are not given up.
fn fill<D: Disk>(
    mut patch: Patch<D>,
    reader: &LogReader<D>,
    sources: &Sources<'_, D>,
    give_up: bool,
    done: &mut Vec<RepairStep>,
) -> Result<Option<Patch<D>>, LogError> {
    loop {
        while patch.copy_own(CHUNK_BYTES)? {}
        let Some(range) = patch.wanted_range() else { return Ok(Some(patch)) };
        if let Some(source) = restore(&mut patch, reader, sources)? {
            done.push(RepairStep::Restored { range, source: source.to_owned() });
        } else if !give_up {
            patch.discard();
            return Ok(None);
        } else if let Some(GivenUp { range, kept }) = patch.give_up(range.end_offset)? {
            done.push(RepairStep::GivenUp { range, kept });
        }
    }
}

/// Takes the next wanted batches from the first copy that has some. Returns that copy, if there is one.
fn restore<'s, D: Disk>(
    patch: &mut Patch<D>,
    reader: &LogReader<D>,
    sources: &'s Sources<'_, D>,
) -> Result<Option<&'s Path>, LogError> {
    let Some((from, upto)) = patch.wanted() else { return Ok(None) };
    for (dir, source) in sources {
        if !reader.may_take(upto, source.first_dirty()) {
            continue;
        }
        let Ok(bytes) = source.read_checked(from, upto, CHUNK_BYTES) else { continue };
        if bytes.is_empty() && source.is_hole(from, upto).unwrap_or(false) {
            patch.push_hole()?;
            return Ok(Some(dir));
        }
        if bytes.is_empty() || !patch.fits(&bytes) {
            continue;
        }
        patch.push(&bytes)?;
        return Ok(Some(dir));
    }
    Ok(None)
}

impl<D: Disk> LogReader<D> {
    /// Copies the bytes of a damaged range into a file next to its segment: `NAME.lost-FIRST-LAST`. `None` if
    /// there are none, or if the device does not return them.
    ///
    /// # Errors
    /// The disk's errors.
    pub(crate) fn keep_damaged(&self, range: &DamagedRange) -> Result<Option<PathBuf>, LogError> {
        let list = self.segments.load_full();
        let Some(segment) = list.get(crate::reader::segment_of(&list, range.base_offset)) else {
            return Ok(None);
        };
        let (path, disk) = (segment.path(Kind::Log), self.store.disk());
        let bytes = bytes_of(self, segment, range).unwrap_or(0..u64::from(segment.bytes()));
        let kept =
            names::with_suffix(&path, &format!(".lost-{}-{}", range.base_offset, range.end_offset.0 - 1));
        copy_part(disk, &path, &kept, bytes).map(|bytes| (bytes > 0).then_some(kept))
    }
}

fn bytes_of<D: Disk>(
    reader: &LogReader<D>,
    segment: &std::sync::Arc<Segment<D>>,
    range: &DamagedRange,
) -> Result<Range<u64>, LogError> {
    let files = reader.files(segment)?;
    let mut rows = Rows::new(segment, &files);
    let first = rows.first_where(|row| row.next_offset() > range.base_offset)?;
    let end = rows.first_where(|row| row.base_offset >= range.end_offset)?;
    let (first, last) = (rows.get(first)?, rows.get(end.max(1) - 1)?);
    Ok(u64::from(first.position)..u64::from(last.end_position()))
}

fn install<D: Disk>(log: &mut Log<D>, patch: Patch<D>) -> Result<(), LogError> {
    match log.install_compacted(patch.finish()?, || None)? {
        Ok(trim) => {
            trim.run()?;
            log.mark_checkpointed(trim.checkpoint());
        }
        Err(discarded) => discarded.run(),
    }
    Ok(())
}
