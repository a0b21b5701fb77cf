//! A virtual clock, and a simulated system that runs on it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::PollFd;
use tailrace_bench::clock::{Clock, SECOND_NS};
use tailrace_bench::engine::{self, LoadOptions, Outcome, Reconnect};
use tailrace_bench::error::RequesterError;
use tailrace_bench::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

pub(crate) const MS: u64 = 1_000_000;

/// Time passes only while a thread waits. A waiting thread may be kept from waking up in time.
#[derive(Debug, Default)]
pub(crate) struct VirtualClock {
    pub(crate) now_ns: AtomicU64,
    pub(crate) pauses: Vec<Range<u64>>,
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn wait(&self, until_ns: u64, _watched: &mut [PollFd<'_>]) {
        let paused = self.pauses.iter().find(|pause| pause.contains(&until_ns));
        let until_ns = paused.map_or(until_ns, |pause| pause.end);
        self.now_ns.fetch_max(until_ns, Ordering::SeqCst);
    }
}

/// The behaviour of the simulated system.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    pub(crate) service_ns: u64,
    /// During a stall nothing is answered; afterwards everything is at once.
    pub(crate) stalls: Vec<Range<u64>>,
    pub(crate) expects: Expects,
    /// Every n-th message, counted from 1, is ...
    pub(crate) lose_every: u64,
    pub(crate) repeat_every: u64,
    pub(crate) damage_every: u64,
    pub(crate) refuse_every: u64,
    /// ... answered this much later.
    pub(crate) delay_every: (u64, u64),
    /// The client accepts at most this many unanswered messages.
    pub(crate) client_room: usize,
    /// While it is broken, every use of the connection fails, and so does reconnecting.
    pub(crate) broken: Vec<Range<u64>>,
    /// Messages accepted before the connection broke are delivered on the next one; acknowledgements and
    /// replies never are.
    pub(crate) keeps_messages: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            service_ns: MS,
            stalls: Vec::new(),
            expects: Expects { acknowledgement: false, payload: Some(PayloadBack::Reply) },
            lose_every: 0,
            repeat_every: 0,
            damage_every: 0,
            refuse_every: 0,
            delay_every: (0, 0),
            client_room: usize::MAX,
            broken: Vec::new(),
            keeps_messages: false,
        }
    }
}

enum Answer {
    Payload(Vec<u8>),
    Acknowledged(u64),
    Refused(u64),
}

/// One connection to the simulated system.
pub(crate) struct Simulated {
    clock: Arc<VirtualClock>,
    behaviour: Behaviour,
    answers: BTreeMap<(u64, u64), Answer>,
    taken: u64,
    serial: u64,
    /// When it connected.
    since_ns: u64,
}

impl Simulated {
    pub(crate) fn new(clock: &Arc<VirtualClock>, behaviour: &Behaviour) -> Self {
        let (clock, behaviour) = (Arc::clone(clock), behaviour.clone());
        Self { clock, behaviour, answers: BTreeMap::new(), taken: 0, serial: 0, since_ns: 0 }
    }

    fn answer(&mut self, at_ns: u64, answer: Answer) {
        self.serial += 1;
        self.answers.insert((at_ns, self.serial), answer);
    }

    /// Fails from the moment of the break until the next connection.
    fn check(&self) -> Result<(), RequesterError> {
        let now = self.clock.now_ns();
        if self.behaviour.broken.iter().any(|broken| broken.start <= now && self.since_ns <= broken.start) {
            return Err(RequesterError::Closed { address: "simulated".to_owned() });
        }
        Ok(())
    }

    fn every(&self, nth: u64) -> bool {
        nth > 0 && self.taken.is_multiple_of(nth)
    }
}

