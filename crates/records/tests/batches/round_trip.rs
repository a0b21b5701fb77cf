//! `validate` accepts what the builder writes, and iteration returns it, for any records, codec and rules.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use tailrace_records::*;
use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

type Data = Option<Vec<u8>>;
type Owned = (i64, Data, Data, Vec<(Vec<u8>, Data)>);

fn data() -> impl Strategy<Value = Data> {
    let text = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (any::<u8>(), 0..3000usize).prop_map(|(byte, count)| vec![byte; count]),
    ];
    prop::option::weighted(0.8, text)
}

fn records() -> impl Strategy<Value = Vec<Owned>> {
    let header = (prop::collection::vec(any::<u8>(), 0..10), data());
    let record = (-1..i64::MAX, data(), data(), prop::collection::vec(header, 0..4));
    prop::collection::vec(record, 1..60)
}

fn codec() -> impl Strategy<Value = Compression> {
    prop::sample::select(&Compression::ALL[..])
}

fn build(options: BatchOptions, records: &[Owned]) -> bytes::Bytes {
    let mut builder = BatchBuilder::new(options);
    for (time, key, value, headers) in records {
        let headers: Vec<_> = headers.iter().map(|(k, v)| (&k[..], v.as_deref())).collect();
        builder.push(TimestampMs(*time), key.as_deref(), value.as_deref(), &headers).unwrap();
    }
    assert_eq!(builder.len(), records.len());
    builder.build()
}

fn read(bytes: &[u8]) -> Vec<Owned> {
    let batch = DecodedBatch::new(bytes, 1 << 24).unwrap();
    let owned = |r: Record<'_>| {
        let headers = r.headers.map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect();
        (r.timestamp.0, r.key.map(<[u8]>::to_vec), r.value.map(<[u8]>::to_vec), headers)
    };
    batch.records_with(Strictness::Strict).map(|r| owned(r.unwrap())).collect()
}

