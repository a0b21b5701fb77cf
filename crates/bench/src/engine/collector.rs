//! Merges the threads' reports: intervals of the whole run, and its total.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use super::generator::Report;
use super::spare::Spare;
use crate::recorder::Recorder;

/// One interval of the run, over all threads.
#[derive(Debug)]
pub struct Interval<'a> {
    /// Its start, in nanoseconds since the first message was due.
    pub begin_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// What was measured in it. A latency belongs to the interval in which it ended.
    pub recorder: &'a Recorder,
    /// Everything measured until its end.
    pub total: &'a Recorder,
    /// Messages in flight at its end.
    pub in_flight: usize,
}

/// Receives each interval while the run goes on.
pub trait Observer {
    /// Called when an interval has ended.
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

/// Merges reports, from threads or from machines, in order.
pub(crate) struct Collector {
    total: Recorder,
    pending: BTreeMap<u64, Pending>,
    /// The current interval of each reporter. One that has ended delays no interval.
    reached: Vec<u64>,
    interval_ns: u64,
}

impl Collector {
    pub(crate) fn new(reporters: usize, interval_ns: u64) -> Self {
        Self {
            total: Recorder::default(),
            pending: BTreeMap::new(),
            reached: vec![0; reporters],
            interval_ns,
        }
    }

    /// Adds a reporter's measurements of an interval, and moves the reporter to the next one.
    pub(crate) fn add(&mut self, reporter: usize, interval: u64, recorder: &Recorder, in_flight: usize) {
        let place = self.pending.entry(interval).or_default();
        place.recorder.add(recorder);
        place.in_flight += in_flight;
        self.reached[reporter] = self.reached[reporter].max(interval + 1);
    }

    /// Marks a reporter as ended.
    pub(crate) fn end(&mut self, reporter: usize) {
        self.reached[reporter] = u64::MAX;
    }

    /// Shows the intervals that all reporters have completed, and returns their recorders.
    pub(crate) fn show(&mut self, observer: &mut dyn Observer) -> Vec<Recorder> {
        let complete = self.reached.iter().copied().min().unwrap_or(u64::MAX);
        let mut done = Vec::new();
        while let Some(first) = self.pending.first_entry().filter(|first| *first.key() < complete) {
            let (index, place) = first.remove_entry();
            self.total.add(&place.recorder);
            observer.interval(&Interval {
                begin_ns: index.saturating_mul(self.interval_ns),
                length_ns: self.interval_ns,
                recorder: &place.recorder,
                total: &self.total,
                in_flight: place.in_flight,
            });
            done.push(place.recorder);
        }
        done
    }

    /// Returns the total.
    pub(crate) fn into_total(self) -> Recorder {
        self.total
    }
}

/// Collects until all threads have ended, and returns the total.
pub(super) fn collect(
    reports: &Receiver<Report>,
    threads: usize,
    interval_ns: u64,
    spare: &Spare,
    observer: &mut dyn Observer,
) -> Recorder {
    let mut collector = Collector::new(threads, interval_ns);
    while let Ok(report) = reports.recv() {
        collector.add(report.thread, report.interval, &report.recorder, report.in_flight);
        spare.put(report.recorder);
        if report.last {
            collector.end(report.thread);
        }
        collector.show(observer).into_iter().for_each(|recorder| spare.put(recorder));
    }
    collector.into_total()
}
