//! The load generator: sends messages when the schedule says so, and measures the answers.
//!
//! The schedule never waits for the system. A message that could not be sent in time, because too many are in
//! flight or the client has no room, still counts from the moment at which it was due. Whether the system or
//! the generator made a message late is recorded separately, and a run in which the generator was late is
//! marked invalid. This module starts no systems and writes no files.

mod books;
mod collector;
mod flight;
mod generator;
mod lane;
mod link;
mod listener;
mod mender;
mod options;
mod orphans;
mod span;
mod spare;
mod verdict;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use crate::verdict::QUANTILES;
pub use crate::verdict::{Verdict, VerdictKind};
pub(crate) use collector::Collector;
pub use collector::{Interval, Observer};
pub use link::Break;
pub use listener::{Listening, Sent, listen};
pub use options::{Load, LoadOptions, Mode, Reconnect};
pub use span::Span;
pub(crate) use verdict::doubtful_quantiles;

use crate::clock::{Clock, MonotonicClock};
use crate::error::BenchError;
use crate::payload::PayloadBuffer;
use crate::recorder::{Distribution, Recorder};
use crate::requester::{PayloadBack, Requester};
use generator::{Ended, Generator};
use lane::Lane;
use link::{BREAKS_LISTED, Repair};
use mender::Mender;
use spare::Spare;
use verdict::Ending;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Everything that was measured.
    pub total: Recorder,
    /// Whether to trust it.
    pub verdict: Verdict,
    /// How messages were triggered.
    pub mode: Mode,
    /// What a returned payload means.
    pub payload: Option<PayloadBack>,
    /// The times of the run's phases, on the generator's clock.
    pub span: Span,
    /// Length of the measured time, shorter than requested if the run was interrupted.
    pub measured_ns: u64,
    /// The run was stopped before its end. What was measured until then is kept.
    pub interrupted: bool,
    /// The causes of breaks of the connections that were still broken at the end.
    pub failures: Vec<String>,
    /// Breaks of connections, when each broke and when it was up again, in order of time. At most the first
    /// thousand.
    pub breaks: Vec<Break>,
    /// Why the system rejected messages: the first reason on each connection that has one.
    pub refusals: Vec<String>,
    /// Expected time between two messages of one connection, to correct loads that wait for answers.
    pub interval_expected_ns: Option<u64>,
}

impl Outcome {
    /// `distribution`, corrected for coordinated omission as HdrHistogram does it. `None` for open-loop load,
    /// which omits nothing.
    pub fn corrected(&self, distribution: &Distribution) -> Option<Distribution> {
        self.interval_expected_ns.map(|interval| distribution.corrected(interval))
    }
}

/// Some of the connections of a load.
#[derive(Clone, Debug)]
pub struct Part {
    /// Their numbers. A connection has the same due times whichever process drives it.
    pub connections: Vec<u32>,
    /// The number of connections in all.
    pub of: u32,
    /// When the first message of the load is due, on this machine's clock.
    pub begin_ns: u64,
}

/// The result of a part of a load. Verdicts are about the whole.
#[derive(Debug)]
pub struct PartOutcome {
    /// Everything that was measured.
    pub total: Recorder,
    /// What a returned payload means.
    pub payload: Option<PayloadBack>,
    /// The times of the run's phases, on the generator's clock.
    pub span: Span,
    /// When it ended.
    pub stopped_ns: u64,
    /// Whether it was stopped.
    pub interrupted: bool,
    /// Messages that were not sent although the system had room.
    pub neglected: u64,
    /// The causes of breaks of the connections that were still broken at the end.
    pub failures: Vec<String>,
    /// Breaks of connections, when each broke and when it was up again.
    pub breaks: Vec<Break>,
    /// Why the system rejected messages.
    pub refusals: Vec<String>,
    /// Connections, and how many messages each has sent, warm-up included.
    pub sent: Vec<(u32, u64)>,
}

