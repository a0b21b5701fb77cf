//! Runs many seeds of the simulator, of nodes as they ship or of one replicated partition: `cargo xtask sim`.
//!
//! Every seed runs twice, and both runs must be the same. A failure is shrunk: first the time, then the
//! faults.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tailrace_replication::raft::DeliberateBug;
use tailrace_sim::group::{self, Bug, GroupOptions};
use tailrace_sim::storm::{self, StormOptions};
use tailrace_sim::{Failure, Mask};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

const USAGE: &str =
    "usage: campaign nodes|group|bugs FIRST_SEED SEEDS STORM_MS [without|only NUMBER,NUMBER...]
       campaign noticed nodes|group FIRST_SEED SEEDS
       campaign histories FOLDER FIRST_SEED SEEDS
       campaign trace nodes SEED STORM_MS debug|info|warn [without|only NUMBER,NUMBER...]";
const PROGRESS: Duration = Duration::from_secs(10);
/// The name under which the simulated time of runs is counted.
const SIMULATED_MS: &str = "milliseconds of simulated time";
/// With this many seeds or more, every fault and every rare state must have occurred.
const SEEDS_OF_RARE: u64 = 100;
/// A deliberate bug must be noticed within this many seeds.
const BUG_SEEDS: u64 = 500;
/// Time that shrinking a failure may take.
const SHRINKING_MAX: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // A broken assertion is a finding like any other, and is reported as one.
    panic::set_hook(Box::new(|_| {}));
    match Campaign::new(&arguments) {
        Some(campaign) => campaign.run(),
        None if arguments.first().is_some_and(|what| what == "bugs") => bugs(),
        None if arguments.first().is_some_and(|what| what == "noticed") => noticed(&arguments[1..]),
        None if arguments.first().is_some_and(|what| what == "trace") => trace(&arguments[1..]),
        None if arguments.first().is_some_and(|what| what == "histories") => histories(&arguments[1..]),
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Group,
    Nodes,
}

type Counts = BTreeMap<&'static str, u64>;

struct Campaign {
    kind: Kind,
    first: u64,
    end: u64,
    storm_ms: u64,
    mask: Mask,
    next: AtomicU64,
    found: Mutex<Found>,
    begun: Instant,
}

#[derive(Default)]
struct Found {
    done: u64,
    counts: Counts,
    failures: BTreeMap<u64, Failure>,
    /// Combines all runs that passed. The order in which they ended does not matter.
    digest: u64,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        match name {
            "group" => Some(Self::Group),
            "nodes" => Some(Self::Nodes),
            _ => None,
        }
    }

    /// How long faults rage unless the arguments say otherwise.
    fn storm_ms(self) -> u64 {
        match self {
            Self::Group => 4_000,
            Self::Nodes => 5_000,
        }
    }
}

impl Campaign {
    fn new(arguments: &[String]) -> Option<Self> {
        let kind = Kind::named(arguments.first()?)?;
        let numbers: Vec<u64> =
            arguments.iter().skip(1).take(3).filter_map(|number| number.parse().ok()).collect();
        let [first, seeds, storm_ms] = numbers[..] else { return None };
        let mask = mask(&arguments[4..])?;
        let (next, end) = (AtomicU64::new(first), first.saturating_add(seeds));
        Some(Self { kind, first, end, storm_ms, mask, next, found: Mutex::default(), begun: Instant::now() })
    }

