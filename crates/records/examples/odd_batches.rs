//! Prints batches with one defect or oddity each, as tab-separated name, topic and hex bytes.
//!
//! `tests/fixtures/ask_kafka.py` sends them to a real Kafka and records its answers in
//! `tests/fixtures/answers.tsv`. `tests/batches/kafka_answers.rs` checks `validate` against these answers.

use tailrace_records::*;
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

const TIME: i64 = 1_700_000_000_000;
/// A topic with Kafka's defaults. `ask_kafka.py` describes the other topics.
const PLAIN: &str = "plain";

fn main() {
    print("empty", PLAIN, &[]);
    print("ten_bytes", PLAIN, &[0; 10]);
    headers();
    framing();
    counts();
    timestamps();
    records();
    codecs();
    topics();
}

fn print(name: &str, topic: &str, bytes: &[u8]) {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{name}\t{topic}\t{hex}");
}

/// A valid batch of `n` records whose header is `change`d, with the matching CRC and length.
fn batch(n: usize, compression: Compression, change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
    for i in 0..n {
        let time = TimestampMs(TIME + i as i64);
        builder.push(time, Some(b"key"), Some(b"value"), &[(b"h", Some(b"v"))]).expect("room");
    }
    let bytes = builder.build();
    let mut header = BatchHeader::parse(&bytes).expect("built");
    change(&mut header);
    join(header, &bytes[HEADER_BYTES..])
}

fn join(mut header: BatchHeader, body: &[u8]) -> Vec<u8> {
    header.batch_length = (HEADER_BYTES + body.len() - LENGTH_OVERHEAD) as i32;
    let mut bytes = [&header.to_bytes(), body].concat();
    let crc = crc_fast::crc32_iscsi(&bytes[ATTRIBUTES_OFFSET..]);
    bytes[CRC_OFFSET..ATTRIBUTES_OFFSET].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// A batch whose uncompressed body is `body`.
fn with_body(count: i32, compression: Compression, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    compress(compression, CompressionLevels::default(), body, &mut out);
    with_raw_body(count, compression, &out)
}

fn with_raw_body(count: i32, compression: Compression, body: &[u8]) -> Vec<u8> {
    let mut header = BatchHeader::parse(&batch(1, Compression::None, |_| {})).expect("built");
    header.attributes = header.attributes.with_compression(compression);
    header.record_count = count;
    header.last_offset_delta = count - 1;
    join(header, body)
}

fn plain(change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    batch(2, Compression::None, change)
}

fn header_case(name: &str, change: impl FnOnce(&mut BatchHeader)) {
    print(name, PLAIN, &plain(change));
}

fn headers() {
    header_case("sound", |_| {});
    header_case("base_offset_5", |h| h.base_offset = Offset(5));
    header_case("base_offset_negative", |h| h.base_offset = Offset(-1));
    header_case("leader_epoch_7", |h| h.leader_epoch.0 = 7);
    for id in [5, 6, 7] {
        header_case(&format!("compression_id_{id}"), |h| h.attributes.0 |= id);
    }
    header_case("attribute_bit_7", |h| h.attributes.0 |= 0x80);
    header_case("attribute_bit_15", |h| h.attributes.0 |= i16::MIN);
    header_case("delete_horizon", |h| h.attributes.0 |= 0x40);
    header_case("control", |h| h.attributes = h.attributes.with_control(true));
    header_case("log_append_time_set", |h| {
        h.attributes = h.attributes.with_timestamp_type(TimestampType::LogAppendTime);
    });
    header_case("log_append_time_set_and_max_minus_1", |h| {
        h.attributes = h.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        h.max_timestamp = TimestampMs(-1);
    });
    header_case("producer_id_without_sequence", |h| h.producer_id = ProducerId(1));
    header_case("producer_id_with_sequence_minus_5", |h| {
        (h.producer_id, h.producer_epoch, h.base_sequence) = (ProducerId(1), ProducerEpoch(0), -5);
    });
    header_case("producer_id_minus_2", |h| h.producer_id = ProducerId(-2));
    header_case("sequence_without_producer_id", |h| h.base_sequence = 3);
    header_case("transactional_without_producer_id", |h| {
        h.attributes = h.attributes.with_transactional(true)
    });
}

fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut out = plain(|_| {});
    out[at..at + bytes.len()].copy_from_slice(bytes);
    out
}

