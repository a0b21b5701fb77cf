//! One thread of the load generator. It serves its lanes in turn, receives before it sends, and waits in
//! between.
//!
//! It hands over a recorder per interval and keeps nothing itself, so its memory does not grow with the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use super::lane::Lane;
use super::span::Span;
use super::spare::Spare;
use super::waiting::wait_for;
use crate::clock::{Clock, SECOND_NS};
use crate::payload::PayloadBuffer;
use crate::recorder::Recorder;

/// How long a stopped run waits for the last answers.
const STOPPED_GRACE_NS: u64 = SECOND_NS;

/// How often to check whether the run was stopped, if nothing else happens.
const CHECK_INTERVAL_NS: u64 = SECOND_NS / 4;

/// A thread's measurements of one interval.
pub(super) struct Report {
    pub(super) thread: usize,
    pub(super) interval: u64,
    pub(super) recorder: Recorder,
    pub(super) in_flight: usize,
    /// This is the thread's last report.
    pub(super) last: bool,
}

/// A thread's state at its end.
pub(super) struct Ended {
    pub(super) lanes: Vec<Lane>,
    /// Messages that were not sent although the system had room.
    pub(super) neglected: u64,
    pub(super) interrupted: bool,
}

pub(super) struct Generator {
    pub(super) thread: usize,
    pub(super) lanes: Vec<Lane>,
    pub(super) span: Span,
    pub(super) interval_ns: u64,
    pub(super) buffer: PayloadBuffer,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) reports: Sender<Report>,
    pub(super) spare: Arc<Spare>,
}

impl Generator {
    /// Runs until all answers have come or the wait for them is over.
    pub(super) fn run(mut self, clock: &dyn Clock) -> Ended {
        let mut recorder = self.spare.take();
        let mut interval = 0;
        let mut interrupted = false;
        let mut ready = vec![true; self.lanes.len()];
        loop {
            let now = clock.now_ns();
            while now >= self.interval_end(interval) {
                let full = std::mem::replace(&mut recorder, self.spare.take());
                self.report(interval, full, false);
                interval += 1;
            }
            if !interrupted && self.stop.load(Ordering::Relaxed) {
                interrupted = true;
                self.span.drained_ns = self.span.drained_ns.min(now + STOPPED_GRACE_NS);
                self.lanes.iter_mut().for_each(|lane| lane.stop(now, &mut recorder));
            }
            if now >= self.span.drained_ns || self.lanes.iter().all(Lane::is_done) {
                break;
            }
            self.turn(clock, now, &ready, &mut recorder);
            self.wait(clock, interval, &mut ready);
        }
        let now = clock.now_ns();
        let neglected = self.lanes.iter_mut().map(|lane| lane.finish(now, &mut recorder)).sum();
        self.report(interval, recorder, true);
        Ended { lanes: self.lanes, neglected, interrupted }
    }

    fn turn(&mut self, clock: &dyn Clock, now: u64, ready: &[bool], recorder: &mut Recorder) {
        for (lane, ready) in self.lanes.iter_mut().zip(ready) {
            lane.mend(now, recorder);
            if *ready {
                lane.receive(clock, recorder);
            }
            lane.expire(now, recorder);
            lane.stop_at_end(now);
            lane.send_due(clock, &mut self.buffer, recorder);
        }
    }

    /// Waits for the first of: a due message, a ready descriptor, a timeout, the end of the interval.
    fn wait(&mut self, clock: &dyn Clock, interval: u64, ready: &mut [bool]) {
        let now = clock.now_ns();
        let mut until = self.interval_end(interval).min(self.span.drained_ns).min(now + CHECK_INTERVAL_NS);
        for lane in &mut self.lanes {
            until = until.min(lane.next_event_ns(now));
        }
        wait_for(clock, until, self.lanes.iter().map(|lane| lane.readiness(now)), ready);
    }

    fn interval_end(&self, interval: u64) -> u64 {
        self.span.begin_ns.saturating_add((interval + 1).saturating_mul(self.interval_ns))
    }

    fn report(&self, interval: u64, mut recorder: Recorder, last: bool) {
        let end_ns = self.interval_end(interval);
        recorder.oldest_waiting_ns =
            self.lanes.iter().map(|lane| lane.oldest_waiting_ns(end_ns)).max().unwrap_or(0);
        let in_flight = self.lanes.iter().map(Lane::in_flight).sum();
        // The receiver is gone only if the run was abandoned.
        let _ = self.reports.send(Report { thread: self.thread, interval, recorder, in_flight, last });
    }
}
