//! Folders that tailrace cannot open: Kafka's, and those with too much damage. Only the `.log` files are
//! inspected.

use std::path::Path;

use tailrace_types::{LeaderEpoch, TimestampMs};

use super::report::{Problem, SegmentReport};
use crate::compact::Pace;
use crate::disk::{Disk, DiskFile, OpenMode, read_file};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::{self, Checkpoint};
use crate::format::names::{self, Kind};
use crate::listing::{Listing, SegmentName};
use crate::scan::{BatchScanner, Scanned};

/// Reads the checkpoint, if there is one, or what is wrong with it.
pub(super) fn read_checkpoint<D: Disk>(
    disk: &D,
    dir: &Path,
) -> Result<Option<Result<Checkpoint, LogError>>, LogError> {
    let path = dir.join(names::CHECKPOINT);
    let bytes = read_file(disk, &path, checkpoint::BYTES_MAX).context("read", &path)?;
    Ok(bytes.map(|bytes| Checkpoint::decode(&bytes).map_err(|error| error.in_file(&path))))
}

/// Returns the segments that count, in order. The next start removes what compaction has left besides them.
pub(super) fn counting<D: Disk>(
    disk: &D,
    dir: &Path,
    listing: &mut Listing,
    checkpoint: Option<&Checkpoint>,
) -> Result<Vec<SegmentName>, LogError> {
    let mut names: Vec<SegmentName> = match checkpoint {
        Some(checkpoint) => {
            listing.settle_by(checkpoint);
            let appended = listing.segments.iter().copied().map(SegmentName::appended);
            appended.chain(listing.compacted.iter().copied()).collect()
        }
        None => {
            let (_, headers) = listing.settle_alone(disk, dir)?;
            let generation = |base| headers.get(base).and_then(|h| h.compacted).map_or(0, |c| c.generation);
            listing.segments.iter().map(|base| SegmentName::new(*base, generation(base))).collect()
        }
    };
    names.sort_unstable();
    Ok(names)
}

/// Reads every batch of the `.log` files. Leaves a segment at its first bad batch.
pub(super) fn verify_batches<D: Disk>(
    disk: &D,
    dir: &Path,
    pace: &mut impl Pace,
) -> Result<Vec<SegmentReport>, LogError> {
    let checkpoint = read_checkpoint(disk, dir)?.and_then(Result::ok);
    let names = counting(disk, dir, &mut Listing::read(disk, dir)?, checkpoint.as_ref())?;
    let mut reports = Vec::with_capacity(names.len());
    let mut last_epoch = LeaderEpoch::UNKNOWN;
    for name in names {
        reports.push(verify_segment(disk, dir, name, &mut last_epoch, pace)?);
    }
    Ok(reports)
}

fn verify_segment<D: Disk>(
    disk: &D,
    dir: &Path,
    SegmentName { base, generation }: SegmentName,
    last_epoch: &mut LeaderEpoch,
    pace: &mut impl Pace,
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
    let (mut scanner, mut spent) = (BatchScanner::new(&log, 0, bytes), 0);
    loop {
        let (position, reason) = match scanner.next_or_unreadable().context("read", &file)? {
            Scanned::End => break,
            Scanned::Bad { position, reason } => (position, reason),
            Scanned::Batch { header, position, .. } => {
                let (offset, epoch, expected) = (header.base_offset, header.leader_epoch, report.next_offset);
                if offset < expected {
                    (position, format!("a batch at offset {offset}, expected {expected} or later"))
                } else if epoch < *last_epoch {
                    (position, format!("a batch of epoch {epoch} after epoch {last_epoch}"))
                } else {
                    report.batches += 1;
                    report.records += header.records();
                    report.next_offset = header.next_offset();
                    report.good_bytes = position + header.total_bytes() as u64;
                    report.max_timestamp = report.max_timestamp.max(header.max_timestamp);
                    *last_epoch = epoch;
                    let before = std::mem::replace(&mut spent, scanner.bytes_read);
                    pace.spend(scanner.bytes_read - before)?;
                    continue;
                }
            }
        };
        report.problems.push(Problem { file, position, reason, is_recoverable: false });
        break;
    }
    Ok(report)
}
