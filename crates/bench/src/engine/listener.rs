//! Subscribers whose publishers are on another machine: they receive, and send nothing.
//!
//! Each payload contains when it was due, on the publisher's clock. A latency is the time of receipt on this
//! clock, less the estimated offset between the two, less the due time. Losses are known only once the
//! publishers have reported what they sent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::generator::Report;
use super::orphans::WINDOW;
use super::spare::Spare;
use super::waiting::wait_for;
use super::{Observer, PartOutcome, collector, join};
use crate::clock::{Clock, MonotonicClock, SECOND_NS};
use crate::engine::{LoadOptions, Span};
use crate::error::{BenchError, RequesterError};
use crate::payload;
use crate::recorder::Recorder;
use crate::requester::{PayloadBack, Readiness, Requester, Sink};
use crate::systems::is_probe;
use crate::windowed::Tracker;

/// Longest wait of a thread before it checks whether the run is over.
const CHECK_INTERVAL_NS: u64 = 20_000_000;

/// How long publishers may take, after the wait for answers has ended, to report what they sent.
const GRACE_NS: u64 = 10 * SECOND_NS;

/// Sequences from here on are invalid.
const SEQUENCE_END: u64 = 1 << 62;

/// A subscriber that is set up.
pub struct Listening {
    /// Its connection to the system.
    pub requester: Box<dyn Requester>,
    /// The number of the connection whose receiving end it is.
    pub connection: u32,
    /// When the first message of the load is due, on the publisher's clock.
    pub publisher_begin_ns: u64,
    /// This machine's clock less the publisher's, in nanoseconds; the current estimate.
    pub offset_ns: Arc<AtomicI64>,
}

/// What publishers have sent. Another thread sets it once they have ended.
#[derive(Debug, Default)]
pub struct Sent {
    by_connection: OnceLock<BTreeMap<u32, u64>>,
    abandoned: AtomicBool,
}

impl Sent {
    /// Sets how many messages each connection has sent, warm-up included. No losses are counted on a
    /// connection that is not listed.
    pub fn tell(&self, by_connection: BTreeMap<u32, u64>) {
        // Only the first value counts.
        let _ = self.by_connection.set(by_connection);
    }

    /// Ends the listening: the numbers will not come.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

/// Receives until everything that was sent has come, or the wait for it is over. `begin_ns` is when the load
/// starts on this machine's clock.
///
/// # Errors
/// An option is out of its range, or a thread cannot be started.
pub fn listen(
    options: &LoadOptions,
    begin_ns: u64,
    listening: Vec<Listening>,
    sent: &Arc<Sent>,
    clock: &Arc<dyn Clock>,
    observer: &mut dyn Observer,
) -> Result<(PartOutcome, Vec<Box<dyn Requester>>), BenchError> {
    options.check(listening.len())?;
    let span = Span::new(begin_ns, options);
    let spare = Arc::new(Spare::default());
    let (reports, received) = mpsc::channel();
    let count = options.threads.min(listening.len());
    let mut hands: Vec<Vec<Lane>> = (0..count).map(|_| Vec::new()).collect();
    for (place, one) in listening.into_iter().enumerate() {
        hands[place % count].push(Lane::new(one, options));
    }
    let mut threads = Vec::new();
    for (number, lanes) in hands.into_iter().enumerate() {
        let listener = Listener {
            thread: number,
            lanes,
            span,
            interval_ns: options.interval_ns,
            drain_ns: options.drain_ns,
            sent: Arc::clone(sent),
            told_ns: None,
            reports: reports.clone(),
            spare: Arc::clone(&spare),
        };
        let clock = Arc::clone(clock);
        let body = move || {
            MonotonicClock::sharpen_this_thread();
            listener.run(&*clock)
        };
        let builder = thread::Builder::new().name(format!("listen-{number}"));
        threads.push(builder.spawn(body).map_err(BenchError::Thread)?);
    }
    drop(reports);
    let total = collector::collect(&received, count, options.interval_ns, &spare, observer);
    let lanes: Vec<Lane> = threads.into_iter().flat_map(join).collect();
    Ok(gather(lanes, total, span, clock.now_ns()))
}

fn gather(
    lanes: Vec<Lane>,
    total: Recorder,
    span: Span,
    stopped_ns: u64,
) -> (PartOutcome, Vec<Box<dyn Requester>>) {
    let (mut requesters, mut failures) = (Vec::new(), Vec::new());
    for lane in lanes {
        requesters.push(lane.requester);
        failures.extend(lane.broken.map(|error| error.to_string()));
    }
    let outcome = PartOutcome {
        total,
        payload: Some(PayloadBack::Receipt),
        span,
        stopped_ns,
        interrupted: false,
        neglected: 0,
        failures,
        breaks: Vec::new(),
        refusals: Vec::new(),
        sent: Vec::new(),
    };
    (outcome, requesters)
}

/// One thread.
struct Listener {
    thread: usize,
    lanes: Vec<Lane>,
    span: Span,
    interval_ns: u64,
    drain_ns: u64,
    sent: Arc<Sent>,
    told_ns: Option<u64>,
    reports: Sender<Report>,
    spare: Arc<Spare>,
}

impl Listener {
    fn run(mut self, clock: &dyn Clock) -> Vec<Lane> {
        let mut recorder = self.spare.take();
        let mut interval = 0;
        let mut ready = vec![true; self.lanes.len()];
        loop {
            let now = clock.now_ns();
            while now >= self.interval_end(interval) {
                let full = std::mem::replace(&mut recorder, self.spare.take());
                self.report(interval, full, false);
                interval += 1;
            }
            for (lane, _) in self.lanes.iter_mut().zip(&ready).filter(|(_, ready)| **ready) {
                lane.receive(clock, &mut recorder);
            }
            if self.is_over(now) {
                break;
            }
            self.wait(clock, interval, &mut ready);
        }
        if let Some(sent) = self.sent.by_connection.get() {
            self.lanes.iter().for_each(|lane| lane.count_losses(sent, &mut recorder));
        }
        self.report(interval, recorder, true);
        self.lanes
    }

