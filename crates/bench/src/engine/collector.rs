//! Puts together what the threads report: intervals of the whole run, and its total.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use super::generator::Report;
use super::spare::Spare;
use crate::recorder::Recorder;

/// One interval of the run, all threads together.
#[derive(Debug)]
pub struct Interval<'a> {
    /// When it began, in nanoseconds since the first message was due.
    pub begin_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// What was measured in it. Latencies belong to the interval in which they ended.
    pub recorder: &'a Recorder,
    /// Everything until its end.
    pub total: &'a Recorder,
    /// Messages in flight at its end.
    pub in_flight: usize,
}

/// Told about each interval while the run goes on.
pub trait Observer {
    /// An interval has ended.
    fn interval(&mut self, interval: &Interval<'_>);
}

impl<F: FnMut(&Interval<'_>)> Observer for F {
    fn interval(&mut self, interval: &Interval<'_>) {
        self(interval);
    }
}

#[derive(Default)]
struct Pending {
    recorder: Recorder,
    in_flight: usize,
}

/// Collects until all threads have ended; returns the total.
pub(super) fn collect(
    reports: &Receiver<Report>,
    threads: usize,
    interval_ns: u64,
    spare: &Spare,
    observer: &mut dyn Observer,
) -> Recorder {
    let mut total = Recorder::default();
    let mut pending: BTreeMap<u64, Pending> = BTreeMap::new();
    // The interval that each thread is in; one that has ended holds nobody up.
    let mut reached = vec![0; threads];
    while let Ok(report) = reports.recv() {
        let place = pending.entry(report.interval).or_default();
        place.recorder.add(&report.recorder);
        place.in_flight += report.in_flight;
        spare.put(report.recorder);
        reached[report.thread] = if report.last { u64::MAX } else { report.interval + 1 };
        let complete = reached.iter().copied().min().unwrap_or(u64::MAX);
        while let Some(first) = pending.first_entry().filter(|first| *first.key() < complete) {
            let (index, done) = first.remove_entry();
            total.add(&done.recorder);
            observer.interval(&Interval {
                begin_ns: index * interval_ns,
                length_ns: interval_ns,
                recorder: &done.recorder,
                total: &total,
                in_flight: done.in_flight,
            });
            spare.put(done.recorder);
        }
    }
    total
}
