//! The parts, and which systems run in them with what counts.

use std::thread;

use super::options::Options;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Thousand,
    Three,
    Table,
    Million,
    Threads,
    MillionThreads,
    Storm,
    Growth,
    Churn,
    Memory,
}

/// The nats systems, which run in the Go program.
pub(super) const NATS: [&str; 2] = ["nats", "nats-cached"];
const ALL: &[&str] =
    &["tailrace", "nats", "nats-cached", "naive", "inverted-bitmap", "optimized-bitmap", "trie", "cs-trie"];
/// Without what would take minutes: the naive map looks at each subscription, the bitmaps have a bit for each.
const LARGE: &[&str] = &["tailrace", "nats", "nats-cached", "trie", "cs-trie"];
/// Building a million takes longer than measuring: only those that the targets name.
const FEW: &[&str] = &["tailrace", "nats", "cs-trie"];
/// The cache changes nothing here.
const UNCACHED: &[&str] = &["tailrace", "nats", "trie", "cs-trie"];

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// More threads than this for each core measure the scheduler.
const THREADS_PER_CORE: usize = 4;

/// One process: the arguments after part and system.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) part: &'static str,
    pub(super) system: &'static str,
    pub(super) arguments: Vec<String>,
}

impl Part {
    pub(super) const ALL: [Self; 10] = [
        Self::Thousand,
        Self::Three,
        Self::Table,
        Self::Million,
        Self::Threads,
        Self::MillionThreads,
        Self::Storm,
        Self::Growth,
        Self::Churn,
        Self::Memory,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Thousand => "thousand",
            Self::Three => "three",
            Self::Table => "table",
            Self::Million => "million",
            Self::Threads => "threads",
            Self::MillionThreads => "million-threads",
            Self::Storm => "storm",
            Self::Growth => "growth",
            Self::Churn => "churn",
            Self::Memory => "memory",
        }
    }

    /// What the part measures, as a heading.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Thousand => "1,000 patterns of five words, hot and cold",
            Self::Three => "Three words, three hits for each message",
            Self::Table => "100,000 patterns, one thread",
            Self::Million => "1,000,000 patterns, one thread",
            Self::Threads => "100,000 patterns, many threads, real writes",
            Self::MillionThreads => "1,000,000 patterns, many threads, real writes",
            Self::Storm => "Subscribe storm: one thread looks up while the others subscribe and unsubscribe",
            Self::Growth => "Each single insert while the table grows",
            Self::Churn => "Memory after subscriptions have come and gone",
            Self::Memory => "Bytes per subscription",
        }
    }

    /// The part of the measuring programs.
    fn program_part(self) -> &'static str {
        match self {
            Self::Million => "table",
            Self::MillionThreads => "threads",
            other => other.name(),
        }
    }

    fn systems(self) -> &'static [&'static str] {
        match self {
            Self::Thousand | Self::Three => ALL,
            Self::Table | Self::Million | Self::Threads | Self::Storm => LARGE,
            Self::MillionThreads => FEW,
            Self::Growth | Self::Churn | Self::Memory => UNCACHED,
        }
    }

    /// Some are nearly the same every time and take long.
    pub(super) fn rounds(self, wanted: u32) -> u32 {
        match self {
            Self::Growth | Self::Churn | Self::MillionThreads => wanted.min(3),
            Self::Memory => wanted.min(1),
            _ => wanted,
        }
    }

    fn count(self, quick: bool) -> usize {
        match self {
            Self::Million | Self::MillionThreads | Self::Churn | Self::Memory if quick => 200_000,
            Self::Million | Self::MillionThreads | Self::Churn | Self::Memory => 1_000_000,
            Self::Growth if quick => 200_000,
            Self::Growth => 2_000_000,
            _ => 100_000,
        }
    }

    /// Seconds of a round on two cores, by experience.
    fn round_s(self) -> f64 {
        match self {
            Self::Thousand => 20.0,
            Self::Three => 5.0,
            Self::Table => 12.0,
            Self::Million => 50.0,
            Self::Threads => 60.0,
            Self::MillionThreads => 30.0,
            Self::Storm => 9.0,
            Self::Growth => 30.0,
            Self::Churn => 30.0,
            Self::Memory => 20.0,
        }
    }

    pub(super) fn planned_s(self, options: &Options) -> f64 {
        let seconds = self.round_s() * f64::from(self.rounds(options.rounds));
        if options.quick { seconds / 5.0 } else { seconds }
    }

    /// The processes of one round. The systems take turns in going first.
    pub(super) fn jobs(self, options: &Options, round: u32) -> Vec<Job> {
        let mut systems: Vec<&str> = self.systems().to_vec();
        systems.retain(|system| !(options.no_nats && NATS.contains(system)));
        let turn = (round as usize - 1) % systems.len();
        systems.rotate_left(turn);
        systems
            .into_iter()
            .map(|system| Job { part: self.program_part(), system, arguments: self.arguments(options) })
            .collect()
    }

    fn arguments(self, options: &Options) -> Vec<String> {
        let cores = cores();
        let most = if options.all_threads { usize::MAX } else { cores * THREADS_PER_CORE };
        let threads: Vec<usize> = THREADS.into_iter().filter(|threads| *threads <= most).collect();
        let (threads, writes, seconds) = match self {
            // Many combinations: each gets less time.
            Self::Threads => (threads, "0,1,10,50", options.seconds * 0.6),
            Self::MillionThreads => {
                let few = threads.into_iter().filter(|threads| *threads == 1 || *threads == cores);
                (few.collect(), "0,10", options.seconds * 0.6)
            }
            Self::Storm => (vec![cores.max(2)], "0", options.seconds),
            _ => (vec![1], "0", options.seconds),
        };
        let threads: Vec<String> = threads.iter().map(usize::to_string).collect();
        let pairs = [
            ("--count", self.count(options.quick).to_string()),
            ("--threads", threads.join(",")),
            ("--writes", writes.to_owned()),
            ("--seconds", format!("{seconds:.3}")),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_take_turns_and_nats_can_stay_away() {
        let names = |options: &Options, round| {
            let jobs = Part::Growth.jobs(options, round);
            jobs.iter().map(|job| job.system).collect::<Vec<_>>()
        };
        let mut options = Options::parse(&[]).unwrap();
        assert_eq!(names(&options, 1), ["tailrace", "nats", "trie", "cs-trie"]);
        assert_eq!(names(&options, 2), ["nats", "trie", "cs-trie", "tailrace"]);
        options.no_nats = true;
        assert_eq!(names(&options, 4), ["tailrace", "trie", "cs-trie"]);
    }
}