    fn run(self) -> ExitCode {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(|| self.work())));
            self.watch();
        });
        self.tell()
    }

    fn work(&self) {
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                return;
            }
            let outcome = twice(self.kind, seed, self.storm_ms, &self.mask);
            let Ok(mut found) = self.found.lock() else { return };
            found.done += 1;
            match outcome {
                Ok((counts, digest)) => {
                    found.digest ^= digest;
                    for (what, times) in counts {
                        *found.counts.entry(what).or_default() += times;
                    }
                }
                Err(failure) => {
                    eprintln!("FAILED seed {seed}: {}", failure.anomaly);
                    found.failures.insert(seed, failure);
                }
            }
        }
    }

    fn watch(&self) {
        let begun = self.begun;
        let mut told = begun;
        loop {
            thread::sleep(Duration::from_millis(50));
            let Ok(found) = self.found.lock() else { return };
            let all = self.end - self.first;
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
        let took = self.begun.elapsed().as_secs_f64();
        let Ok(found) = self.found.into_inner() else { return ExitCode::FAILURE };
        let (kind, first, done) = (self.kind, self.first, found.done);
        println!("{kind:?}: {done} seeds from {first} on, each twice, {} ms of faults each:", self.storm_ms);
        for (what, times) in &found.counts {
            println!("{times:>10}  {what}");
        }
        print!("{:.0} s, {:.1} seeds a minute", took, found.done as f64 * 60.0 / took);
        match found.counts.get(SIMULATED_MS) {
            // Each seed ran twice.
            Some(ms) => println!(", {:.1} simulated seconds a second", *ms as f64 * 2.0 / 1_000.0 / took),
            None => println!(),
        }
        println!("digest of all that passed, the same on every machine: {:016x}", found.digest);
        for (seed, failure) in &found.failures {
            println!("FAILED seed {seed}: {}", failure.anomaly);
            shrink(self.kind, *seed, self.storm_ms, &self.mask, failure).tell(self.kind, *seed);
        }
        let rare: &[&str] = match self.kind {
            Kind::Group => &group::RARE,
            Kind::Nodes => &storm::RARE,
        };
        let is_missing = |what: &&&str| found.counts.get(**what).is_none_or(|times| *times == 0);
        let missing: Vec<_> = rare.iter().filter(is_missing).collect();
        let is_long = found.done >= SEEDS_OF_RARE && self.mask == Mask::default();
        if is_long && !missing.is_empty() {
            println!("NEVER HAPPENED: {missing:?}");
        }
        let is_fine = found.failures.is_empty() && (!is_long || missing.is_empty());
        if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Parses which faults are left out: `without` or `only`, followed by a list.
fn mask(arguments: &[String]) -> Option<Mask> {
    match arguments {
        [] => Some(Mask::default()),
        [which, list] if which == "without" || which == "only" => {
            let listed = list.split(',').map(str::parse).collect::<Result<BTreeSet<usize>, _>>().ok()?;
            Some(Mask { listed, only: which == "only" })
        }
        _ => None,
    }
}

fn once(
    kind: Kind,
    seed: u64,
    storm_ms: u64,
    mask: &Mask,
    bug: Option<Bug>,
) -> Result<(Counts, u64), Failure> {
    let run = || match kind {
        Kind::Group => {
            let report = group::run(GroupOptions { seed, storm_ms, bug, mask: mask.clone() })?;
            let mut counts = report.counts;
            counts.extend([("acknowledged", report.acknowledged), ("read", report.read)]);
            Ok((counts, report.trace.into()))
        }
        Kind::Nodes => {
            let options = StormOptions { seed, storm_ms, mask: mask.clone() };
            let report = storm::run(&options)?;
            let mut counts = report.counts;
            let ms = u64::try_from(report.took.as_millis()).expect("a run takes minutes at most");
            counts.extend([(SIMULATED_MS, ms)]);
            Ok((counts, report.trace))
        }
    };
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        // A panic does not tell which faults happened before it, so list every fault that could have.
        let faults = (0..200).chain(1_000..1_200).map(|number| (number, "maybe".to_owned())).collect();
        Err(Failure { anomaly: format!("assertion: {text}"), faults })
    })
}

/// Runs a seed twice. Returns the counts of what happened, and the digest of the run.
fn twice(kind: Kind, seed: u64, storm_ms: u64, mask: &Mask) -> Result<(Counts, u64), Failure> {
    let first = once(kind, seed, storm_ms, mask, None);
    if once(kind, seed, storm_ms, mask, None) == first {
        first
    } else {
        Err(Failure { anomaly: "two runs of the seed differ".to_owned(), faults: Vec::new() })
    }
}

/// A failure after shrinking.
struct Shrunk {
    storm_ms: u64,
    faults: Vec<(usize, String)>,
    anomaly: String,
}

impl Shrunk {
    fn tell(&self, kind: Kind, seed: u64) {
        let numbers: Vec<String> = self.faults.iter().map(|(number, _)| number.to_string()).collect();
        let which = match kind {
            Kind::Group => "--group",
            Kind::Nodes => "--nodes",
        };
        let only = if numbers.is_empty() { String::new() } else { format!(" --only {}", numbers.join(",")) };
        println!("  fewest that fail: {}", self.anomaly);
        println!("  cargo xtask sim {which} --seed {seed} --storm {}{only}", self.storm_ms);
        for (number, what) in &self.faults {
            println!("{number:>8}: {what}");
        }
    }
}

/// Halves the time as long as the seed still fails. Then leaves out ever smaller parts of the faults as long
/// as it still fails without them.
fn shrink(kind: Kind, seed: u64, storm_ms: u64, mask: &Mask, failure: &Failure) -> Shrunk {
    let begun = Instant::now();
    let (mut storm_ms, mut last) = (storm_ms, failure.clone());
    while storm_ms > 1
        && let Err(shorter) = twice(kind, seed, storm_ms / 2, mask)
    {
        (storm_ms, last) = (storm_ms / 2, shorter);
    }
    let mut faults = last.faults;
    let mut part = faults.len().div_ceil(2);
    while part > 0 && begun.elapsed() < SHRINKING_MAX {
        let mut at = 0;
        while at < faults.len() && begun.elapsed() < SHRINKING_MAX {
            let mut fewer = faults.clone();
            fewer.drain(at..(at + part).min(fewer.len()));
            let listed = fewer.iter().map(|(number, _)| *number).collect();
            match once(kind, seed, storm_ms, &Mask { listed, only: true }, None) {
                Err(failure) => {
                    faults = if failure.anomaly.starts_with("assertion") { fewer } else { failure.faults };
                    last.anomaly = failure.anomaly;
                }
                Ok(_) => at += part,
            }
        }
        part /= 2;
    }
    Shrunk { storm_ms, faults, anomaly: last.anomaly }
}

