//! Prints the speed of `validate` per codec and record size, in bytes as received.
//!
//! `cargo run --release -p tailrace-records --example validate_speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_records::{
    AppendRules, BatchBuilder, BatchOptions, Compression, TimestampType, validate, verify_crc,
};
use tailrace_types::TimestampMs;

const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

fn batch(compression: Compression, batch_bytes: usize, record_bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
    let mut state = 1u32;
    while builder.bytes_estimate() + record_bytes < batch_bytes {
        let values = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (state >> 28) as u8
        });
        let value: Vec<u8> = values.take(record_bytes - 10).collect();
        builder.push(NOW, None, Some(&value), &[]).expect("room");
    }
    builder.build()
}

/// The best of ten runs of about 50 ms, in GB/s, because the machine is shared.
fn speed(bytes: usize, mut work: impl FnMut()) -> f64 {
    let run = |work: &mut dyn FnMut()| {
        let (start, mut rounds) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(50) {
            work();
            rounds += 1;
        }
        (bytes * rounds) as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..10).map(|_| run(&mut work)).fold(0.0, f64::max)
}

fn main() {
    let keep = AppendRules { batch_bytes_max: 2 << 20, ..AppendRules::kafka_defaults(NOW) };
    let stamp = AppendRules { timestamp_type: TimestampType::LogAppendTime, ..keep };
    println!("GB/s               batch  record    crc  validate  LogAppendTime");
    for compression in Compression::ALL {
        for (batch_bytes, record_bytes) in [(1 << 20, 1024), (1 << 20, 100), (16 << 10, 1024)] {
            let bytes = batch(compression, batch_bytes, record_bytes);
            let crc = speed(bytes.len(), || assert!(verify_crc(black_box(&bytes))));
            let check = |rules| {
                speed(bytes.len(), || drop(validate(black_box(bytes.clone()), rules).expect("valid")))
            };
            println!(
                "{:<12} {:>11} {record_bytes:>7} {crc:>6.2} {:>9.2} {:>14.2}",
                compression.name(),
                bytes.len(),
                check(&keep),
                check(&stamp)
            );
        }
    }
}
