//! Arbitrary bytes as record batches. Nothing may panic, memory must stay within the limit, and every
//! accepted batch must be readable.
//!
//! The first byte chooses the topic's rules. Unless its high bit is set, length and CRC are corrected first,
//! so that the fuzzer reaches the records after them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace_records::*;
use tailrace_types::TimestampMs;

const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, batch)) = data.split_first() else { return };
    let mut bytes = batch.to_vec();
    if choice & 0x80 == 0 && bytes.len() >= HEADER_BYTES {
        repair(&mut bytes);
    }
    for (header, batch) in split_batches(&bytes).flatten() {
        assert_eq!(header.total_bytes(), batch.len());
    }
    if let Ok(batch) = DecodedBatch::new(&bytes, DECOMPRESSED_BYTES_MAX) {
        assert!(batch.body().len() <= DECOMPRESSED_BYTES_MAX.max(bytes.len()));
        let _ = batch.records().flatten().map(|record| record.headers.count()).sum::<usize>();
    }
    if let Ok(valid) = validate(bytes.into(), &rules(choice)) {
        assert_eq!(check(&valid.bytes), Ok(valid.header));
        let batch = DecodedBatch::new(&valid.bytes, DECOMPRESSED_BYTES_MAX).expect("an accepted batch");
        let read = batch
            .records_with(Strictness::Strict)
            .map(|record| record.expect("a record of an accepted batch"))
            .count();
        assert_eq!(read as i32, valid.header.record_count);
    }
});

fn repair(bytes: &mut [u8]) {
    let length = (bytes.len() - LENGTH_OVERHEAD) as i32;
    bytes[..LENGTH_OFFSET].fill(0);
    bytes[LENGTH_OFFSET..LEADER_EPOCH_OFFSET].copy_from_slice(&length.to_be_bytes());
    bytes[MAGIC_OFFSET] = MAGIC as u8;
    if let Err(BatchError::Checksum { computed, .. }) = check(bytes) {
        bytes[CRC_OFFSET..ATTRIBUTES_OFFSET].copy_from_slice(&computed.to_be_bytes());
    }
}

fn rules(choice: u8) -> AppendRules {
    AppendRules {
        compression: Compression::from_id(choice & 7),
        timestamp_type: if choice & 8 == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        },
        keys_required: choice & 16 != 0,
        decompressed_bytes_max: DECOMPRESSED_BYTES_MAX,
        ..AppendRules::kafka_defaults(TimestampMs(1_700_000_000_000))
    }
}
