//! Builds a batch from what a coordinator wants to write.

use tailrace_coordination::coordinator::Append;
use tailrace_records::{BatchBuilder, BatchError, BatchOptions, Validated};
use tailrace_types::TimestampMs;

/// Builds the batch. It may exceed `max.message.bytes`: the records of a step belong together, and their size
/// is bounded by that of the request that caused them.
pub(super) fn build(append: &Append, now: TimestampMs) -> Result<Validated, BatchError> {
    let mut options = BatchOptions::default();
    if let Some(producer) = append.producer {
        // Without a sequence: a coordinator's writes are not retried.
        options.producer_id = producer.id;
        options.producer_epoch = producer.epoch;
        options.transactional = true;
    }
    let mut builder = BatchBuilder::new(options);
    for record in &append.records {
        builder.push(now, Some(&record.key), record.value.as_deref(), &[])?;
    }
    let (header, bytes) = builder.build_with_header();
    Ok(Validated { header, bytes })
}