    fn is_over(&mut self, now: u64) -> bool {
        if self.sent.abandoned.load(Ordering::Relaxed) {
            return true;
        }
        let Some(sent) = self.sent.by_connection.get() else {
            return now >= self.span.drained_ns.saturating_add(GRACE_NS);
        };
        let told_ns = *self.told_ns.get_or_insert(now);
        now >= self.span.drained_ns.min(told_ns.saturating_add(self.drain_ns))
            || self.lanes.iter().all(|lane| lane.has_all(sent))
    }

    fn wait(&self, clock: &dyn Clock, interval: u64, ready: &mut [bool]) {
        let now = clock.now_ns();
        let until = self.interval_end(interval).min(now.saturating_add(CHECK_INTERVAL_NS));
        wait_for(clock, until, self.lanes.iter().map(Lane::readiness), ready);
    }

    fn interval_end(&self, interval: u64) -> u64 {
        self.span.begin_ns.saturating_add((interval + 1).saturating_mul(self.interval_ns))
    }

    fn report(&self, interval: u64, recorder: Recorder, last: bool) {
        // The receiver is gone only if the run was abandoned.
        let _ = self.reports.send(Report { thread: self.thread, interval, recorder, in_flight: 0, last });
    }
}

/// One subscriber.
struct Lane {
    requester: Box<dyn Requester>,
    books: Books,
    broken: Option<RequesterError>,
}

struct Books {
    connection: u16,
    run: u16,
    payload_bytes: usize,
    timeout_ns: u64,
    /// The times of the run on the publisher's clock.
    span: Span,
    offset_ns: Arc<AtomicI64>,
    tracker: Tracker,
    /// Distinct messages received, warm-up included.
    came: u64,
}

impl Lane {
    fn new(listening: Listening, options: &LoadOptions) -> Self {
        let books = Books {
            connection: listening.connection as u16,
            run: options.run,
            payload_bytes: options.payload_bytes,
            timeout_ns: options.timeout_ns,
            span: Span::new(listening.publisher_begin_ns, options),
            offset_ns: listening.offset_ns,
            tracker: Tracker::new(WINDOW),
            came: 0,
        };
        Self { requester: listening.requester, books, broken: None }
    }

    fn receive(&mut self, clock: &dyn Clock, recorder: &mut Recorder) {
        if self.broken.is_some() {
            return;
        }
        let mut sink = ListenerSink { books: &mut self.books, recorder };
        if let Err(error) = self.requester.receive(clock, &mut sink) {
            self.broken = Some(error);
            recorder.counts.broken_connections += 1;
        }
    }

    fn readiness(&self) -> Readiness<'_> {
        if self.broken.is_some() { Readiness::At(u64::MAX) } else { self.requester.readiness() }
    }

    fn has_all(&self, sent: &BTreeMap<u32, u64>) -> bool {
        let sent = sent.get(&u32::from(self.books.connection));
        self.broken.is_some() || sent.is_none_or(|sent| self.books.came >= *sent)
    }

    fn count_losses(&self, sent: &BTreeMap<u32, u64>, recorder: &mut Recorder) {
        if let Some(sent) = sent.get(&u32::from(self.books.connection)) {
            recorder.counts.lost += self.books.tracker.missing(*sent);
        }
    }
}

struct ListenerSink<'a> {
    books: &'a mut Books,
    recorder: &'a mut Recorder,
}

impl Sink for ListenerSink<'_> {
    fn acknowledged(&mut self, _at_ns: u64, _sequence: u64) {
        self.recorder.counts.unknown += 1;
    }

    fn refused(&mut self, _at_ns: u64, _sequence: u64, _reason: &str) {
        self.recorder.counts.unknown += 1;
    }

    fn payload(&mut self, at_ns: u64, bytes: &[u8]) {
        let (books, counts) = (&mut *self.books, &mut self.recorder.counts);
        let Ok(header) = payload::verify(bytes, books.payload_bytes) else {
            counts.corrupt += 1;
            return;
        };
        // A second copy of the probe before the run does not matter.
        if is_probe(&header, books.run, books.connection) {
            return;
        }
        let own = header.run == books.run && header.connection == books.connection;
        if !own || header.sequence >= SEQUENCE_END {
            counts.foreign += 1;
            return;
        }
        if !counts.note(books.tracker.observe(header.sequence)) {
            return;
        }
        books.came += 1;
        if !books.span.measures(header.due_ns) {
            return;
        }
        counts.received += 1;
        let offset_ns = i128::from(books.offset_ns.load(Ordering::Relaxed));
        let latency = i128::from(at_ns) - offset_ns - i128::from(header.due_ns);
        counts.negative += u64::from(latency < 0);
        let latency_ns = u64::try_from(latency.max(0)).unwrap_or(u64::MAX);
        let receipt = &mut self.recorder.receipt;
        // With both ends on one machine it would have timed out.
        let outcome = if latency_ns > books.timeout_ns { &mut receipt.timeout } else { &mut receipt.success };
        outcome.record(latency_ns);
    }
}
