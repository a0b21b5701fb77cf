//! Plays seeds of the storm.
use std::time::Duration;
use tailrace_sim::storm::{StormOptions, storm};
fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>().unwrap());
    let (first, count) = (args.next().unwrap_or(0), args.next().unwrap_or(1));
    let began = std::time::Instant::now();
    let mut simulated = Duration::ZERO;
    for seed in first..first + count {
        let options = StormOptions { seed, nodes: 3, rages: Duration::from_secs(10) };
        match storm(&options) {
            Ok(r) => { simulated += r.took; println!("seed {seed}: {} acked {} unknown {} faults {:?} {} turns {:x}", r.acknowledged, r.unknown, r.faults.len(), r.took, r.turns, r.digest) }
            Err(f) => { println!("seed {seed}: FAILED {f}"); for (_, x) in f.faults { println!("    {x}"); } }
        }
    }
    println!("{simulated:?} simulated in {:?}", began.elapsed());
}
