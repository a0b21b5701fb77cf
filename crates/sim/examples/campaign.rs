//! Runs many seeds of a replicated partition under faults: `cargo xtask sim`.
//!
//! Every seed runs twice, and both runs must be the same. A failure is made as short as it goes.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tailrace_sim::group::{self, GroupOptions, GroupReport};

const PROGRESS: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [first, seeds, storm_ms] = numbers[..] else {
        eprintln!("usage: campaign FIRST_SEED SEEDS STORM_MS");
        return ExitCode::from(2);
    };
    // A broken assertion is a finding like any other, and is told as one.
    panic::set_hook(Box::new(|_| {}));
    let campaign = Campaign {
        next: AtomicU64::new(first),
        end: first.saturating_add(seeds),
        storm_ms,
        found: Mutex::default(),
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(|| campaign.work())));
        campaign.watch(first);
    });
    campaign.tell()
}

struct Campaign {
    next: AtomicU64,
    end: u64,
    storm_ms: u64,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    done: u64,
    counts: BTreeMap<&'static str, u64>,
    failures: BTreeMap<u64, String>,
}

impl Campaign {
    fn work(&self) {
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                return;
            }
            let outcome = twice(seed, self.storm_ms);
            let Ok(mut found) = self.found.lock() else { return };
            found.done += 1;
            match outcome {
                Ok(report) => {
                    let seen = [("acknowledged", report.acknowledged), ("read", report.read)];
                    for (what, times) in report.counts.into_iter().chain(seen) {
                        *found.counts.entry(what).or_default() += times;
                    }
                }
                Err(reason) => drop(found.failures.insert(seed, reason)),
            }
        }
    }

    fn watch(&self, first: u64) {
        let begun = Instant::now();
        let mut told = begun;
        loop {
            thread::sleep(Duration::from_millis(50));
            let Ok(found) = self.found.lock() else { return };
            let all = self.end - first;
            if found.done >= all {
                return;
            }
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                let (done, failures) = (found.done, found.failures.len());
                let left = begun.elapsed().as_secs_f64() * (all - done) as f64 / done.max(1) as f64;
                eprintln!("{done} of {all} seeds, {failures} failed, about {left:.0} s left");
            }
        }
    }

    fn tell(self) -> ExitCode {
        let Ok(found) = self.found.into_inner() else { return ExitCode::FAILURE };
        println!("{} seeds, each twice, {} ms of faults each:", found.done, self.storm_ms);
        for (what, times) in &found.counts {
            println!("{times:>10}  {what}");
        }
        for (seed, reason) in &found.failures {
            let (storm_ms, shortest) = shrink(*seed, self.storm_ms, reason);
            println!("FAILED seed {seed}: {reason}");
            println!("  shortest that fails: cargo xtask sim --seed {seed} --storm {storm_ms}: {shortest}");
        }
        if found.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn once(seed: u64, storm_ms: u64) -> Result<GroupReport, String> {
    let run = || group::run(GroupOptions { seed, storm_ms, bug: None });
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("assertion: {}", text.unwrap_or("without a message")))
    })
}

fn twice(seed: u64, storm_ms: u64) -> Result<GroupReport, String> {
    let report = once(seed, storm_ms)?;
    if once(seed, storm_ms).as_ref() == Ok(&report) {
        Ok(report)
    } else {
        Err("two runs of the seed differ".to_owned())
    }
}

/// Half the time, as long as it still fails.
fn shrink(seed: u64, storm_ms: u64, reason: &str) -> (u64, String) {
    let mut shortest = (storm_ms, reason.to_owned());
    while shortest.0 > 1
        && let Err(reason) = twice(seed, shortest.0 / 2)
    {
        shortest = (shortest.0 / 2, reason);
    }
    shortest
}