impl Requester for Simulated {
    fn expects(&self) -> Expects {
        self.behaviour.expects
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        let now = self.clock.now_ns();
        if self.behaviour.broken.iter().any(|broken| broken.contains(&now)) {
            let error = std::io::ErrorKind::ConnectionRefused.into();
            return Err(RequesterError::Connect { address: "simulated".to_owned(), error });
        }
        self.since_ns = now;
        let keeps = self.behaviour.keeps_messages;
        self.answers.retain(|_, answer| keeps && matches!(answer, Answer::Payload(_)));
        Ok(())
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        self.check()?;
        let now = self.clock.now_ns();
        if self.answers.len() >= self.behaviour.client_room {
            return Ok(Handed::Full);
        }
        self.taken += 1;
        let stall = self.behaviour.stalls.iter().find(|stall| stall.contains(&now));
        let mut done = stall.map_or(now, |stall| stall.end) + self.behaviour.service_ns;
        if self.every(self.behaviour.delay_every.0) {
            done += self.behaviour.delay_every.1;
        }
        if self.every(self.behaviour.refuse_every) {
            self.answer(done, Answer::Refused(sequence));
            return Ok(Handed::Taken);
        }
        if self.behaviour.expects.acknowledgement {
            self.answer(done, Answer::Acknowledged(sequence));
        }
        if self.behaviour.expects.payload.is_some() && !self.every(self.behaviour.lose_every) {
            let mut bytes = payload.to_vec();
            if self.every(self.behaviour.damage_every) {
                bytes[20] ^= 1;
            }
            if self.every(self.behaviour.repeat_every) {
                self.answer(done, Answer::Payload(bytes.clone()));
            }
            self.answer(done, Answer::Payload(bytes));
        }
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        self.check()?;
        let now = clock.now_ns();
        while let Some(first) = self.answers.first_entry().filter(|first| first.key().0 <= now) {
            match first.remove() {
                Answer::Payload(bytes) => sink.payload(now, &bytes),
                Answer::Acknowledged(sequence) => sink.acknowledged(now, sequence),
                Answer::Refused(sequence) => sink.refused(now, sequence, "refused on purpose"),
            }
        }
        Ok(())
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::At(self.answers.first_key_value().map_or(u64::MAX, |((at_ns, _), _)| *at_ns))
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }
}

/// Runs a load against this many connections to the simulated system. The first message is due at 0.
pub(crate) fn run(options: &LoadOptions, behaviour: &Behaviour, connections: usize) -> Outcome {
    run_on(VirtualClock::default(), options, behaviour, connections)
}

pub(crate) fn run_on(
    clock: VirtualClock,
    options: &LoadOptions,
    behaviour: &Behaviour,
    connections: usize,
) -> Outcome {
    run_watched(clock, options, behaviour, connections, &mut |_: &engine::Interval<'_>| {})
}

/// The same, with an observer of each interval.
pub(crate) fn run_watched(
    clock: VirtualClock,
    options: &LoadOptions,
    behaviour: &Behaviour,
    connections: usize,
    observer: &mut dyn engine::Observer,
) -> Outcome {
    let clock = Arc::new(clock);
    let requesters =
        (0..connections).map(|_| Box::new(Simulated::new(&clock, behaviour)) as Box<dyn Requester>).collect();
    let mut options = options.clone();
    options.lead_ns = 0;
    options.threads = 1;
    // Another thread would never get its turn: this time passes only while the generator waits.
    options.reconnect = options.reconnect.map(|reconnect| Reconnect { aside: false, ..reconnect });
    let clock: Arc<dyn Clock> = clock;
    let stop = Arc::new(AtomicBool::new(false));
    engine::run(&options, requesters, &clock, &stop, observer).unwrap().0
}

/// Reports whether two times agree to the histogram's three digits, plus some slack.
pub(crate) fn agree(found_ns: u64, expected_ns: u64, slack_ns: u64) -> bool {
    found_ns.abs_diff(expected_ns) <= expected_ns / 700 + slack_ns
}

pub(crate) fn seconds(count: u64) -> u64 {
    count * SECOND_NS
}

pub(crate) fn one_stall(from_ns: u64, to_ns: u64) -> Vec<Range<u64>> {
    std::iter::once(from_ns..to_ns).collect()
}
