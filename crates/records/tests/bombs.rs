//! Small batches that expand, or claim to expand, beyond the limit are refused, with memory bounded by the
//! limit.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tailrace_records::*;
use tailrace_types::TimestampMs;

const LIMIT: usize = 8 << 20;
const EXPANDED: usize = 64 << 20;
/// The memory of a codec itself, mostly the window and tables of inflate.
const CODEC_BYTES: usize = 128 << 10;

/// Counts the bytes that a thread holds, and their peak. It does not count zstd's contexts, which the C
/// library allocates.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    HELD.set(HELD.get() + bytes);
    PEAK.set(PEAK.get().max(HELD.get()));
}

#[expect(unsafe_code, reason = "a counting allocator is the only way to see each allocation")]
// SAFETY: both calls pass straight through to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds the contract of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the peak of `work` beyond what was held before it.
fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before) as usize)
}

fn rules() -> AppendRules {
    AppendRules { decompressed_bytes_max: LIMIT, ..AppendRules::kafka_defaults(TimestampMs(0)) }
}

fn with_body(compression: Compression, body: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(TimestampMs(0), None, None, &[]).unwrap();
    let mut bytes = [&builder.build()[..HEADER_BYTES], body].concat();
    bytes[ATTRIBUTES_OFFSET + 1] = compression.id();
    let length = (bytes.len() - LENGTH_OVERHEAD) as i32;
    bytes[LENGTH_OFFSET..LEADER_EPOCH_OFFSET].copy_from_slice(&length.to_be_bytes());
    let crc = crc_fast::crc32_iscsi(&bytes[ATTRIBUTES_OFFSET..]);
    bytes[CRC_OFFSET..ATTRIBUTES_OFFSET].copy_from_slice(&crc.to_be_bytes());
    bytes
}

#[test]
fn a_large_value_of_zeros_in_each_codec() {
    for compression in &Compression::ALL[1..] {
        let mut builder =
            BatchBuilder::new(BatchOptions { compression: *compression, ..BatchOptions::default() });
        builder.push(TimestampMs(0), None, Some(&vec![0; EXPANDED]), &[]).unwrap();
        let bytes = builder.build();
        let rules = AppendRules { batch_bytes_max: bytes.len(), ..rules() };
        let size = bytes.len();
        let (answer, held) = peak(|| validate(bytes, &rules));
        assert_eq!(answer, Err(BatchError::ExpandsTooLarge { bytes_max: LIMIT }), "{compression}");
        // A growing buffer is copied occasionally, so that two of them exist for a moment.
        assert!(held < 2 * LIMIT + CODEC_BYTES, "{compression}: {held} bytes held for {size}");
    }
}

#[test]
fn many_records_as_small_as_can_be() {
    let records = [14u8, 0, 0, 0, 1, 1, 0].repeat(EXPANDED / 7);
    for compression in &Compression::ALL[1..] {
        let mut body = Vec::new();
        compress(*compression, CompressionLevels::default(), &records, &mut body);
        let bytes = with_body(*compression, &body);
        let rules = AppendRules { batch_bytes_max: bytes.len(), ..rules() };
        let (answer, held) = peak(|| validate(bytes.into(), &rules));
        assert_eq!(answer, Err(BatchError::ExpandsTooLarge { bytes_max: LIMIT }), "{compression}");
        assert!(held < 2 * LIMIT + CODEC_BYTES, "{compression}: {held}");
    }
}

/// Headers that claim much, with hardly any bytes after them. No memory is allocated for claims.
#[test]
fn claims_alone_allocate_nothing() {
    let snappy = b"\x82SNAPPY\x00\0\0\0\x01\0\0\0\x01";
    let lz4 = 0x184D_2204_u32.to_le_bytes();
    let zstd = 0xFD2F_B528_u32.to_le_bytes();
    let cases: [(&str, Compression, Vec<u8>); 9] = [
        ("snappy block length", Compression::Snappy, [&snappy[..], &[0x7f, 0xff, 0xff, 0xff, 0]].concat()),
        ("snappy size", Compression::Snappy, [&snappy[..], &[0, 0, 0, 6, 255, 255, 255, 255, 7, 0]].concat()),
        ("raw snappy size", Compression::Snappy, vec![255, 255, 255, 255, 7, 0]),
        (
            "lz4 block size 4 MiB",
            Compression::Lz4,
            [&lz4[..], &[0x60, 0x70, 0x73, 2, 0, 0, 0, 0x10, b'a']].concat(),
        ),
        (
            "lz4 block length",
            Compression::Lz4,
            [&lz4[..], &[0x60, 0x40, 0x82, 0xff, 0xff, 0xff, 0x7f]].concat(),
        ),
        (
            "zstd size",
            Compression::Zstd,
            [&zstd[..], &[0xe0, 255, 255, 255, 255, 255, 0, 0, 0, 1, 0, 0]].concat(),
        ),
        ("zstd window", Compression::Zstd, [&zstd[..], &[0, 0x88, 9, 0, 0, b'a']].concat()),
        ("zstd skippable", Compression::Zstd, vec![0x50, 0x2a, 0x4d, 0x18, 255, 255, 255, 255]),
        ("gzip extra field", Compression::Gzip, vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3, 255, 255, 0]),
    ];
    for (name, compression, body) in cases {
        let bytes = with_body(compression, &body);
        let (answer, held) = peak(|| validate(bytes.into(), &rules()));
        assert!(answer.is_err(), "{name}");
        assert!(held < CODEC_BYTES, "{name}: {held} bytes held, {answer:?}");
    }
}

/// The hot path allocates nothing at all. A compressed batch allocates nothing once the thread's buffer has
/// grown.
#[test]
fn a_sound_batch_allocates_nothing() {
    for compression in [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        for _ in 0..500 {
            builder.push(TimestampMs(0), Some(b"key"), Some(&[b'v'; 1000]), &[(b"h", None)]).unwrap();
        }
        let bytes = builder.build();
        validate(bytes.clone(), &rules()).unwrap();
        let (answer, held) = peak(|| validate(bytes.clone(), &rules()));
        assert!(answer.is_ok());
        assert!(held < 64, "{compression}: {held} bytes");
    }
}

#[test]
fn rejections_are_counted_not_collected() {
    let count = 100_000;
    let mut builder =
        BatchBuilder::new(BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() });
    for _ in 0..count {
        builder.push(TimestampMs(0), None, None, &[]).unwrap();
    }
    let rules = AppendRules { keys_required: true, ..rules() };
    let Err(BatchError::InvalidRecords(rejections)) = validate(builder.build(), &rules) else {
        panic!("keys are required");
    };
    assert_eq!((rejections.count, rejections.records.len()), (count, REJECTIONS_MAX));
    assert_eq!(rejections.records[7], Rejection { index: 7, reason: RejectReason::KeyMissing });
}
