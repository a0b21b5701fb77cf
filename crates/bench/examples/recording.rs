//! The cost of recording: nanoseconds per sample, and per message of the whole generator against a no-op
//! target.
//!
//! Run with `cargo run --release -p tailrace-bench --example recording`.

use std::time::Instant;

use tailrace_bench::recorder::Distribution;
use tailrace_bench::schedule::Random;

const SAMPLES: u64 = 20_000_000;

fn main() {
    for (name, spread_ns) in
        [("around 100 us", 100_000), ("up to 10 ms", 10_000_000), ("up to 10 s", 10_000_000_000)]
    {
        let mut random = Random::new(1, 0);
        let values: Vec<u64> = (0..65_536).map(|_| 50_000 + random.below(spread_ns)).collect();
        let mut distribution = Distribution::default();
        let begun = Instant::now();
        for n in 0..SAMPLES {
            distribution.record(values[(n % 65_536) as usize]);
        }
        let each = begun.elapsed().as_nanos() as f64 / SAMPLES as f64;
        println!("{name}: {each:.1} ns per sample ({} counted)", distribution.count());
    }
}