fn framing() {
    let sound = plain(|_| {});
    for length in [-1i32, 0, 13, 14, 48] {
        print(&format!("length_{length}"), PLAIN, &patched(LENGTH_OFFSET, &length.to_be_bytes()));
    }
    let longer = (sound.len() - LENGTH_OVERHEAD + 1) as i32;
    print("length_one_too_many", PLAIN, &patched(LENGTH_OFFSET, &longer.to_be_bytes()));
    print("length_one_too_few", PLAIN, &patched(LENGTH_OFFSET, &(longer - 2).to_be_bytes()));
    print("cut_in_header", PLAIN, &sound[..40]);
    print("cut_in_records", PLAIN, &sound[..sound.len() - 1]);
    for magic in [0i8, 1, 3, -1] {
        print(&format!("magic_{magic}"), PLAIN, &patched(MAGIC_OFFSET, &magic.to_be_bytes()));
    }
    print("crc_wrong", PLAIN, &patched(CRC_OFFSET, &[0; 4]));
    let mut both = plain(|h| h.base_offset = Offset(5));
    both[CRC_OFFSET] ^= 1;
    print("crc_wrong_and_base_offset_5", PLAIN, &both);
    both = plain(|h| h.record_count = 0);
    both[CRC_OFFSET] ^= 1;
    print("crc_wrong_and_count_0", PLAIN, &both);
    let trailing: [(&str, &[u8]); 7] = [
        ("5_zeros", &[0; 5]),
        ("16_zeros", &[0; 16]),
        ("17_zeros", &[0; 17]),
        ("partial_batch", &sound[..70]),
        ("partial_header", &sound[..30]),
        ("second_batch", &sound),
        ("partial_old_batch", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 0, 0, 1]),
    ];
    for (name, bytes) in trailing {
        print(&format!("followed_by_{name}"), PLAIN, &[&sound, bytes].concat());
    }
    let mut large = batch(100, Compression::None, |_| {});
    print("too_large", "small", &large);
    large[CRC_OFFSET] ^= 1;
    print("too_large_and_crc_wrong", "small", &large);
    large[7] = 5;
    print("too_large_and_base_offset_5", "small", &large);
}

fn counts() {
    header_case("count_0", |h| (h.record_count, h.last_offset_delta) = (0, 0));
    header_case("count_0_and_delta_minus_1", |h| (h.record_count, h.last_offset_delta) = (0, -1));
    header_case("count_minus_1", |h| h.record_count = -1);
    header_case("count_3_of_2", |h| h.record_count = 3);
    header_case("count_1_of_2", |h| h.record_count = 1);
    header_case("count_and_delta_3_of_2", |h| (h.record_count, h.last_offset_delta) = (3, 2));
    header_case("count_and_delta_1_of_2", |h| (h.record_count, h.last_offset_delta) = (1, 0));
    header_case("count_and_delta_max", |h| (h.record_count, h.last_offset_delta) = (i32::MAX, i32::MAX - 1));
    header_case("delta_minus_1", |h| h.last_offset_delta = -1);
    header_case("delta_5", |h| h.last_offset_delta = 5);
    for compression in [Compression::Gzip, Compression::Lz4] {
        let case = |name: &str, count: i32, delta: i32| {
            let bytes = batch(2, compression, |h| (h.record_count, h.last_offset_delta) = (count, delta));
            print(&format!("{name}_{compression}"), PLAIN, &bytes);
        };
        case("count_and_delta_3_of_2", 3, 2);
        case("count_and_delta_1_of_2", 1, 0);
    }
}

fn timestamps() {
    header_case("max_timestamp_too_low", |h| h.max_timestamp.0 -= 1);
    header_case("max_timestamp_too_high", |h| h.max_timestamp.0 += 1);
    header_case("max_timestamp_minus_1", |h| h.max_timestamp.0 = -1);
    print("max_timestamp_wrong_lz4", PLAIN, &batch(2, Compression::Lz4, |h| h.max_timestamp.0 += 1));
    let at = |topic: &str, name: &str, time: i64, compression: Compression| {
        let bytes = batch(1, compression, |h| (h.base_timestamp.0, h.max_timestamp.0) = (time, time));
        print(&format!("timestamp_{name}_{compression}"), topic, &bytes);
    };
    for compression in [Compression::None, Compression::Lz4] {
        at(PLAIN, "minus_1", -1, compression);
        at(PLAIN, "minus_2", -2, compression);
        at(PLAIN, "0", 0, compression);
        at(PLAIN, "year_2100", 4_102_444_800_000, compression);
        at(PLAIN, "max", i64::MAX, compression);
        at(PLAIN, "min", i64::MIN, compression);
        at("recent", "old", TIME, compression);
        at("recent", "none", -1, compression);
        at("time", "old_append_time", TIME, compression);
        at("time", "far_append_time", i64::MAX, compression);
        at("time", "none_append_time", -1, compression);
        at("gzip", "minus_2_recompressed", -2, compression);
    }
}

