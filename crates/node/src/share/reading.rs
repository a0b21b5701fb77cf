//! Looking for records that may be acquired, and acquiring them.
//!
//! The log is read without the share-partition's lock: first the core says where to read, then the headers of the batches
//! there are looked at, then the core decides. If somebody else was faster, it is tried again further on.

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

/// Bytes of one partition that are looked at for one fetch. A larger first batch is taken as a whole.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Headers are read this many bytes at a time: those of small batches many at once.
const SCAN_BYTES: usize = 64 * 1024;

/// Looks at one partition in one fetch, when what was found was not for consumers, or others were faster.
const TRIES: usize = 16;

/// Runs of available records that are measured before one fetch. A client with more of them to take does not wait.
const RUNS_MAX: usize = 128;

/// Records of one partition that now belong to a member, and where they lie.
pub struct Acquisition {
    /// Where they lie.
    pub extent: Extent<NodeDisk>,
    /// What was acquired.
    pub batches: Vec<AcquiredBatch>,
}

impl Acquisition {
    /// How many records, at most: holes within batches count.
    pub fn records(&self) -> u64 {
        self.batches.iter().map(|batch| batch.last.get().abs_diff(batch.first.get()) + 1).sum()
    }
}

/// A batch and where it lies.
struct ReadPosition {
    batch: FetchedBatch,
    position: u64,
    end: u64,
}

/// Where to look.
struct Plan {
    from: Offset,
    /// Enough batches have been seen here.
    enough: i64,
}

/// Acquires records for a member. `None` if there are none for now.
///
/// What has no records for consumers on the way is passed over, which is kept later: it would be found anew.
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
            // The log start has moved: the next look begins there.
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

/// Passes over records that are damaged for good, as over those of an aborted transaction: the group would never come behind them.
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
    tracing::warn!(share_partition = %live.key, "records are passed over, because they are damaged: {range}");
    Ok(())
}

/// Bytes of the batches that hold records which could be acquired now; counted until there are `enough`. Nothing is
/// acquired.
///
/// No batch is looked at, so batches without records for consumers count where nothing is known of their offsets yet. Nor is the disk: it
/// fails with [`ReadFailure::NotAtHand`] where that says where they lie, and acquiring finds out.
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
            // Whole batches up to the end of the run; then the one that goes beyond it, alone.
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

/// Looks at the batches of `extent`, until one ends at `enough` or beyond.
async fn scan(
    extent: Extent<NodeDisk>,
    aborted: Vec<AbortedTransaction>,
    enough: i64,
) -> Result<Scanned, ShareFailure> {
    // The disk is never waited for on an event loop.
    let is_in_memory = extent.is_resident();
    let look = move || {
        let places = places_of(&extent, &aborted, enough)?;
        Ok(Scanned { extent, places })
    };
    if is_in_memory {
        return look();
    }
    // It panicked: a bug of the server.
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
            // Far apart headers are read alone, close ones together.
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
        // Compaction leaves batches behind that have no record any more.
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

/// True if the batch belongs to a transaction that was aborted.
fn is_aborted(header: &BatchHeader, aborted: &[AbortedTransaction]) -> bool {
    header.attributes.is_transactional()
        && aborted.iter().any(|transaction| {
            transaction.producer_id == header.producer_id
                && (transaction.first_offset..=transaction.last_offset).contains(&header.base_offset)
        })
}

/// How much to read at once, by the size of the last batch.
fn next_piece(places: &[ReadPosition]) -> usize {
    let last = places.last().map_or(u64::MAX, |place| place.end - place.position);
    if last < 4096 { SCAN_BYTES } else { HEADER_BYTES }
}

impl Scanned {
    /// The part of the extent that the acquired records lie in.
    fn cut(self, batches: Vec<AcquiredBatch>) -> Option<Acquisition> {
        let (first, last) = (batches.first()?.first, batches.last()?.last);
        let begin = self.places.iter().find(|place| place.batch.last >= first)?.position;
        let end = self.places.iter().rev().find(|place| place.batch.first <= last)?.end;
        Some(Acquisition { extent: self.extent.part(begin..end), batches })
    }
}
