//! The processes that each part runs.

use std::thread;

use super::options::Options;
use super::part::{NATS, Part};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// The maximum number of threads per core. More would measure the scheduler.
const THREADS_PER_CORE: usize = 4;

/// One process. `arguments` are those after the part and the system.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) part: &'static str,
    pub(super) system: &'static str,
    pub(super) arguments: Vec<String>,
}

impl Part {
    pub(super) fn planned_s(self, options: &Options) -> f64 {
        let seconds = self.round_s() * f64::from(self.rounds(options.rounds));
        if options.quick { seconds / 5.0 } else { seconds }
    }

    /// The processes of one round. The systems take turns going first.
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
            // There are many combinations, so each gets less time.
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
