//! Looks for records that may be acquired, and acquires them.
//!
//! The log is read without the share-partition's lock. First the core says where to read, then the headers of
//! the batches there are read, then the core decides. If another fetch was faster, it is tried again further
//! on.

use std::io;
use std::sync::Arc;
use tailrace_env::task;

use tailrace_coordination::share::{AcquireTerms, AcquiredBatch, Fetched, FetchedBatch};
use tailrace_log::{DamagedRange, Extent, Reach};
use tailrace_records::{BatchHeader, HEADER_BYTES};
use tailrace_replication::AbortedTransaction;
use tailrace_types::Offset;

use super::failure::ShareFailure;
use super::live::LivePartition;
use super::settings::GroupSettings;
use crate::caller::Caller;
use crate::disk::NodeDisk;
use crate::node::Node;
use crate::partitions::{Isolation, ReadFailure, ReadOutcome, ReadTerms};

/// Maximum bytes of one partition that one fetch looks at. A larger first batch is taken as a whole.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Headers are read this many bytes at a time, which covers many small batches at once.
const SCAN_BYTES: usize = 64 * 1024;

/// Attempts on one partition in one fetch, if the records found were not for consumers, or others were
/// faster.
const TRIES: usize = 16;

/// Runs of available records that are measured before one fetch. If there are more of them, the client does
/// not wait.
const RUNS_MAX: usize = 128;

/// Records of one partition that now belong to a member, and their position.
pub struct Acquisition {
    /// Their position in the log.
    pub extent: Extent<NodeDisk>,
    /// The acquired batches.
    pub batches: Vec<AcquiredBatch>,
}

impl Acquisition {
    /// Returns the maximum number of records: gaps within batches count.
    pub fn records(&self) -> u64 {
        self.batches.iter().map(|batch| batch.last.get().abs_diff(batch.first.get()) + 1).sum()
    }
}

/// A batch and its position.
struct ReadPosition {
    batch: FetchedBatch,
    position: u64,
    end: u64,
}

/// Where to look.
struct Plan {
    from: Offset,
    /// The scan may end with a batch that reaches this offset.
    enough: i64,
}

/// Acquires records for a member. `None` if there are none at the moment.
///
/// Skips offsets without records for consumers. The skip is kept later. If that is lost, they would be found
/// again.
pub async fn acquire(
    node: &Arc<Node>,
    caller: &Caller,
    live: &Arc<LivePartition>,
    settings: &GroupSettings,
    terms: &AcquireTerms,
    bytes_max: u64,
) -> Result<Option<Acquisition>, ShareFailure> {
    for _ in 0..TRIES {
        let Some(plan) = plan(live, settings, terms)? else { return Ok(None) };
        let isolation = Isolation::of(settings.committed_only);
        let terms_of_read = ReadTerms::new(plan.from, isolation, bytes_max.min(BYTES_MAX));
        let (slice, aborted) = match live.handle.read_on_loop(caller, &terms_of_read).await {
            Ok(ReadOutcome { slice: Some(slice), aborted, .. }) => (slice, aborted),
            Ok(_) | Err(ReadFailure::BeingExchanged) => return Ok(None),
            // The log start has moved, and the next attempt starts there.
            Err(ReadFailure::OutOfRange) => continue,
            Err(ReadFailure::Damaged(range)) if node.topics().has_lost(&live.handle, &range) => {
                pass_over(node, caller, live, settings, terms, plan.from, &range)?;
                continue;
            }
            Err(failure) => return Err(failure.into()),
        };
        let scanned = scan(slice.extent, aborted, plan.enough).await.inspect_err(|error| {
            tracing::error!(share_partition = %live.key, %error, "reading failed");
        })?;
        let found: Vec<FetchedBatch> = scanned.places.iter().map(|place| place.batch).collect();
        let acquired =
            take(node, caller, live, settings, terms, Fetched { from: plan.from, batches: &found })?;
        if let Some(acquisition) = scanned.cut(acquired) {
            live.watch_locks(node);
            return Ok(Some(acquisition));
        }
    }
    Ok(None)
}

