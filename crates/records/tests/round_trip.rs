//! What the builder writes, `validate` accepts, and iteration yields again.

use tailrace_records::*;
use tailrace_types::TimestampMs;

#[test]
fn every_codec() {
    for compression in Compression::ALL {
        let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        for i in 0..1000i64 {
            let value = format!("value {i}").repeat(10);
            let headers: [(&[u8], Option<&[u8]>); 2] = [(b"a", None), (b"b", Some(b"x"))];
            builder.push(TimestampMs(1000 + i % 7), Some(b"key"), Some(value.as_bytes()), &headers).unwrap();
        }
        let bytes = builder.build();
        let rules = AppendRules::kafka_defaults(TimestampMs(1000));
        let valid = validate(bytes.clone(), &rules).unwrap();
        assert_eq!(valid.bytes.as_ptr(), bytes.as_ptr());
        assert_eq!(valid.header, check(&bytes).unwrap());
        let decoded = DecodedBatch::new(&bytes, 1 << 20).unwrap();
        for (i, record) in decoded.records_with(Strictness::Strict).enumerate() {
            let record = record.unwrap();
            assert_eq!(record.offset.0, i as i64);
            assert_eq!(record.timestamp.0, 1000 + i as i64 % 7);
            assert_eq!(record.value.unwrap(), format!("value {i}").repeat(10).as_bytes());
            assert_eq!(record.headers.len(), 2);
        }
        assert_eq!(decoded.records().count(), 1000);
    }
}
