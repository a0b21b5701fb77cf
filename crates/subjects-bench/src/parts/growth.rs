//! The time of each single insert while a table grows from empty, next to an empty loop that reads the same
//! clock for as long.

use std::hint::black_box;
use std::time::Instant;

use crate::line::{Line, short};
use crate::measure::{CLOCK_EVERY, distribution, since};
use crate::options::Options;
use crate::systems::{System, subscribe};
use crate::workload::{Texts, Workload};

/// An operation of a millisecond or more is a stall.
const STALL_NS: u32 = 1_000_000;

pub(super) fn run<S: System>(options: &Options) {
    let count = options.count;
    let workload = Workload::new(options.seed);
    let patterns = workload.patterns(count);
    let mut subscriptions: Vec<Option<S::Subscription>> = Vec::new();
    subscriptions.resize_with(count, || None);
    let load = format!("0 to {}", short(count));
    let check = format!("{:016x}", crate::random::checksum(patterns.iter()));
    let matcher = S::build(&Texts::default());
    let began = Instant::now();
    let mut inserts = Samples::new(count);
    for (index, kept) in subscriptions.iter_mut().enumerate() {
        inserts.time(|| *kept = Some(subscribe(&matcher, patterns.get(index), index as u64)));
    }
    // As long as the inserts took, so that it meets as many interruptions of the machine.
    let (lasted, began) = (began.elapsed(), Instant::now());
    let mut empty = Samples::new(count);
    while began.elapsed() < lasted {
        for index in 0..CLOCK_EVERY {
            empty.time(|| {
                black_box(patterns.get(index));
            });
        }
    }
    empty.print(&load, &format!("{}'s empty loop", S::NAME), &check);
    inserts.print(&load, S::NAME, &check);
    assert_eq!(matcher.len(), count, "subscriptions were lost");
}

/// The times of operations: the first ones individually, and of all the longest and the number of stalls.
struct Samples {
    times: Vec<u32>,
    taken: usize,
    longest: u32,
    stalls: u32,
}

impl Samples {
    /// Creates it. The memory is touched now, so that it costs nothing later.
    fn new(count: usize) -> Self {
        Self { times: vec![u32::MAX; count], taken: 0, longest: 0, stalls: 0 }
    }

    #[inline]
    fn time(&mut self, work: impl FnOnce()) {
        let began = Instant::now();
        work();
        let time = since(began);
        if let Some(slot) = self.times.get_mut(self.taken) {
            *slot = time;
        }
        self.taken += 1;
        self.longest = self.longest.max(time);
        self.stalls += u32::from(time >= STALL_NS);
    }

    fn print(mut self, load: &str, system: &str, check: &str) {
        self.times.truncate(self.taken);
        distribution(Line::new("growth", load, system, check), self.times)
            .with("max_ns", f64::from(self.longest))
            .with("stalls", f64::from(self.stalls))
            .print();
    }
}