fn anything_goes(now: i64) -> AppendRules {
    AppendRules {
        timestamp_after_max_ms: i64::MAX,
        batch_bytes_max: 1 << 24,
        ..AppendRules::kafka_defaults(TimestampMs(now))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_to_rewrite(records in records(), compression in codec(), sequence in 0..i32::MAX) {
        let options = BatchOptions {
            compression,
            producer_id: ProducerId(7),
            producer_epoch: ProducerEpoch(3),
            base_sequence: sequence,
            transactional: true,
            ..BatchOptions::default()
        };
        let bytes = build(options, &records);
        let valid = validate(bytes.clone(), &anything_goes(0)).unwrap();
        prop_assert_eq!(valid.bytes.as_ptr(), bytes.as_ptr());
        prop_assert_eq!(&valid.bytes, &bytes);
        prop_assert_eq!(valid.header.base_sequence, sequence);
        prop_assert_eq!(valid.header.attributes.compression().unwrap(), compression);
        prop_assert_eq!(valid.header.max_timestamp.0, records.iter().map(|r| r.0).max().unwrap());
        prop_assert_eq!(read(&bytes), records);
    }

    #[test]
    fn recompressed_and_stamped(records in records(), from in codec(), to in codec(), log_append_time: bool) {
        let bytes = build(BatchOptions { compression: from, ..BatchOptions::default() }, &records);
        let mut rules = anything_goes(123);
        rules.compression = Some(to);
        if log_append_time {
            rules.timestamp_type = TimestampType::LogAppendTime;
        }
        let valid = validate(bytes, &rules).unwrap();
        prop_assert_eq!(check(&valid.bytes).unwrap(), valid.header);
        prop_assert_eq!(valid.header.attributes.compression().unwrap(), to);
        let mut expected = records.clone();
        if log_append_time {
            expected.iter_mut().for_each(|r| r.0 = 123);
        }
        prop_assert_eq!(read(&valid.bytes), expected);
    }

    #[test]
    fn stamping_the_prefix_keeps_the_crc(records in records(), offset in 0..i64::MAX / 2, epoch in 0..i32::MAX) {
        let bytes = build(BatchOptions::default(), &records);
        let mut header = check(&bytes).unwrap();
        (header.base_offset, header.leader_epoch) = (Offset(offset), LeaderEpoch(epoch));
        let stored = [&header.prefix(), &bytes[PREFIX_BYTES..]].concat();
        prop_assert_eq!(check(&stored).unwrap(), header);
        prop_assert_eq!(header.next_offset().0, offset + records.len() as i64);
        let decoded = DecodedBatch::new(&stored, 1 << 24).unwrap();
        prop_assert_eq!(decoded.records().last().unwrap().unwrap().offset, header.last_offset());
    }

    #[test]
    fn codecs_return_what_they_got(body in prop::collection::vec(any::<u8>(), 0..5000), times in 0..60usize,
        compression in codec(), gzip in -3..12i32, zstd in -20..25i32) {
        let body = body.repeat(times);
        let mut packed = vec![9];
        compress(compression, CompressionLevels { gzip, zstd: zstd.min(19) }, &body, &mut packed);
        prop_assert_eq!(packed[0], 9);
        let mut out = vec![1, 2, 3];
        // Empty input is no Snappy block, but a body is never empty.
        if !body.is_empty() {
            decompress(compression, &packed[1..], body.len(), &mut out).unwrap();
            prop_assert_eq!(&out, &body);
            let short = decompress(compression, &packed[1..], body.len() - 1, &mut out);
            prop_assert_eq!(short, Err(BatchError::ExpandsTooLarge { bytes_max: body.len() - 1 }));
        }
    }
}

#[test]
fn sequences_wrap_as_kafkas_do() {
    let bytes = build(BatchOptions::default(), &vec![(0, None, None, vec![]); 4]);
    let mut header = check(&bytes).unwrap();
    for (base, last, next) in [(-1, -1, -1), (0, 3, 4), (i32::MAX, 2, 3), (i32::MAX - 3, i32::MAX, 0)] {
        header.base_sequence = base;
        assert_eq!((header.last_sequence(), header.next_sequence()), (last, next));
    }
}

#[test]
fn many_records_of_each_codec() {
    let records: Vec<Owned> =
        (0..20_000).map(|i| (i, None, Some(format!("value {i}").into_bytes()), vec![])).collect();
    for compression in Compression::ALL {
        assert_eq!(read(&build(BatchOptions { compression, ..BatchOptions::default() }, &records)), records);
    }
}

#[test]
fn batches_one_after_the_other() {
    let batch = build(BatchOptions::default(), &[(5, None, None, vec![])]);
    let three = batch.repeat(3);
    let mut walk = split_batches(&three);
    assert_eq!(walk.by_ref().filter(|b| b.is_ok()).count(), 3);
    assert_eq!(walk.position(), three.len());
    for cut in 1..batch.len() {
        let mut walk = split_batches(&three[..three.len() - cut]);
        assert_eq!(walk.by_ref().filter(|b| b.is_ok()).count(), 2, "a batch cut by {cut}");
        assert_eq!((walk.position(), walk.next()), (2 * batch.len(), None));
    }
    let mut bad = three;
    bad[batch.len() + MAGIC_OFFSET] = 9;
    let walked: Vec<_> = split_batches(&bad).map(|b| b.map(|(h, _)| h.record_count)).collect();
    assert_eq!(walked, [Ok(1), Err(BatchError::UnknownMagic { magic: 9 })]);
}

#[test]
fn names_of_codecs() {
    for compression in Compression::ALL {
        assert_eq!(compression.to_string().parse(), Ok(compression));
        assert_eq!(Compression::from_id(compression.id()), Some(compression));
    }
    assert_eq!("uncompressed".parse(), Ok(Compression::None));
    assert!("producer".parse::<Compression>().is_err());
}

#[test]
fn a_record_that_is_too_long_is_passed_over_unread_and_those_around_it_are_read() {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for value in [&b"a"[..], &[b'x'; 1000], b"c", &[b'y'; 1000]] {
        builder.push(TimestampMs(1), None, Some(value), &[]).unwrap();
    }
    let (header, bytes) = builder.build_with_header();
    let header = BatchHeader { base_offset: Offset(40), ..header };
    let body = &bytes[HEADER_BYTES..];
    let mut records = RecordIter::new(&header, body, Strictness::Lenient);
    let value = |records: &mut RecordIter<'_>| records.next().unwrap().unwrap().value.unwrap().to_vec();
    assert_eq!(records.skip_longer(100), None);
    assert_eq!(value(&mut records), b"a");
    // Its attributes, deltas, lengths and header count take 7 bytes.
    assert_eq!(records.skip_longer(1007), None);
    assert_eq!(records.skip_longer(1006), Some(Offset(41)));
    assert_eq!(records.skip_longer(100), None);
    assert_eq!(value(&mut records), b"c");
    assert_eq!(records.skip_longer(100), Some(Offset(43)));
    assert_eq!(records.skip_longer(0), None);
    assert!(records.next().is_none());
    // The reader, not `skip_longer`, refuses a record whose declared length is wrong.
    let mut cut = RecordIter::new(&header, &body[..body.len() - 1], Strictness::Lenient);
    cut.nth(2);
    assert_eq!(cut.skip_longer(100), None);
    assert!(cut.next().unwrap().is_err());
}