/// Timestamps for the nodes' log lines, by each node's own clock.
struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        match tailrace_sim::here() {
            Some((now, machine)) => write!(writer, "{:10.6} 10.0.0.{machine:<3}", now.as_secs_f64()),
            None => write!(writer, "{:24}", ""),
        }
    }
}

/// Plays one seed once, and prints its faults, what clients send and receive, and what nodes log.
fn trace(arguments: &[String]) -> ExitCode {
    let [kind, seed, storm_ms, level, rest @ ..] = arguments else { return ExitCode::from(2) };
    let numbers = (seed.parse(), storm_ms.parse(), level.parse::<LevelFilter>());
    let (Some(kind), (Ok(seed), Ok(storm_ms), Ok(level)), Some(mask)) =
        (Kind::named(kind), numbers, mask(rest))
    else {
        return ExitCode::from(2);
    };
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_timer(SimulatedTime).init();
    match once(kind, seed, storm_ms, &mask, None) {
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("FAILED seed {seed}: {}", failure.anomaly);
            ExitCode::FAILURE
        }
    }
}

/// Plays seeds of nodes once, and writes down what each processor did with its position, for other projects'
/// checkers.
fn histories(arguments: &[String]) -> ExitCode {
    let [folder, first, seeds] = arguments else { return ExitCode::from(2) };
    let (Ok(first), Ok(seeds)) = (first.parse::<u64>(), seeds.parse::<u64>()) else {
        return ExitCode::from(2);
    };
    for seed in first..first.saturating_add(seeds) {
        let storm_ms = Kind::Nodes.storm_ms();
        let written = storm::run(&StormOptions { seed, storm_ms, mask: Mask::default() })
            .map_err(|failure| failure.anomaly)
            .and_then(|report| {
                let path = std::path::Path::new(folder).join(format!("{seed}.jsonl"));
                std::fs::write(&path, report.copies.lines())
                    .map_err(|error| format!("{}: {error}", path.display()))
            });
        if let Err(reason) = written {
            println!("FAILED seed {seed}: {reason}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints the first seed that fails. Does not shrink the failure.
fn noticed(arguments: &[String]) -> ExitCode {
    let [kind, first, seeds] = arguments else { return ExitCode::from(2) };
    let numbers = (first.parse::<u64>(), seeds.parse::<u64>());
    let (Some(kind), (Ok(first), Ok(seeds))) = (Kind::named(kind), numbers) else { return ExitCode::from(2) };
    match first_failing(kind, first, first.saturating_add(seeds)) {
        Some((seed, failure)) => {
            println!("seed {seed}: {}", failure.anomaly);
            ExitCode::SUCCESS
        }
        None => {
            println!("NOT NOTICED by {seeds} seeds");
            ExitCode::FAILURE
        }
    }
}

/// Plays seeds once, on all cores, until one has failed and all before it have passed.
fn first_failing(kind: Kind, first: u64, end: u64) -> Option<(u64, Failure)> {
    let (next, found) = (AtomicU64::new(first), Mutex::new(BTreeMap::new()));
    let is_passed =
        |seed: u64| found.lock().is_ok_and(|found| found.keys().next().is_some_and(|least| *least < seed));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end || is_passed(seed) {
                return;
            }
            if let Err(failure) = once(kind, seed, kind.storm_ms(), &Mask::default(), None)
                && let Ok(mut found) = found.lock()
            {
                found.insert(seed, failure);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().ok()?.pop_first()
}

/// Runs every deliberate bug of one partition, and prints the first seed that notices it.
fn bugs() -> ExitCode {
    let all = [
        Bug::AcknowledgeBeforeSync,
        Bug::ReuseReplicaId,
        Bug::ReadUncommitted,
        Bug::AcknowledgeOnAppend,
        Bug::BarrierWithoutMajority,
        Bug::Replicas(DeliberateBug::SkipTruncation),
        Bug::Replicas(DeliberateBug::CountOlderTerms),
    ];
    let mut outcome = ExitCode::SUCCESS;
    for bug in all {
        let (kind, storm_ms) = (Kind::Group, Kind::Group.storm_ms());
        let by = |seed| {
            let failure = once(kind, seed, storm_ms, &Mask::default(), Some(bug)).err()?;
            // A seed that fails without the bug proves nothing.
            let is_fine = once(kind, seed, storm_ms, &Mask::default(), None).is_ok();
            is_fine.then_some((seed, failure))
        };
        let noticed = (0..BUG_SEEDS).find_map(by);
        match noticed {
            Some((seed, failure)) => {
                let line: String = failure.anomaly.chars().take(110).collect();
                println!("{bug:?}: seed {seed}: {line}");
            }
            None => {
                println!("{bug:?}: NOT NOTICED by {BUG_SEEDS} seeds");
                outcome = ExitCode::FAILURE;
            }
        }
    }
    outcome
}
