//! Aborted transactions in a table whose markers are no longer in the log.
//!
//! Compaction removes an abort marker some time after the last record of its transaction. An older table
//! still lists the transaction. Clients that wait for the marker would skip everything that its producer has
//! written since. Such tables exist: a crash may come before the table is written again, earlier builds did
//! not always write it again, and a leader may send an older one.

use std::collections::{BTreeSet, HashMap};

use tailrace_log::{Disk, Log, LogError};
use tailrace_records::BatchHeader;
use tailrace_types::{Offset, ProducerId};

use crate::aborted::AbortedTransaction;
use crate::producers::Producers;

/// Drops the aborted transactions without a marker, unless some of their records are left. In that case the
/// marker was lost in another way, and a note in `notes` says so. Returns true if any were dropped.
///
/// Looks up the markers in segments that compaction has rewritten. Reads batch headers only if some markers
/// are missing.
pub(crate) fn forget_unended<D: Disk>(
    log: &mut Log<D>,
    producers: &mut Producers,
    notes: &mut Vec<String>,
) -> Result<bool, LogError> {
    let markers: Vec<Offset> =
        producers.aborted().iter().map(|transaction| transaction.last_offset).collect();
    let lost = log.lost_markers(&markers, notes)?;
    if lost.is_empty() {
        return Ok(false);
    }
    let is_lost = |transaction: &&AbortedTransaction| lost.binary_search(&transaction.last_offset).is_ok();
    let unended: Vec<_> = producers.aborted().iter().filter(is_lost).copied().collect();
    let with_records = match with_records(log, &unended) {
        // Their records were removed before their markers.
        Err(LogError::Damaged { .. }) => BTreeSet::new(),
        found => found?,
    };
    for marker in &with_records {
        notes.push(format!(
            "the abort marker at offset {marker} is gone, but records of its transaction are not: readers of committed \
             records skip everything that its producer has written since"
        ));
    }
    let went = producers.retain_aborted(|transaction| {
        lost.binary_search(&transaction.last_offset).is_err()
            || with_records.contains(&transaction.last_offset)
    });
    if went {
        let count = lost.len() - with_records.len();
        notes.push(format!(
            "{count} aborted transactions were forgotten: compaction has removed their markers"
        ));
    }
    Ok(went)
}

/// Returns the markers of the transactions that still have records in the log.
fn with_records<D: Disk>(log: &Log<D>, unended: &[AbortedTransaction]) -> Result<BTreeSet<Offset>, LogError> {
    let mut found = FoundTransactions::new(unended);
    let first = unended.iter().map(|transaction| transaction.first_offset).min().unwrap_or_default();
    let end = unended.last().map(|transaction| transaction.last_offset).unwrap_or_default();
    for row in log.reader().headers(first) {
        let (_, header) = row?;
        if header.base_offset >= end {
            break;
        }
        found.batch(&header);
    }
    Ok(found.with_records)
}

/// Finds transactions that still have records. Takes the batches of the log in order.
pub(crate) struct FoundTransactions {
    /// By producer, ascending: first offset, offset of the marker.
    ranges: HashMap<ProducerId, Vec<(Offset, Offset)>>,
    /// Markers of transactions with records.
    pub(crate) with_records: BTreeSet<Offset>,
}

impl FoundTransactions {
    pub(crate) fn new(unended: &[AbortedTransaction]) -> Self {
        let mut ranges: HashMap<ProducerId, Vec<(Offset, Offset)>> = HashMap::new();
        for transaction in unended {
            let of_producer = ranges.entry(transaction.producer_id).or_default();
            of_producer.push((transaction.first_offset, transaction.last_offset));
        }
        Self { ranges, with_records: BTreeSet::new() }
    }

    pub(crate) fn batch(&mut self, header: &BatchHeader) {
        let is_data = header.attributes.is_transactional() && !header.attributes.is_control();
        if !is_data || header.record_count == 0 {
            return;
        }
        let Some(ranges) = self.ranges.get(&header.producer_id) else { return };
        let at = ranges.partition_point(|(_, marker)| *marker < header.base_offset);
        if let Some((_, marker)) = ranges.get(at).filter(|(first, _)| *first <= header.base_offset) {
            self.with_records.insert(*marker);
        }
    }
}