/// A record made of `parts`, after its correct length.
fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&[(body.len() * 2) as u8], &body[..]].concat()
}

fn records() {
    let delta = |n: u8| framed(&[&[0, 0, n * 2], &[2, b'k'], &[2, b'v'], &[0]]);
    let sound = delta(0);
    let long = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    let cases: Vec<(&str, i32, Vec<u8>)> = vec![
        ("deltas_0_2", 2, [delta(0), delta(2)].concat()),
        ("deltas_1_0", 2, [delta(1), delta(0)].concat()),
        ("deltas_0_0", 2, [delta(0), delta(0)].concat()),
        ("attributes_set", 1, framed(&[&[0xff, 0, 0], &[2, b'k'], &[2, b'v'], &[0]])),
        ("length_negative", 1, [&[1u8][..], &sound[1..]].concat()),
        ("length_0", 1, vec![0]),
        ("length_beyond", 1, [&[sound[0] + 2][..], &sound[1..]].concat()),
        ("length_short", 1, [&[sound[0] - 2][..], &sound[1..]].concat()),
        ("length_short_two_records", 2, [&[sound[0] - 2][..], &sound[1..], &delta(1)].concat()),
        ("length_max", 1, [&long[..], &sound[1..]].concat()),
        ("length_varint_too_long", 1, vec![0x80; 12]),
        ("timestamp_varint_too_long", 1, framed(&[&[0], &[0x80; 11], &[0, 1, 1, 0]])),
        ("delta_varint_too_long", 1, framed(&[&[0, 0], &[0x80; 6], &[1, 1, 0]])),
        ("key_null", 1, framed(&[&[0, 0, 0], &[1], &[2, b'v'], &[0]])),
        ("key_empty", 1, framed(&[&[0, 0, 0], &[0], &[2, b'v'], &[0]])),
        ("key_minus_2", 1, framed(&[&[0, 0, 0], &[3], &[2, b'v'], &[0]])),
        ("key_beyond", 1, framed(&[&[0, 0, 0], &[40], b"v", &[0]])),
        ("key_max", 1, framed(&[&[0, 0, 0], &long, &[0]])),
        ("value_null", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[1], &[0]])),
        ("value_minus_2", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[3], &[0]])),
        ("value_beyond", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[40, b'v'], &[0]])),
        ("headers_missing", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[2, b'v']])),
        ("headers_minus_1", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[2, b'v'], &[1]])),
        ("headers_max", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[2, b'v'], &long])),
        (
            "headers_5_of_1",
            1,
            framed(&[&[0, 0, 0], &[2, b'k'], &[2, b'v'], &[10, 2, b'h', 2, b'v', 0, 0, 0]]),
        ),
        ("header_key_null", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[2, b'v'], &[2, 1, 2, b'v']])),
        ("header_key_not_utf8", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[2, b'v'], &[2, 2, 0xff, 2, b'v']])),
        ("header_value_null", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[2, b'v'], &[2, 2, b'h', 1]])),
        ("header_value_minus_2", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[2, b'v'], &[2, 2, b'h', 3]])),
        ("bytes_in_record_after_headers", 1, framed(&[&[0, 0, 0], &[2, b'k'], &[2, b'v'], &[0, 0]])),
        ("no_bytes", 1, vec![]),
        ("bytes_after_last", 1, [&sound[..], &[0]].concat()),
    ];
    for (name, count, body) in &cases {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            print(&format!("record_{name}_{compression}"), PLAIN, &with_body(*count, compression, body));
        }
        let bytes = with_body(*count, Compression::None, body);
        print(&format!("record_{name}_to_gzip"), "gzip", &bytes);
    }
}

