//! A consumer like Kafka's clients. It reads what a Fetch would send, and skips records by the list of
//! aborted transactions and the markers alone, as the Java client's `CompletedFetch` and librdkafka do.

use std::collections::BTreeSet;

use tailrace_log::{LogError, Reach};
use tailrace_records::{DecodedBatch, EndTransactionMarker, split_batches};
use tailrace_replication::PartitionReader;
use tailrace_sim::SimDisk;
use tailrace_types::Offset;

/// `isolation.level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    Uncommitted,
    Committed,
}

/// A record that the application gets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Consumed {
    pub(crate) offset: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

/// Reads everything from the log start on, in pieces of 700 bytes.
pub(crate) fn consume(reader: &PartitionReader<SimDisk>, isolation: Isolation) -> Vec<Consumed> {
    try_consume(reader, isolation).unwrap()
}

/// Like [`consume`], but returns an error if reading fails.
pub(crate) fn try_consume(
    reader: &PartitionReader<SimDisk>,
    isolation: Isolation,
) -> Result<Vec<Consumed>, LogError> {
    let (mut consumed, mut at) = (Vec::new(), reader.log_start());
    let upto = match isolation {
        Isolation::Uncommitted => reader.high_watermark().offset(),
        Isolation::Committed => reader.last_stable_offset(),
    };
    loop {
        let read = match isolation {
            Isolation::Uncommitted => {
                reader.log().read(at, upto, 700, true)?.map(|slice| (slice, Vec::new()))
            }
            Isolation::Committed => reader.read_committed(Reach::Disk, at, upto, 700, true)?,
        };
        let Some((slice, aborted)) = read else { return Ok(consumed) };
        let mut aborted: Vec<_> = aborted.iter().map(|t| (t.first_offset, t.producer_id)).collect();
        aborted.sort();
        take(&slice.read().unwrap(), at, aborted, &mut consumed);
        at = slice.next_offset;
    }
}

/// Adds what the application gets of one answer, from the offset `at` on.
fn take(
    bytes: &[u8],
    at: Offset,
    aborted: Vec<(Offset, tailrace_types::ProducerId)>,
    consumed: &mut Vec<Consumed>,
) {
    let mut aborted = aborted.into_iter().peekable();
    let mut skipping = BTreeSet::new();
    for batch in split_batches(bytes) {
        let (header, bytes) = batch.unwrap();
        while let Some((_, producer)) = aborted.next_if(|next| next.0 <= header.last_offset()) {
            skipping.insert(producer);
        }
        if header.attributes.is_control() {
            // Only an abort marker ends the skipping. A batch whose record compaction has removed is not a
            // marker.
            let marker = EndTransactionMarker::read(bytes).unwrap();
            if header.record_count > 0 && marker.is_some_and(|marker| !marker.committed) {
                skipping.remove(&header.producer_id);
            }
            continue;
        }
        if header.attributes.is_transactional() && skipping.contains(&header.producer_id) {
            continue;
        }
        for record in DecodedBatch::new(bytes, 1 << 20).unwrap().records() {
            let record = record.unwrap();
            if record.offset >= at {
                consumed.push(Consumed {
                    offset: record.offset.get(),
                    key: record.key.unwrap_or_default().to_vec(),
                    value: record.value.map(<[u8]>::to_vec),
                });
            }
        }
    }
}
