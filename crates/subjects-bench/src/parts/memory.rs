//! Bytes per subscription, as requested from the allocator and as resident.

use crate::line::{Line, short};
use crate::measure::{HeapBytes, resident_bytes};
use crate::options::Options;
use crate::systems::{System, subscribe};
use crate::workload::{Texts, Workload};

pub(super) fn run<S: System>(options: &Options, heap: HeapBytes) {
    let count = options.count;
    let patterns = Workload::new(options.seed).patterns(count);
    let mut subscriptions: Vec<Option<S::Subscription>> = Vec::new();
    subscriptions.resize_with(count, || None);
    let heap_now = || heap.map_or(0, |heap| heap());
    let (resident, before) = (resident_bytes(), heap_now());
    let matcher = S::build(&Texts::default());
    for (index, kept) in subscriptions.iter_mut().enumerate() {
        *kept = Some(subscribe(&matcher, patterns.get(index), index as u64));
    }
    let per = |bytes: f64| bytes / count as f64;
    let check = format!("{:016x}", crate::random::checksum(patterns.iter()));
    let line = Line::new("memory", &short(count), S::NAME, &check);
    let line = line.with("resident_bytes", per(resident_bytes() - resident));
    // A program that does not count its allocations has no figure for them.
    let line = match heap {
        Some(_) => line.with("heap_bytes", per(heap_now().saturating_sub(before) as f64)),
        None => line,
    };
    line.print();
}