/// Skips records that are damaged for good, like those of an aborted transaction. Otherwise the group would
/// never get beyond them.
fn pass_over(
    node: &Arc<Node>,
    caller: &Caller,
    live: &Arc<LivePartition>,
    settings: &GroupSettings,
    terms: &AcquireTerms,
    from: Offset,
    range: &DamagedRange,
) -> Result<(), ShareFailure> {
    let upto = live.handle.bounds().end(Isolation::of(settings.committed_only));
    let (first, end) = (range.base_offset.max(from), range.end_offset.min(upto));
    let gap = FetchedBatch { first, last: end.plus(-1), visible: false };
    take(node, caller, live, settings, terms, Fetched { from, batches: &[gap] })?;
    node.metrics.repair.share_skipped_records.inc_by(end.get().abs_diff(first.get()));
    tracing::warn!(share_partition = %live.key, "skipping records, because they are damaged: {range}");
    Ok(())
}

/// Returns the bytes of the batches with records that could be acquired now, counted up to `enough`. Acquires
/// nothing.
///
/// Reads no batch. So batches without records for consumers count if nothing is known about their offsets
/// yet. Does not read the disk either: if the positions are only on the disk, it fails with
/// [`ReadFailure::NotAtHand`], and acquiring finds out.
pub fn acquirable_bytes(
    caller: &Caller,
    live: &LivePartition,
    settings: &GroupSettings,
    enough: u64,
) -> Result<u64, ShareFailure> {
    let bounds = live.handle.bounds();
    let acquirable = live.with_core(|core| {
        core.log_start_moved(bounds.log_start);
        core.acquirable(&settings.terms)
    });
    let upto = bounds.end(Isolation::of(settings.committed_only));
    let (mut bytes, mut next) = (0, Offset(0));
    for (number, (first, end)) in acquirable.ok_or(ShareFailure::NotLeader)?.into_iter().enumerate() {
        if number == RUNS_MAX {
            return Ok(enough);
        }
        next = next.max(first);
        let end = end.min(upto);
        while next < end && bytes < enough {
            // Whole batches up to the end of the run. Then the one that goes beyond it, alone.
            let read = |upto, bytes_max| {
                let terms = ReadTerms::new(next, Isolation::HighWatermark, bytes_max);
                live.handle
                    .read(caller, &ReadTerms { upto: Some(upto), reach: Reach::Memory, ..terms })
                    .map(|outcome| outcome.slice)
            };
            let within = read(end, enough - bytes)?;
            let Some(slice) = within.map_or_else(|| read(upto, 0), |slice| Ok(Some(slice)))? else {
                return Ok(bytes);
            };
            if slice.base_offset >= end {
                break;
            }
            bytes += slice.extent.bytes();
            next = slice.next_offset;
        }
    }
    Ok(bytes)
}

fn plan(
    live: &LivePartition,
    settings: &GroupSettings,
    terms: &AcquireTerms,
) -> Result<Option<Plan>, ShareFailure> {
    let log_start = live.handle.reader.log_start();
    let plan = live.with_core(|core| {
        core.log_start_moved(log_start);
        let from = core.next_fetch(&settings.terms)?;
        let known = from.max(core.end());
        let records = i64::try_from(terms.records_max).unwrap_or(i64::MAX);
        Some(Plan { from, enough: known.get().saturating_add(records) })
    });
    plan.ok_or(ShareFailure::NotLeader)
}

fn take(
    node: &Arc<Node>,
    caller: &Caller,
    live: &Arc<LivePartition>,
    settings: &GroupSettings,
    terms: &AcquireTerms,
    fetched: Fetched<'_>,
) -> Result<Vec<AcquiredBatch>, ShareFailure> {
    let now = node.share.clock.now();
    let step = |core: &mut tailrace_coordination::share::SharePartition| {
        let acquired = core.acquire(terms, &settings.terms, fetched, now);
        (acquired, core.has_unsaved())
    };
    let (acquired, unsaved) = live.with_core(step).ok_or(ShareFailure::NotLeader)?;
    if unsaved {
        drop(live.keep(node, caller));
    }
    Ok(acquired)
}

