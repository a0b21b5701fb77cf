//! Filters out the records of aborted transactions.

use std::collections::BTreeSet;

use tailrace_kafka_wire::messages::fetch_response::AbortedTransaction;
use tailrace_records::BatchHeader;

/// Filters the batches of one fetch, in order. The server lists the aborted transactions that touch them.
#[derive(Debug)]
pub(super) struct AbortedFilter {
    /// Sorted by first offset in descending order, so the next one is last.
    upcoming: Vec<AbortedTransaction>,
    /// Producers whose current transaction was aborted.
    aborting: BTreeSet<i64>,
}

impl AbortedFilter {
    pub(super) fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self { upcoming: aborted, aborting: BTreeSet::new() }
    }

    /// Reports whether the records of this batch are shown.
    pub(super) fn shows(&mut self, header: &BatchHeader) -> bool {
        while self.upcoming.last().is_some_and(|next| next.first_offset <= header.last_offset().0) {
            self.aborting.extend(self.upcoming.pop().map(|transaction| transaction.producer_id));
        }
        if header.attributes.is_control() {
            // The marker ends the transaction. It does not matter here whether it commits or aborts.
            self.aborting.remove(&header.producer_id.0);
            return false;
        }
        !(header.attributes.is_transactional() && self.aborting.contains(&header.producer_id.0))
    }
}

#[cfg(test)]
mod tests {
    use tailrace_records::{Attributes, BatchBuilder, BatchOptions};
    use tailrace_types::{Offset, ProducerId, TimestampMs};

    use super::*;

    fn batch(offset: i64, producer: i64, kind: Attributes) -> BatchHeader {
        let options = BatchOptions {
            base_offset: Offset(offset),
            producer_id: ProducerId(producer),
            transactional: kind.is_transactional(),
            control: kind.is_control(),
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        builder.push(TimestampMs(0), None, Some(b"v"), &[]).unwrap();
        BatchHeader::parse(&builder.build()).unwrap()
    }

    #[test]
    fn what_was_aborted_is_left_out_up_to_its_marker() {
        let transactional = Attributes::default().with_transactional(true);
        let marker = transactional.with_control(true);
        let aborted = |producer_id, first_offset| AbortedTransaction {
            producer_id,
            first_offset,
            ..AbortedTransaction::default()
        };
        let mut filter = AbortedFilter::new(vec![aborted(7, 5), aborted(7, 1)]);
        for (offset, producer, kind, shown) in [
            (0, 7, Attributes::default(), true),
            (1, 7, transactional, false),
            (2, 8, transactional, true),
            (3, 7, marker, false),
            (4, 7, transactional, true),
            (5, 7, transactional, false),
            (6, 9, Attributes::default(), true),
            (7, 7, marker, false),
            (8, 7, transactional, true),
        ] {
            assert_eq!(filter.shows(&batch(offset, producer, kind)), shown, "{offset}");
        }
    }
}