fn codecs() {
    let good = batch(3, Compression::None, |_| {})[HEADER_BYTES..].to_vec();
    let packed = |compression| {
        let mut out = Vec::new();
        compress(compression, CompressionLevels::default(), &good, &mut out);
        out
    };
    let case = |name: &str, compression: Compression, body: &[u8]| {
        let mut bytes = batch(3, compression, |_| {});
        let header = BatchHeader::parse(&bytes).expect("built");
        bytes = join(header, body);
        print(&format!("{compression}_{name}"), PLAIN, &bytes);
    };
    for compression in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let body = packed(compression);
        case("sound", compression, &body);
        case("nothing", compression, &[]);
        case("not_compressed", compression, &good);
        case("cut_by_1", compression, &body[..body.len() - 1]);
        case("cut_by_half", compression, &body[..body.len() / 2]);
        case("followed_by_zero", compression, &[&body[..], &[0]].concat());
        case("followed_by_text", compression, &[&body[..], b"some more text"].concat());
        case("twice", compression, &[&body[..], &body].concat());
        let mut flipped = body.clone();
        flipped[body.len() / 2] ^= 0x55;
        case("flipped", compression, &flipped);
    }
    case("raw_block", Compression::Snappy, &packed(Compression::Snappy)[20..]);
    snappy_frames(&case, &packed(Compression::Snappy));
    lz4_frames(&case, &good);
    zstd_frames(&case, &good);
}

fn snappy_frames(case: &impl Fn(&str, Compression, &[u8]), body: &[u8]) {
    let mut changed = body.to_vec();
    changed[11] = 0;
    case("version_0", Compression::Snappy, &changed);
    changed[11] = 9;
    case("version_9", Compression::Snappy, &changed);
    let blocks = [&body[..16], &(-1i32).to_be_bytes(), &body[20..]].concat();
    case("block_length_minus_1", Compression::Snappy, &blocks);
    case(
        "block_length_max",
        Compression::Snappy,
        &[&body[..16], &i32::MAX.to_be_bytes(), &body[20..]].concat(),
    );
    case("empty_block_first", Compression::Snappy, &[&body[..16], &[0, 0, 0, 1, 0], &body[16..]].concat());
    case("block_length_0_first", Compression::Snappy, &[&body[..16], &[0, 0, 0, 0], &body[16..]].concat());
}

/// An LZ4 frame of one stored block with these flags. `extra` goes before the block, `tail` after the end
/// mark.
fn lz4_frame(flags: u8, block: u8, extra: &[u8], body: &[u8], tail: &[u8]) -> Vec<u8> {
    let descriptor = [&[flags, block], extra].concat();
    let check = (xxhash(&descriptor) >> 8) as u8;
    let length = (body.len() as u32 | 1 << 31).to_le_bytes();
    let magic = 0x184D_2204_u32.to_le_bytes();
    [&magic, &descriptor[..], &[check], &length, body, &[0; 4], tail].concat()
}

