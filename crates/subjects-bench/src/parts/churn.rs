//! Memory after many subscriptions have come and gone.

use crate::line::{Line, short};
use crate::measure::resident_bytes;
use crate::options::Options;
use crate::systems::{System, subscribe};
use crate::table::Table;
use crate::workload::Workload;

/// Subscriptions that stay all the time.
const BASE: usize = 100_000;
const MIB: f64 = 1_048_576.0;

pub(super) fn run<S: System>(options: &Options) {
    let workload = Workload::new(options.seed);
    let pairs = options.count;
    let patterns = workload.patterns(BASE + pairs);
    let subjects = workload.subjects(&patterns, BASE, BASE);
    let mut kept: Vec<Option<S::Subscription>> = Vec::new();
    kept.resize_with(pairs, || None);
    let table = Table::<S>::fill(&patterns, BASE, &subjects);
    let check = table.check(&patterns, &subjects);
    let matcher = &table.matcher;
    let text = |index| patterns.get(BASE + index);

    table.settle(&subjects);
    let start = resident_bytes();
    for index in 0..pairs {
        let subscription = subscribe(matcher, text(index), index as u64);
        assert!(matcher.unsubscribe(subscription), "a subscription is missing");
    }
    table.settle(&subjects);
    let singly = resident_bytes();
    for (index, kept) in kept.iter_mut().enumerate() {
        *kept = Some(subscribe(matcher, text(index), index as u64));
    }
    let full = resident_bytes();
    for kept in &mut kept {
        assert!(kept.take().is_some_and(|kept| matcher.unsubscribe(kept)), "a subscription is missing");
    }
    table.settle(&subjects);
    let at_once = resident_bytes();
    assert_eq!(matcher.len(), BASE, "subscriptions were lost");
    Line::new("churn", &format!("{} pairs", short(pairs)), S::NAME, &check)
        .with("start_mib", start / MIB)
        .with("singly_mib", singly / MIB)
        .with("full_mib", full / MIB)
        .with("at_once_mib", at_once / MIB)
        .with("singly_ratio", singly / start)
        .with("at_once_ratio", at_once / start)
        .print();
}
