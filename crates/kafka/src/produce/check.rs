//! Checks the records for a partition: they must be one legal batch that the topic's rules allow.

use tailrace_kafka_wire::Records;
use tailrace_records::{AppendRules, BatchError, Validated, validate};

use crate::work::Work;
use tailrace_env::time::Instant;
use tailrace_env::workers::{Panicked, Workers};

/// Compressed batches above this size, and batches to be compressed, are checked on a worker thread, because
/// that would block an event loop for too long.
const CHECK_INLINE_BYTES: usize = 32 * 1024;

/// Largest decompressed size of a smaller batch, because few bytes may expand to very many. If the batch is
/// to be recompressed, the limit is [`CHECK_INLINE_BYTES`].
const EXPAND_INLINE_BYTES: usize = 256 * 1024;

/// Most records that such a batch may claim to have.
const RECORDS_INLINE: i32 = 16_384;

/// The number of the zstd codec.
const ZSTD: u8 = 4;

/// Validates a batch on the event loop if that is quick, and on a worker otherwise.
pub(super) async fn check(
    records: Records,
    rules: AppendRules,
    workers: &Workers,
    spent: &Work,
) -> Result<Result<Validated, BatchError>, Panicked> {
    let (codec, count) = (codec(&records), record_count(&records));
    let Records::Bytes(bytes) = records else {
        return Ok(Err(BatchError::Incomplete { bytes_needed: tailrace_records::HEADER_BYTES, bytes: 0 }));
    };
    let is_work = codec != 0 || rules.compression.is_some();
    let recompressed = rules.compression.filter(|&target| target as u8 != codec);
    let heavy = count > RECORDS_INLINE
        || (is_work && bytes.len() > CHECK_INLINE_BYTES)
        // At a slow level, even a small batch takes long.
        || recompressed.is_some_and(|target| rules.levels.are_slow(target));
    if !heavy {
        let inline = if recompressed.is_some() { CHECK_INLINE_BYTES } else { EXPAND_INLINE_BYTES };
        let bound = rules.decompressed_bytes_max.min(inline);
        let quick = AppendRules { decompressed_bytes_max: bound, ..rules };
        match validate(bytes.clone(), &quick) {
            Err(BatchError::ExpandsTooLarge { .. }) if bound < rules.decompressed_bytes_max => {}
            outcome => return Ok(outcome),
        }
    }
    let timed = move || {
        let began = Instant::now();
        (validate(bytes, &rules), began.elapsed())
    };
    let (outcome, time) = workers.work(timed).await?;
    spent.add(time);
    Ok(outcome)
}

/// Reports whether the batch claims to be compressed with zstd. Checks nothing else.
pub(super) fn is_zstd(records: &Records) -> bool {
    codec(records) == ZSTD
}

/// Returns the number of the codec: the low three bits of the attributes, in byte 22 of the batch. 0 if there
/// is no batch.
fn codec(records: &Records) -> u8 {
    let Records::Bytes(bytes) = records else { return 0 };
    bytes.get(22).map_or(0, |low| low & 0x07)
}

/// Returns the record count, at byte 57 of the batch. 0 if there is no batch.
fn record_count(records: &Records) -> i32 {
    let Records::Bytes(bytes) = records else { return 0 };
    bytes.get(57..).and_then(|bytes| bytes.first_chunk()).map_or(0, |count| i32::from_be_bytes(*count))
}