/// xxHash32 of at most 15 bytes. The crate's own implementation is private.
fn xxhash(bytes: &[u8]) -> u32 {
    let (prime_1, prime_2, prime_3, prime_4, prime_5) =
        (0x9E37_79B1u32, 0x85EB_CA77u32, 0xC2B2_AE3Du32, 0x27D4_EB2Fu32, 0x1656_67B1u32);
    assert!(bytes.len() < 16, "only short inputs are needed here");
    let mut hash = prime_5.wrapping_add(bytes.len() as u32);
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(prime_3));
        hash = hash.rotate_left(17).wrapping_mul(prime_4);
    }
    for byte in tail {
        hash =
            hash.wrapping_add(u32::from(*byte).wrapping_mul(prime_5)).rotate_left(11).wrapping_mul(prime_1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(prime_2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(prime_3);
    hash ^ (hash >> 16)
}

fn lz4_frames(case: &impl Fn(&str, Compression, &[u8]), good: &[u8]) {
    let lz4 = |name: &str, frame: &[u8]| case(name, Compression::Lz4, frame);
    lz4("stored", &lz4_frame(0x60, 0x40, &[], good, &[]));
    lz4("dependent", &lz4_frame(0x40, 0x40, &[], good, &[]));
    lz4("content_size", &lz4_frame(0x68, 0x40, &(good.len() as u64).to_le_bytes(), good, &[]));
    lz4("content_size_wrong", &lz4_frame(0x68, 0x40, &7u64.to_le_bytes(), good, &[]));
    lz4("content_checksum_wrong", &lz4_frame(0x64, 0x40, &[], good, &[1, 2, 3, 4]));
    lz4("content_checksum_missing", &lz4_frame(0x64, 0x40, &[], good, &[]));
    lz4("block_checksum_wrong", &lz4_frame(0x70, 0x40, &[], good, &[1, 2, 3, 4]));
    lz4("version_2", &lz4_frame(0xa0, 0x40, &[], good, &[]));
    lz4("reserved_flag", &lz4_frame(0x62, 0x40, &[], good, &[]));
    lz4("dictionary", &lz4_frame(0x61, 0x40, &[1, 0, 0, 0], good, &[]));
    lz4("block_size_3", &lz4_frame(0x60, 0x30, &[], good, &[]));
    lz4("block_size_7", &lz4_frame(0x60, 0x70, &[], good, &[]));
    lz4("reserved_block_bits", &lz4_frame(0x60, 0x41, &[], good, &[]));
    let mut wrong = lz4_frame(0x60, 0x40, &[], good, &[]);
    wrong[6] ^= 1;
    lz4("header_checksum_wrong", &wrong);
    let frame = lz4_frame(0x60, 0x40, &[], good, &[]);
    lz4("end_mark_missing", &frame[..frame.len() - 4]);
}

fn zstd_frames(case: &impl Fn(&str, Compression, &[u8]), good: &[u8]) {
    let block = |last: u32| ((good.len() as u32) << 3 | last).to_le_bytes()[..3].to_vec();
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let zstd = |name: &str, parts: &[&[u8]]| case(name, Compression::Zstd, &parts.concat());
    for log in [10u8, 20, 27, 28, 31] {
        zstd(&format!("window_{log}"), &[&magic, &[0, (log - 10) << 3], &block(1), good]);
    }
    zstd("last_block_missing", &[&magic, &[0, 0x40], &block(0), good]);
    zstd("block_type_3", &[&magic, &[0, 0x40], &[7, 0, 0], good]);
    zstd("content_size_wrong", &[&magic, &[0x20, 9], &block(1), good]);
    zstd("reserved_bit", &[&magic, &[8, 0x40], &block(1), good]);
    zstd("checksum_wrong", &[&magic, &[4, 0x40], &block(1), good, &[1, 2, 3, 4]]);
    zstd("dictionary", &[&magic, &[1, 0x40, 9], &block(1), good]);
    let skippable = [0x50u8, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9];
    zstd("skippable_first", &[&skippable, &magic, &[0, 0x40], &block(1), good]);
    zstd("skippable_last", &[&magic, &[0, 0x40], &block(1), good, &skippable]);
}

fn topics() {
    for compression in Compression::ALL {
        for topic in ["uncompressed", "gzip", "snappy", "lz4", "zstd", "time", "time_gzip"] {
            print(&format!("{compression}_to_{topic}"), topic, &batch(3, compression, |_| {}));
        }
    }
    let keyless = framed(&[&[0, 0, 0], &[1], &[2, b'v'], &[0]]);
    for compression in [Compression::None, Compression::Lz4] {
        print(&format!("compacted_no_key_{compression}"), "compacted", &with_body(1, compression, &keyless));
        let empty = framed(&[&[0, 0, 0], &[0], &[2, b'v'], &[0]]);
        print(&format!("compacted_empty_key_{compression}"), "compacted", &with_body(1, compression, &empty));
        // 2^42 ms after the base, in another century.
        let late = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
        let far = framed(&[&[0], &late, &[2], &[2, b'k'], &[2, b'v'], &[0]]);
        let both = with_body(2, compression, &[keyless.clone(), far].concat());
        print(&format!("compacted_no_key_then_far_future_{compression}"), "compacted", &both);
        let marked = |h: &mut BatchHeader| {
            h.attributes = h.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        };
        print(&format!("append_time_marked_{compression}"), "time", &batch(2, compression, marked));
    }
    let mut builder =
        BatchBuilder::new(BatchOptions { compression: Compression::Gzip, ..Default::default() });
    builder.push(TimestampMs(TIME), None, Some(&[b'a'; 5000]), &[]).expect("room");
    print("too_large_when_uncompressed", "small_uncompressed", &builder.build());
}
