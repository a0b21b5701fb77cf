//! Opens a folder in memory as the next start would, and reads all of it. So the report says what would
//! happen.

use std::path::Path;
use std::sync::Arc;

use tailrace_types::{Offset, PartitionId, TimestampMs, TopicPartition};

use super::foreign::{read_checkpoint, verify_batches};
use super::report::{Problem, Report, SegmentReport};
use crate::compact::{Pace, Unhurried};
use crate::config::{LogConfig, PartitionIdentity};
use crate::disk::{Disk, OpenMode, read_file, read_full_at};
use crate::error::{IoContext, LogError};
use crate::folder::read_identity;
use crate::format::names::{self, Kind};
use crate::format::row::{ROW_BYTES, check_head, row_position};
use crate::format::snapshot;
use crate::listing::Listing;
use crate::log::Log;
use crate::overlay::Overlay;
use crate::reader::LogReader;
use crate::recovery::Recovery;
use crate::scrub::Walk;
use crate::segment::{LenOf, Segment};
use crate::store::LogStore;

/// The most bytes that recovery may write in memory before it is abandoned.
const OVERLAY_BYTES_MAX: u64 = 1 << 30;

/// Reads every byte of a partition's folder. Reports what is wrong with it, and what the next start does
/// about that.
///
/// # Errors
/// Only the disk's errors. Damage is in the report.
pub fn verify_dir<D: Disk>(disk: &D, dir: &Path) -> Result<Report, LogError> {
    verify_dir_paced(disk, dir, &mut Unhurried)
}

/// Like [`verify_dir`], at the rate of `pace`.
///
/// # Errors
/// Those of [`verify_dir`], and the error with which `pace` stops.
pub fn verify_dir_paced<D: Disk>(disk: &D, dir: &Path, pace: &mut impl Pace) -> Result<Report, LogError> {
    let mut report = Report::default();
    match read_identity(disk, dir) {
        Ok(identity) => report.identity = identity,
        Err(error) => report.problems.push(problem_of(error)?),
    }
    match read_checkpoint(disk, dir)? {
        Some(Ok(checkpoint)) => {
            report.log_start = Some(checkpoint.log_start);
            report.recovery_point = Some(checkpoint.end_offset);
        }
        Some(Err(error)) => report.problems.push(problem_of(error)?),
        None => {}
    }
    check_snapshots(disk, dir, &mut report.problems)?;
    let Some(identity) = identity_of(disk, dir)? else {
        report.segments = verify_batches(disk, dir, pace)?;
        return Ok(report);
    };
    let missing_indexes = unusable_indexes(disk, dir)?;
    let store = LogStore::new(Overlay::new(disk.clone(), OVERLAY_BYTES_MAX), 64);
    match Log::open(&store, dir, &identity, LogConfig::default(), TimestampMs(0)) {
        Ok((log, recovery)) => {
            report.entries = log.entries().len() as u64;
            report.problems.extend(missing_indexes);
            note_recovery(dir, &recovery, &mut report.problems);
            report.segments = verify_segments(&log.reader(), pace)?;
        }
        Err(error) => {
            let mut problem = problem_of(error)?;
            problem.reason = format!("{}: the next start takes the partition offline", problem.reason);
            report.problems.retain(|known| known.file != problem.file);
            report.problems.push(problem);
            report.segments = verify_batches(disk, dir, pace)?;
        }
    }
    Ok(report)
}

/// Returns the partition of this folder: from its identity, or else from the checkpoint and the folder's
/// name. `None` if tailrace did not write it.
///
/// # Errors
/// The disk's errors.
pub(crate) fn identity_of<D: Disk>(disk: &D, dir: &Path) -> Result<Option<PartitionIdentity>, LogError> {
    match read_identity(disk, dir) {
        Ok(Some(identity)) => return Ok(Some(identity)),
        Ok(None) | Err(LogError::Damaged { .. }) => {}
        Err(LogError::NewerFormat { .. }) => return Ok(None),
        Err(error) => return Err(error),
    }
    let Some(Ok(checkpoint)) = read_checkpoint(disk, dir)? else { return Ok(None) };
    let named = dir.file_name().and_then(|name| name.to_str()).and_then(|name| {
        let (topic, partition) = name.rsplit_once('-')?;
        Some(TopicPartition::new(topic.parse().ok()?, PartitionId(partition.parse().ok()?)))
    });
    Ok(named.map(|topic_partition| PartitionIdentity { topic_id: checkpoint.topic_id, topic_partition }))
}

/// Adds the next start's recovery steps as problems that are no damage, and the damage that recovery finds.
fn note_recovery(dir: &Path, recovery: &Recovery, problems: &mut Vec<Problem>) {
    problems.extend(recovery.notes.iter().map(|note| Problem::new(dir, 0, note, true)));
    if let Some(torn) = &recovery.truncated {
        let reason = format!(
            "{}; the {} bytes from here on were never synced, and are cut off",
            torn.reason, torn.bytes
        );
        problems.push(Problem::new(&torn.file, torn.position, reason, true));
    }
}

