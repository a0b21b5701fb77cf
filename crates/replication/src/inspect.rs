//! Offline checks of a partition's folder, beyond those that `tailrace log verify` makes on the log alone.

use std::path::Path;

use tailrace_log::inspect::{Problem, dump_dir};
use tailrace_log::{Disk, LogError, lost_markers_in, newest_snapshot_in};
use tailrace_types::Offset;

use crate::producers::Producers;
use crate::unended::FoundTransactions;

/// Returns the aborted transactions in the newest producer snapshot whose marker is missing from the log.
/// Clients that read only committed records would skip everything that those producers have written since.
/// The next start forgets these transactions, unless some of their records are left.
///
/// Reads the snapshot and index rows. Reads batches only if something is wrong.
///
/// # Errors
/// The disk's errors.
pub fn check_aborted<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<Problem>, LogError> {
    let Some((file, _, sections)) = newest_snapshot_in(disk, dir)? else { return Ok(Vec::new()) };
    // The next start ignores a snapshot that it cannot read.
    let Some(Ok(producers)) = Producers::from_sections(&sections) else { return Ok(Vec::new()) };
    let markers: Vec<Offset> =
        producers.aborted().iter().map(|transaction| transaction.last_offset).collect();
    let lost = lost_markers_in(disk, dir, &markers)?;
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let is_lost = |marker: &Offset| lost.binary_search(marker).is_ok();
    let unended: Vec<_> = producers.aborted().iter().filter(|t| is_lost(&t.last_offset)).copied().collect();
    let mut found = FoundTransactions::new(&unended);
    for batch in dump_dir(disk, dir)? {
        match batch {
            Ok(batch) => found.batch(&batch.header),
            // Reported where the batches are verified.
            Err(LogError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let problem = |transaction: &crate::AbortedTransaction| Problem {
        file: file.clone(),
        position: 0,
        reason: format!(
            "it lists a transaction of producer {} from offset {} on as aborted, but its marker at offset {} is not in the log",
            transaction.producer_id, transaction.first_offset, transaction.last_offset
        ),
        is_recoverable: !found.with_records.contains(&transaction.last_offset),
    };
    Ok(unended.iter().map(problem).collect())
}
