//! Memory after many subscriptions were added and removed: a million pairs one at a time, then a million that
//! existed at once.

use crate::line::{Line, short};
use crate::measure::{HeapBytes, resident_bytes};
use crate::options::Options;
use crate::systems::{System, subscribe};
use crate::table::Table;
use crate::workload::Workload;

/// Subscriptions that stay throughout.
const BASE: usize = 100_000;
const MIB: f64 = 1_048_576.0;

pub(super) fn run<S: System>(options: &Options, heap: HeapBytes) {
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

    let heap_now = || heap.map_or(0.0, |heap| heap() as f64);
    table.settle(&subjects);
    give_back();
    let (start, heap_start) = (resident_bytes(), heap_now());
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
    let (at_once, heap_at_once) = (resident_bytes(), heap_now());
    give_back();
    let given_back = resident_bytes();
    assert_eq!(matcher.len(), BASE, "subscriptions were lost");
    let line = Line::new("churn", &format!("{} pairs", short(pairs)), S::NAME, &check)
        .with("start_mib", start / MIB)
        .with("singly_mib", singly / MIB)
        .with("full_mib", full / MIB)
        .with("at_once_mib", at_once / MIB)
        .with("singly_ratio", singly / start)
        .with("given_back_mib", given_back / MIB)
        .with("at_once_ratio", at_once / start)
        .with("given_back_ratio", given_back / start);
    // A program that does not count its allocations has no figure for them.
    let line = if heap.is_some() { line.with("heap_at_once_ratio", heap_at_once / heap_start) } else { line };
    line.print();
}

/// Asks the allocator to return free pages to the kernel, as the Go program asks its runtime: glibc keeps
/// those that are between others.
fn give_back() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "a function of the C library without a safe wrapper")]
    // SAFETY: it takes no pointer, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
