//! Many threads that look up. In between they unsubscribe one of their own patterns and subscribe another.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::line::{Line, short};
use crate::options::Options;
use crate::random::SplitMix;
use crate::systems::{System, Way, subscribe};
use crate::table::{Round, Table, ask};
use crate::workload::{Texts, Workload};

use super::table::HOT;

/// Most subscriptions that are exchanged for others, over all threads.
const SLOTS_MAX: usize = 65_536;
/// Operations between two checks for the end of the time.
const STEP: usize = 64;

pub(super) fn run<S: System>(options: &Options) {
    let workload = Workload::new(options.seed);
    let count = options.count;
    let slots = count.min(SLOTS_MAX);
    // Each exchanged pattern has a second one, `count` further on.
    let patterns = workload.patterns(count + slots);
    let subjects = workload.subjects(&patterns, count, count);
    let slices: Vec<&[u8]> = subjects.iter().collect();
    let mut table = Table::<S>::fill(&patterns, count, &subjects);
    let check = table.check(&patterns, &subjects);
    let mut exchanged = vec![false; slots];
    for (what, list) in [("unique", &slices[..]), ("hot", &slices[..HOT])] {
        for threads in &options.threads {
            for percent in &options.writes {
                for way in S::WAYS {
                    let setup = Setup { patterns: &patterns, subjects: list, way: *way, percent: *percent };
                    let rate = setup.run(&mut table, &mut exchanged, *threads, options.seconds);
                    let load = format!("{} {what}, {threads} threads, {percent}% writes", short(count));
                    Line::new("threads", &load, &way.name(S::NAME), &check)
                        .with("matches_per_s", rate.matches)
                        .with("writes_per_s", rate.writes)
                        .with("threads", *threads as f64)
                        .with("writes_pct", *percent as f64)
                        .print();
                }
            }
        }
    }
    assert_eq!(table.matcher.len(), count, "subscriptions were lost");
}

struct Setup<'a> {
    patterns: &'a Texts,
    subjects: &'a [&'a [u8]],
    way: Way,
    percent: usize,
}

#[derive(Clone, Copy, Default)]
struct Rate {
    matches: f64,
    writes: f64,
}

/// The subscriptions that a thread may exchange.
struct Mine<'a, T> {
    /// The index of the first one.
    first: usize,
    subscriptions: &'a mut [Option<T>],
    exchanged: &'a mut [bool],
}

impl Setup<'_> {
    /// The sum of all threads' rates, each over its own time.
    fn run<S: System>(
        &self,
        table: &mut Table<S>,
        exchanged: &mut [bool],
        threads: usize,
        seconds: f64,
    ) -> Rate {
        let (stop, start) = (AtomicBool::new(false), Barrier::new(threads + 1));
        let per = exchanged.len() / threads;
        let second_of = table.subscriptions.len();
        let Table { matcher, subscriptions, .. } = table;
        let parts = subscriptions.chunks_mut(per).zip(exchanged.chunks_mut(per)).take(threads).enumerate();
        thread::scope(|scope| {
            let workers: Vec<_> = parts
                .map(|(index, (subscriptions, exchanged))| {
                    let mine = Mine { first: index * per, subscriptions, exchanged };
                    let (matcher, stop, start) = (&*matcher, &stop, &start);
                    scope.spawn(move || {
                        start.wait();
                        self.work(matcher, mine, second_of, stop)
                    })
                })
                .collect();
            start.wait();
            thread::sleep(Duration::from_secs_f64(seconds));
            stop.store(true, Ordering::Relaxed);
            let rates = workers.into_iter().map(|worker| worker.join().expect("a worker ended well"));
            rates.fold(Rate::default(), |sum, rate| Rate {
                matches: sum.matches + rate.matches,
                writes: sum.writes + rate.writes,
            })
        })
    }

    fn work<S: System>(
        &self,
        matcher: &S,
        mut mine: Mine<'_, S::Subscription>,
        second_of: usize,
        stop: &AtomicBool,
    ) -> Rate {
        let mut random = SplitMix::new(mine.first as u64);
        let mut round = Round::new(self.subjects, mine.first * 31);
        let mut own = S::own();
        let (began, mut matches, mut writes) = (Instant::now(), 0, 0);
        while !stop.load(Ordering::Relaxed) {
            // Each operation is a write with the same probability. Lookups between two writes are made
            // together.
            let mut lookups = 0;
            for _ in 0..STEP {
                if random.below(100) >= self.percent {
                    lookups += 1;
                    continue;
                }
                // A batch is looked up as a whole. Single lookups come before the write, in the order drawn.
                if !matches!(self.way, Way::Batch(_)) {
                    ask(matcher, &mut own, self.way, &mut round, std::mem::take(&mut lookups), &mut matches);
                }
                let slot = random.below(mine.exchanged.len());
                self.exchange(matcher, &mut mine, slot, second_of);
                writes += 1;
            }
            ask(matcher, &mut own, self.way, &mut round, lookups, &mut matches);
        }
        let seconds = began.elapsed().as_secs_f64();
        Rate { matches: matches as f64 / seconds, writes: f64::from(writes) / seconds }
    }

    /// Unsubscribes one of the thread's own and subscribes the other pattern of the same slot.
    fn exchange<S: System>(
        &self,
        matcher: &S,
        mine: &mut Mine<'_, S::Subscription>,
        slot: usize,
        second_of: usize,
    ) {
        let old = mine.subscriptions[slot].take().expect("a slot is always subscribed");
        assert!(matcher.unsubscribe(old), "a subscription is missing");
        mine.exchanged[slot] ^= true;
        let index = mine.first + slot + if mine.exchanged[slot] { second_of } else { 0 };
        mine.subscriptions[slot] = Some(subscribe(matcher, self.patterns.get(index), index as u64));
    }
}
