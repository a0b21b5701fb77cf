//! What the records for a partition must be: one legal batch that the topic's rules admit.

use tailrace_kafka_wire::Records;
use tailrace_records::{AppendRules, BatchError, Validated, validate};

/// Compressed batches above this size are checked on a worker thread: decompressing them takes longer than an event
/// loop may be kept from its other connections.
const CHECK_INLINE_BYTES: usize = 32 * 1024;

/// The number of the codec zstd.
const ZSTD: u8 = 4;

/// Validates on the event loop what is quickly validated, and on a worker what is not.
pub(super) async fn check(records: Records, rules: AppendRules) -> Result<Validated, BatchError> {
    let compressed = codec(&records) != 0;
    let Records::Bytes(bytes) = records else {
        return Err(BatchError::Incomplete { bytes_needed: tailrace_records::HEADER_BYTES, bytes: 0 });
    };
    let heavy = bytes.len() > CHECK_INLINE_BYTES && (rules.compression.is_some() || compressed);
    if !heavy {
        return validate(bytes, &rules);
    }
    let checked = tokio::task::spawn_blocking(move || validate(bytes, &rules)).await;
    checked.unwrap_or(Err(BatchError::Incomplete { bytes_needed: 0, bytes: 0 }))
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
