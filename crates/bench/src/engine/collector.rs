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

/// Puts reports in order, from threads or from machines.
pub(crate) struct Collector {
    total: Recorder,
    pending: BTreeMap<u64, Pending>,
    /// The interval that each reporter is in; one that has ended holds nobody up.
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

    /// Adds what a reporter measured in an interval, and notes that it is in the next one.
    pub(crate) fn add(&mut self, reporter: usize, interval: u64, recorder: &Recorder, in_flight: usize) {
        let place = self.pending.entry(interval).or_default();
        place.recorder.add(recorder);
        place.in_flight += in_flight;
        self.reached[reporter] = self.reached[reporter].max(interval + 1);
    }

    /// This reporter has ended.
    pub(crate) fn end(&mut self, reporter: usize) {
        self.reached[reporter] = u64::MAX;
    }

    /// Shows the intervals that nobody is in any more; yields their recorders.
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

    /// Everything.
    pub(crate) fn into_total(self) -> Recorder {
        self.total
    }
}

/// Collects until all threads have ended; returns the total.
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
