//! Damaged batches. Every flipped bit is found, and truncation and garbage never cause a panic.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tailrace_records::*;
use tailrace_types::TimestampMs;

const TIME: i64 = 1_700_000_000_000;

fn rules() -> AppendRules {
    AppendRules { decompressed_bytes_max: 1 << 20, ..AppendRules::kafka_defaults(TimestampMs(TIME)) }
}

fn batch(compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
    for i in 0..20 {
        let value = format!("value {i} ").repeat(i);
        builder.push(TimestampMs(TIME), Some(b"key"), Some(value.as_bytes()), &[(b"h", None)]).unwrap();
    }
    builder.build().to_vec()
}

#[test]
fn each_flipped_bit_is_found_or_harmless() {
    for compression in Compression::ALL {
        let sound = batch(compression);
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Base offset and leader epoch are outside the CRC, because the server stamps them.
            let stamped = bit / 8 < LENGTH_OFFSET || (LEADER_EPOCH_OFFSET..PREFIX_BYTES).contains(&(bit / 8));
            assert_eq!(check(&bytes).is_ok(), stamped, "{compression}: bit {bit}");
            let epoch = (LEADER_EPOCH_OFFSET..PREFIX_BYTES).contains(&(bit / 8));
            assert_eq!(validate(bytes.into(), &rules()).is_ok(), epoch, "{compression}: bit {bit}");
        }
    }
}

#[test]
fn each_cut_is_found() {
    for compression in Compression::ALL {
        let sound = batch(compression);
        for end in 0..sound.len() {
            let cut = &sound[..end];
            assert!(matches!(check(cut), Err(BatchError::Incomplete { .. })), "{compression}: {end}");
            assert!(matches!(validate(cut.to_vec().into(), &rules()), Err(BatchError::Incomplete { .. })));
            assert_eq!(split_batches(cut).count(), 0);
        }
    }
}

/// The records truncated at each byte, with correct length and CRC, so that only the walk over the records
/// can find it.
#[test]
fn each_cut_of_the_records_is_found() {
    for compression in Compression::ALL {
        let sound = batch(compression);
        for end in HEADER_BYTES..sound.len() {
            let bytes = sealed(sound[..end].to_vec());
            assert!(validate(bytes.into(), &rules()).is_err(), "{compression}: {end}");
        }
    }
}

/// Sets the correct length and CRC.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = (bytes.len() - LENGTH_OVERHEAD) as i32;
    bytes[LENGTH_OFFSET..LEADER_EPOCH_OFFSET].copy_from_slice(&length.to_be_bytes());
    let crc = crc_fast::crc32_iscsi(&bytes[ATTRIBUTES_OFFSET..]);
    bytes[CRC_OFFSET..ATTRIBUTES_OFFSET].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// xorshift64: the same garbage in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Everything accepted must be readable by our own reader, record by record.
fn survive(bytes: Vec<u8>, rules: &AppendRules) {
    let _ = split_batches(&bytes).last();
    let _ = DecodedBatch::new(&bytes, 1 << 20).map(|b| b.records().filter(Result::is_ok).count());
    if let Ok(valid) = validate(bytes.into(), rules) {
        let batch = DecodedBatch::new(&valid.bytes, 1 << 20).unwrap();
        let read = batch.records_with(Strictness::Strict).map(Result::unwrap).count();
        assert_eq!(read, valid.header.record_count as usize);
    }
}

#[test]
fn changed_bytes_behind_a_right_crc() {
    let mut random = Random(0x7461_696c);
    for compression in Compression::ALL {
        let sound = batch(compression);
        for _ in 0..20_000 {
            let mut bytes = sound.clone();
            for _ in 0..=random.below(4) {
                let at = ATTRIBUTES_OFFSET + random.below(bytes.len() - ATTRIBUTES_OFFSET);
                bytes[at] = random.next() as u8;
            }
            let mut rules = rules();
            if random.below(4) == 0 {
                rules.compression = Some(Compression::ALL[random.below(5)]);
            }
            survive(sealed(bytes), &rules);
        }
    }
}

#[test]
fn garbage() {
    let mut random = Random(0x7261_6365);
    for round in 0..50_000 {
        let length = random.below(200);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if round % 2 == 0 && length > HEADER_BYTES {
            bytes[..LENGTH_OFFSET].fill(0);
            bytes[MAGIC_OFFSET] = 2;
            bytes[ATTRIBUTES_OFFSET] = 0;
            bytes[RECORD_COUNT_OFFSET..HEADER_BYTES].copy_from_slice(&[0, 0, 0, 2]);
            bytes[LAST_OFFSET_DELTA_OFFSET..BASE_TIMESTAMP_OFFSET].copy_from_slice(&[0, 0, 0, 1]);
            bytes = sealed(bytes);
        }
        survive(bytes, &rules());
    }
}

#[test]
fn errors_name_the_byte() {
    let mut bytes = batch(Compression::None);
    // The second record starts after the first: 1 length byte and the bytes that it counts.
    let first = 1 + usize::from(bytes[HEADER_BYTES] / 2);
    bytes[HEADER_BYTES + first] = 1;
    let bytes = sealed(bytes);
    let fault = RecordFault::Length { declared: -1, remaining: bytes.len() - HEADER_BYTES - first - 1 };
    let expected = BatchError::Record { index: 1, position: first + 1, fault };
    assert_eq!(validate(bytes.clone().into(), &rules()), Err(expected.clone()));
    let decoded = DecodedBatch::new(&bytes, 1 << 20).unwrap();
    let mut records = decoded.records();
    assert!(records.next().unwrap().is_ok());
    assert_eq!(records.next().unwrap().unwrap_err(), expected);
    assert!(records.next().is_none());
}