/// Total time to wait, at the end, for reconnects in progress.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a load over `requesters`, which are set up already, one connection each, and returns them. Requesters
/// that are reconnecting when it ends, and do not come back soon, are not returned.
///
/// `stop` ends the sending early. The observer is called from the calling thread.
///
/// # Errors
/// An option is out of its range, or a thread cannot be started.
pub fn run(
    options: &LoadOptions,
    requesters: Vec<Box<dyn Requester>>,
    clock: &Arc<dyn Clock>,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Result<(Outcome, Vec<Box<dyn Requester>>), BenchError> {
    let of = requesters.len() as u32;
    let begin_ns = clock.now_ns().saturating_add(options.lead_ns);
    let part = Part { connections: (0..of).collect(), of, begin_ns };
    let (outcome, requesters) = run_part(options, &part, requesters, clock, stop, observer)?;
    Ok((conclude(options, of as usize, outcome), requesters))
}

/// Runs a part of a load.
///
/// # Errors
/// Same as [`run`].
pub fn run_part(
    options: &LoadOptions,
    part: &Part,
    requesters: Vec<Box<dyn Requester>>,
    clock: &Arc<dyn Clock>,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Result<(PartOutcome, Vec<Box<dyn Requester>>), BenchError> {
    options.check(requesters.len())?;
    let payload = requesters.first().and_then(|requester| requester.expects().payload);
    let span = Span::new(part.begin_ns, options);
    let spare = Arc::new(Spare::default());
    let (reports, received) = mpsc::channel();
    let repair = match options.reconnect {
        Some(policy) => Some(Repair { policy, mender: Arc::new(Mender::new(policy.aside)?) }),
        None => None,
    };
    let mut generators = Vec::new();
    for (thread, lanes) in deal(options, part, requesters, repair.as_ref(), span).into_iter().enumerate() {
        generators.push(Generator {
            thread,
            lanes,
            span,
            interval_ns: options.interval_ns,
            buffer: PayloadBuffer::new(options.payload_bytes),
            stop: Arc::clone(stop),
            reports: reports.clone(),
            spare: Arc::clone(&spare),
        });
    }
    drop(reports);
    let threads = start(generators, clock)?;
    let total = collector::collect(&received, threads.len(), options.interval_ns, &spare, observer);
    let ended: Vec<Ended> = threads.into_iter().map(join).collect();
    Ok(gather(payload, total, ended, span, clock.now_ns()))
}

/// Deals the connections to threads in turn.
fn deal(
    options: &LoadOptions,
    part: &Part,
    requesters: Vec<Box<dyn Requester>>,
    repair: Option<&Repair>,
    span: Span,
) -> Vec<Vec<Lane>> {
    let threads = options.threads.min(requesters.len());
    let mut hands: Vec<Vec<Lane>> = (0..threads).map(|_| Vec::new()).collect();
    for (place, (connection, requester)) in part.connections.iter().zip(requesters).enumerate() {
        let lane = Lane::new(requester, options, repair.cloned(), span, *connection, part.of);
        hands[place % threads].push(lane);
    }
    hands
}

fn start(
    generators: Vec<Generator>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<thread::JoinHandle<Ended>>, BenchError> {
    let mut threads = Vec::with_capacity(generators.len());
    for (number, generator) in generators.into_iter().enumerate() {
        let clock = Arc::clone(clock);
        let body = move || {
            MonotonicClock::sharpen_this_thread();
            generator.run(&*clock)
        };
        threads.push(
            thread::Builder::new().name(format!("load-{number}")).spawn(body).map_err(BenchError::Thread)?,
        );
    }
    Ok(threads)
}

/// Joins a thread. A generator that panics is a bug, so its panic continues here.
fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn gather(
    payload: Option<PayloadBack>,
    total: Recorder,
    ended: Vec<Ended>,
    span: Span,
    stopped_ns: u64,
) -> (PartOutcome, Vec<Box<dyn Requester>>) {
    let interrupted = ended.iter().any(|thread| thread.interrupted);
    let neglected = ended.iter().map(|thread| thread.neglected).sum();
    let mut requesters = Vec::new();
    let (mut failures, mut refusals, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    let (mut breaks, deadline) = (Vec::new(), Instant::now() + RECONNECT_TIMEOUT);
    for lane in ended.into_iter().flat_map(|thread| thread.lanes) {
        sent.push(lane.sent());
        let (link, refusal) = lane.end(deadline.saturating_duration_since(Instant::now()));
        requesters.extend(link.requester);
        failures.extend(link.failure);
        breaks.extend(link.breaks);
        refusals.extend(refusal);
    }
    let outcome = PartOutcome {
        total,
        payload,
        span,
        stopped_ns,
        interrupted,
        neglected,
        failures,
        breaks,
        refusals,
        sent,
    };
    (outcome, requesters)
}

/// The outcome of a load whose parts are all in `whole`.
pub(crate) fn conclude(options: &LoadOptions, connections: usize, whole: PartOutcome) -> Outcome {
    let PartOutcome { total, payload, span, interrupted, failures, mut breaks, refusals, .. } = whole;
    breaks.sort_by_key(|found| (found.at_ns, found.connection));
    breaks.truncate(BREAKS_LISTED);
    let sent = whole.sent.iter().map(|(_, sent)| sent).sum();
    let measured_ns = whole.stopped_ns.min(span.end_ns).saturating_sub(span.measured_ns).max(1);
    let ending = Ending {
        neglected: whole.neglected,
        messages_all_sent: (sent == options.messages_max).then_some(sent),
        stopped_in_warm_up: interrupted && whole.stopped_ns < span.measured_ns,
        interrupted: interrupted.then(|| stopped_after(measured_ns, options.duration_ns)),
    };
    let mode = options.load.mode();
    let verdict = verdict::judge(mode, &total, ending);
    let interval_expected_ns = expected_interval(options, connections, &total, measured_ns);
    Outcome {
        total,
        verdict,
        mode,
        payload,
        span,
        measured_ns,
        interrupted,
        failures,
        breaks,
        refusals,
        interval_expected_ns,
    }
}

/// How far a stopped run came.
fn stopped_after(measured_ns: u64, duration_ns: u64) -> String {
    if measured_ns >= duration_ns {
        return "it was stopped while waiting for the last answers".to_owned();
    }
    let (measured, duration) = (measured_ns as f64 / 1e9, duration_ns as f64 / 1e9);
    format!("it was stopped after {measured:.1} s of {duration:.1} s, and says nothing about the rest")
}

fn expected_interval(
    options: &LoadOptions,
    connections: usize,
    total: &Recorder,
    measured_ns: u64,
) -> Option<u64> {
    let each = connections as f64;
    match &options.load {
        Load::Open(_) => None,
        Load::Closed(schedule) => {
            schedule.rate().map(|rate| (each * 1e9 / rate.in_seconds()).max(1.0) as u64)
        }
        Load::FullThrottle => {
            let sent = total.counts.sent.max(1) as f64;
            Some((measured_ns as f64 * each / sent).max(1.0) as u64)
        }
    }
}
