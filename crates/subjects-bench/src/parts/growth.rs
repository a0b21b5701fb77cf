//! The time of each single insert while a table grows from nothing, beside an empty loop that reads the same clocks.

use std::hint::black_box;
use std::time::Instant;

use crate::line::{Line, short};
use crate::measure::{distribution, since};
use crate::options::Options;
use crate::systems::{System, subscribe};
use crate::workload::{Texts, Workload};

pub(super) fn run<S: System>(options: &Options) {
    let count = options.count;
    let workload = Workload::new(options.seed);
    let patterns = workload.patterns(count);
    let mut subscriptions: Vec<Option<S::Subscription>> = Vec::new();
    subscriptions.resize_with(count, || None);
    let load = format!("0 to {}", short(count));
    let check = format!("{:016x}", crate::random::checksum(patterns.iter()));
    let print =
        |system: &str, samples| distribution(Line::new("growth", &load, system, &check), samples).print();

    let empty = timed(count, |index| {
        black_box(patterns.get(index));
    });
    let matcher = S::build(&Texts::default());
    let inserts = timed(count, |index| {
        subscriptions[index] = Some(subscribe(&matcher, patterns.get(index), index as u64));
    });
    print(&format!("{}'s empty loop", S::NAME), empty);
    print(S::NAME, inserts);
    assert_eq!(matcher.len(), count, "subscriptions were lost");
}

/// The time of each call. The memory of the samples is touched before.
fn timed(count: usize, mut work: impl FnMut(usize)) -> Vec<u32> {
    let mut samples = vec![u32::MAX; count];
    for (index, sample) in samples.iter_mut().enumerate() {
        let began = Instant::now();
        work(index);
        *sample = since(began);
    }
    samples
}