/// Batches of one extent, from its first on.
struct Scanned {
    extent: Extent<NodeDisk>,
    places: Vec<ReadPosition>,
}

/// Reads the headers of the batches of `extent`, until one reaches `enough`.
async fn scan(
    extent: Extent<NodeDisk>,
    aborted: Vec<AbortedTransaction>,
    enough: i64,
) -> Result<Scanned, ShareFailure> {
    // An event loop must never wait for the disk.
    let is_in_memory = extent.is_resident();
    let look = move || {
        let places = places_of(&extent, &aborted, enough)?;
        Ok(Scanned { extent, places })
    };
    if is_in_memory {
        return look();
    }
    // The task panicked: a bug in the server.
    task::spawn_blocking(look).await.unwrap_or(Err(ShareFailure::Internal))
}

fn places_of(
    extent: &Extent<NodeDisk>,
    aborted: &[AbortedTransaction],
    enough: i64,
) -> io::Result<Vec<ReadPosition>> {
    let end = extent.bytes();
    let mut places = Vec::new();
    let (mut position, mut piece, mut piece_at) = (0, Vec::new(), 0);
    while position < end {
        let wanted = HEADER_BYTES as u64;
        if position < piece_at || position + wanted > piece_at + piece.len() as u64 {
            // Headers that are far apart are read one by one, close ones together.
            let bytes = if places.len() < 2 { HEADER_BYTES } else { next_piece(&places) };
            piece.resize(bytes.min(usize::try_from(end - position).unwrap_or(bytes)), 0);
            let read = extent.read_at(&mut piece, position)?;
            piece.truncate(read);
            piece_at = position;
        }
        let at = usize::try_from(position - piece_at).map_err(io::Error::other)?;
        let bytes = piece.get(at..at + HEADER_BYTES).ok_or(io::ErrorKind::UnexpectedEof)?;
        let header = BatchHeader::parse(bytes).map_err(io::Error::other)?;
        let last = header.base_offset.plus(i64::from(header.last_offset_delta));
        // Compaction leaves batches without any record behind.
        let has_records = header.record_count > 0 && !header.attributes.is_control();
        let visible = has_records && !is_aborted(&header, aborted);
        let batch = FetchedBatch { first: header.base_offset, last, visible };
        let batch_end = position + header.total_bytes() as u64;
        places.push(ReadPosition { batch, position, end: batch_end });
        if last.get().saturating_add(1) >= enough {
            break;
        }
        position = batch_end;
    }
    Ok(places)
}

/// Reports whether the batch belongs to an aborted transaction.
fn is_aborted(header: &BatchHeader, aborted: &[AbortedTransaction]) -> bool {
    header.attributes.is_transactional()
        && aborted.iter().any(|transaction| {
            transaction.producer_id == header.producer_id
                && (transaction.first_offset..=transaction.last_offset).contains(&header.base_offset)
        })
}

/// Returns how much to read at once, judging by the size of the last batch.
fn next_piece(places: &[ReadPosition]) -> usize {
    let last = places.last().map_or(u64::MAX, |place| place.end - place.position);
    if last < 4096 { SCAN_BYTES } else { HEADER_BYTES }
}

impl Scanned {
    /// Cuts the extent to the part that contains the acquired records.
    fn cut(self, batches: Vec<AcquiredBatch>) -> Option<Acquisition> {
        let (first, last) = (batches.first()?.first, batches.last()?.last);
        let begin = self.places.iter().find(|place| place.batch.last >= first)?.position;
        let end = self.places.iter().rev().find(|place| place.batch.first <= last)?.end;
        Some(Acquisition { extent: self.extent.part(begin..end), batches })
    }
}
