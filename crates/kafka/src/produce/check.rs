//! What the records for a partition must be: one legal batch that the topic's rules admit.

use tailrace_kafka_wire::Records;
use tailrace_records::{AppendRules, BatchError, Validated, validate};

use tailrace_env::workers::{Panicked, Workers};

/// Batches above this size are checked on a worker thread if they are compressed, or are to be: that takes longer than an event loop may be
/// kept from its other connections.
const CHECK_INLINE_BYTES: usize = 32 * 1024;

/// What a smaller one expands to decides, too: a few bytes may expand to very many. No more than [`CHECK_INLINE_BYTES`] is compressed anew.
const EXPAND_INLINE_BYTES: usize = 256 * 1024;

/// And the number of records that it claims to have.
const RECORDS_INLINE: i32 = 16_384;

/// The number of the codec zstd.
const ZSTD: u8 = 4;

/// Validates on the event loop what is quickly validated, and on a worker what is not.
pub(super) async fn check(
    records: Records,
    rules: AppendRules,
    workers: &Workers,
) -> Result<Result<Validated, BatchError>, Panicked> {
    let (codec, count) = (codec(&records), record_count(&records));
    let Records::Bytes(bytes) = records else {
        return Ok(Err(BatchError::Incomplete { bytes_needed: tailrace_records::HEADER_BYTES, bytes: 0 }));
    };
    let is_work = codec != 0 || rules.compression.is_some();
    let compressed_anew = rules.compression.filter(|&target| target as u8 != codec);
    let heavy = count > RECORDS_INLINE
        || (is_work && bytes.len() > CHECK_INLINE_BYTES)
        // At such a level even little takes long.
        || compressed_anew.is_some_and(|target| rules.levels.are_slow(target));
    if !heavy {
        let inline = if compressed_anew.is_some() { CHECK_INLINE_BYTES } else { EXPAND_INLINE_BYTES };
        let bound = rules.decompressed_bytes_max.min(inline);
        let quick = AppendRules { decompressed_bytes_max: bound, ..rules };
        match validate(bytes.clone(), &quick) {
            Err(BatchError::ExpandsTooLarge { .. }) if bound < rules.decompressed_bytes_max => {}
            outcome => return Ok(outcome),
        }
    }
    workers.work(move || validate(bytes, &rules)).await
}

/// Whether the batch says so; nothing else of it is looked at.
pub(super) fn is_zstd(records: &Records) -> bool {
    codec(records) == ZSTD
}

/// The number of the codec, which the attributes' low three bits at the batch's byte 22 name; 0 if there is no batch.
fn codec(records: &Records) -> u8 {
    let Records::Bytes(bytes) = records else { return 0 };
    bytes.get(22).map_or(0, |low| low & 0x07)
}

/// The number at the batch's byte 57; 0 if there is no batch.
fn record_count(records: &Records) -> i32 {
    let Records::Bytes(bytes) = records else { return 0 };
    bytes.get(57..).and_then(|bytes| bytes.first_chunk()).map_or(0, |count| i32::from_be_bytes(*count))
}