/// Turns damage into a problem. The disk's errors stay errors.
fn problem_of(error: LogError) -> Result<Problem, LogError> {
    match error {
        LogError::Damaged { file, position, reason } => {
            Ok(Problem { file, position, reason, is_recoverable: false })
        }
        LogError::NewerFormat { ref file, .. } | LogError::IdentityMismatch { ref file, .. } => {
            Ok(Problem::new(file, 8, error.to_string(), false))
        }
        error => Err(error),
    }
}

fn check_snapshots<D: Disk>(disk: &D, dir: &Path, problems: &mut Vec<Problem>) -> Result<(), LogError> {
    for offset in Listing::read(disk, dir)?.snapshots {
        let path = names::path(dir, offset, Kind::Snapshot);
        let bytes = read_file(disk, &path, snapshot::FILE_BYTES_MAX).context("read", &path)?;
        if let Some(Err(error)) = bytes.map(|bytes| snapshot::decode(&bytes.into(), offset)) {
            problems.push(problem_of(error.in_file(&path))?);
        }
    }
    Ok(())
}

/// Returns the indexes that the next use rebuilds.
fn unusable_indexes<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<Problem>, LogError> {
    let Some(Ok(checkpoint)) = read_checkpoint(disk, dir)? else { return Ok(Vec::new()) };
    let mut problems = Vec::new();
    for entry in &checkpoint.segments {
        let path = names::path_of(dir, entry.base_offset, entry.generation, Kind::Index);
        let reason = match disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "the index is missing".to_owned(),
            Err(error) => return Err(LogError::io("open", &path, error)),
            Ok(index) => {
                let mut head = [0; ROW_BYTES];
                let read = read_full_at(&index, &mut head, 0).context("read", &path)?;
                match check_head(&head[..read], entry.base_offset) {
                    Err(error) => error.to_string(),
                    Ok(()) if index.len_of(&path)? < row_position(entry.rows) => "it ends early".to_owned(),
                    Ok(()) => continue,
                }
            }
        };
        problems.push(Problem::new(&path, 0, format!("{reason}; it will be rebuilt"), true));
    }
    Ok(problems)
}

fn verify_segments<D: Disk>(
    reader: &Arc<LogReader<D>>,
    pace: &mut impl Pace,
) -> Result<Vec<SegmentReport>, LogError> {
    let list = reader.segments.load_full();
    list.iter()
        .filter(|segment| segment.rows() > 0)
        .map(|segment| verify_segment(reader, segment, pace))
        .collect()
}

fn verify_segment<D: Disk>(
    reader: &Arc<LogReader<D>>,
    segment: &Arc<Segment<D>>,
    pace: &mut impl Pace,
) -> Result<SegmentReport, LogError> {
    let file = segment.path(Kind::Log);
    let mut report = SegmentReport {
        base_offset: segment.base_offset,
        next_offset: segment.end_offset(),
        batches: 0,
        records: 0,
        bytes: u64::from(segment.bytes()),
        good_bytes: 0,
        max_timestamp: segment.max_timestamp(),
        problems: Vec::new(),
        file,
    };
    let damage = |problems: &mut Vec<Problem>, damage: crate::Damage| {
        problems.push(Problem {
            file: damage.file,
            position: damage.position,
            reason: damage.reason,
            is_recoverable: false,
        });
    };
    // Builds the index if it is unusable. The walk reports what cannot be built.
    drop(reader.files(segment));
    let mut walk = Walk::open(reader, segment, segment.rows())?;
    walk.run(pace)?;
    (report.batches, report.records, report.good_bytes) = (walk.batches, walk.records, walk.good_bytes);
    for range in std::mem::take(&mut walk.damaged) {
        let reason = match range.end_offset.0 - range.base_offset.0 {
            1 => format!("offset {}: {}", range.base_offset, range.damage.reason),
            _ => format!(
                "offsets {} to {}: {}",
                range.base_offset,
                range.end_offset.0 - 1,
                range.damage.reason
            ),
        };
        damage(&mut report.problems, crate::Damage { reason, ..range.damage });
    }
    walk.wrong_index.take().into_iter().for_each(|found| damage(&mut report.problems, found));
    let lost = reader
        .damaged()
        .into_iter()
        .filter(|range| range.is_lost && segment_holds(segment, range.base_offset));
    lost.for_each(|range| damage(&mut report.problems, range.damage));
    if let Some(found) = reader.header_differs(segment)? {
        damage(&mut report.problems, found);
    }
    Ok(report)
}

fn segment_holds<D: Disk>(segment: &Segment<D>, offset: Offset) -> bool {
    (segment.base_offset..segment.end_offset()).contains(&offset)
}
