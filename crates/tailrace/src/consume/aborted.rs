//! Leaves out what aborted transactions wrote.

use std::collections::BTreeSet;

use tailrace_kafka_wire::messages::fetch_response::AbortedTransaction;
use tailrace_records::BatchHeader;

/// Follows the batches of one fetch in order. The server lists the aborted transactions that touch them.
#[derive(Debug)]
pub(super) struct AbortedFilter {
    /// By first offset, the next one last.
    upcoming: Vec<AbortedTransaction>,
    /// Producers whose present transaction was aborted.
    aborting: BTreeSet<i64>,
}

impl AbortedFilter {
    pub(super) fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self { upcoming: aborted, aborting: BTreeSet::new() }
    }

    /// True if the records of this batch may be shown.
    pub(super) fn shows(&mut self, header: &BatchHeader) -> bool {
        while self.upcoming.last().is_some_and(|next| next.first_offset <= header.last_offset().0) {
            self.aborting.extend(self.upcoming.pop().map(|transaction| transaction.producer_id));
        }
        if header.attributes.is_control() {
            // The marker ends the transaction, whichever way; its kind does not matter here.
            self.aborting.remove(&header.producer_id.0);
            return false;
        }
        !(header.attributes.is_transactional() && self.aborting.contains(&header.producer_id.0))
    }
}
