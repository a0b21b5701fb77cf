//! An agent's work for its coordinator: a thread that connects, drives its share of the load, and tears
//! everything down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::RemoteError;
use super::assignment::Assignment;
use super::messages::{Final, IntervalForm, RecorderForm, Start, ToAgent, ToCoordinator};
use super::shifted::ShiftedClock;
use crate::clock::Clock;
use crate::engine::{self, Interval, Listening, LoadOptions, Part, PartOutcome, Sent};
use crate::error::{BenchError, RequesterError};
use crate::payload;
use crate::recorder::Counts;
use crate::report::Machine;
use crate::requester::{PayloadBack, Requester, Sink, wait};
use crate::sampler::Sampler;
use crate::systems::{self, EchoServer, PROBE_TIMEOUT_NS, Role, is_probe};

/// Time between two checks for a probe.
const CHECK_INTERVAL_NS: u64 = 20_000_000;

/// Most orders in the queue; a coordinator gives three, one after the other.
const ORDERS_MAX: usize = 8;

/// State that other threads may change while the load runs.
#[derive(Debug, Default)]
struct Shared {
    stop: Arc<AtomicBool>,
    sent: Arc<Sent>,
    /// This clock less that of each agent.
    offsets_ns: Mutex<Vec<Arc<AtomicI64>>>,
}

impl Shared {
    fn set_offsets(&self, found: &[i64]) {
        let offsets = self.offsets_ns.lock();
        offsets.iter().zip(found).for_each(|(offset, found)| offset.store(*found, Ordering::Relaxed));
    }

    fn offsets(&self, found: &[i64]) -> Vec<Arc<AtomicI64>> {
        let fresh: Vec<_> = found.iter().map(|found| Arc::new(AtomicI64::new(*found))).collect();
        self.offsets_ns.lock().clone_from(&fresh);
        fresh
    }
}

/// A handle to the thread.
#[derive(Debug)]
pub(super) struct Work {
    shared: Arc<Shared>,
    orders: SyncSender<ToAgent>,
    thread: JoinHandle<()>,
}

impl Work {
    pub(super) fn start(
        shift_ns: Arc<AtomicI64>,
        said: SyncSender<ToCoordinator>,
    ) -> Result<Self, RemoteError> {
        let shared = Arc::new(Shared::default());
        let (orders, heard) = mpsc::sync_channel(ORDERS_MAX);
        let its = Arc::clone(&shared);
        let body = move || {
            let mut worker = Worker { shared: its, shift_ns, said, ready: None };
            worker.obey(&heard);
            worker.take_down();
        };
        let thread = thread::Builder::new().name("agent-work".to_owned()).spawn(body)?;
        Ok(Self { shared, orders, thread })
    }

    /// Passes an order on. Orders about a running load take effect at once.
    ///
    /// # Errors
    /// Too many orders are queued.
    pub(super) fn order(&self, order: ToAgent) -> Result<(), RemoteError> {
        match order {
            ToAgent::Stop => self.shared.stop.store(true, Ordering::Relaxed),
            ToAgent::Offsets(found) => self.shared.set_offsets(&found),
            ToAgent::Sent(sent) => self.shared.sent.tell(sent),
            other => {
                // A thread that has ended has reported why.
                if let Err(TrySendError::Full(_)) = self.orders.try_send(other) {
                    return Err(out_of_turn("a coordinator that waits", "one that does not"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the load and waits until everything is torn down.
    pub(super) fn end(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.sent.abandon();
        drop(self.orders);
        // A panic has been printed, and the agent goes on.
        let _ = self.thread.join();
    }
}

/// Established connections.
struct Ready {
    assignment: Assignment,
    options: LoadOptions,
    requesters: Vec<Box<dyn Requester>>,
    _server: Option<EchoServer>,
}

struct Worker {
    shared: Arc<Shared>,
    shift_ns: Arc<AtomicI64>,
    said: SyncSender<ToCoordinator>,
    ready: Option<Ready>,
}

impl Worker {
    fn obey(&mut self, orders: &Receiver<ToAgent>) {
        while let Ok(order) = orders.recv() {
            let done = match order {
                ToAgent::Prepare(assignment) => self.prepare(*assignment),
                ToAgent::AwaitProbes => self.await_probes(),
                ToAgent::Start(start) => self.run(&start),
                _ => Ok(()),
            };
            if let Err(error) = done {
                self.say(ToCoordinator::Failed { reason: error.to_string() });
                return;
            }
        }
    }

    fn say(&self, what: ToCoordinator) {
        // The receiver is gone only if the coordinator is.
        let _ = self.said.send(what);
    }

    fn clock(&self, assignment: &Assignment) -> Arc<dyn Clock> {
        Arc::new(ShiftedClock::new(assignment.waiting(), &self.shift_ns))
    }

    fn prepare(&mut self, assignment: Assignment) -> Result<(), RemoteError> {
        if self.ready.is_some() {
            return Err(out_of_turn("one assignment", "another"));
        }
        let options = assignment.options()?;
        let (target, clock) = (assignment.target(), self.clock(&assignment));
        let opened = systems::open_some(&target, assignment.role, &assignment.connections)?;
        let requesters = opened.requesters;
        let ready = self.ready.insert(Ready { assignment, options, requesters, _server: opened.server });
        let Ready { assignment, requesters, .. } = ready;
        for place in 0..requesters.len() {
            let connection = assignment.connections[place];
            let one = &mut requesters[place..=place];
            let done = if self.shared.stop.load(Ordering::Relaxed) {
                Err(out_of_turn("time to connect", "the end"))
            } else if assignment.role == Role::Subscriber {
                one[0].set_up().map_err(|error| BenchError::from(error).into())
            } else {
                systems::set_up_some(one, &target, &[connection], &*clock).map_err(RemoteError::from)
            };
            if let Err(error) = done {
                // Requesters that were not tried need no teardown.
                requesters.truncate(place + 1);
                return Err(error);
            }
        }
        self.say(ToCoordinator::Prepared { machine: Machine::look() });
        Ok(())
    }

    /// Waits until the probe of each publisher, on another agent, has arrived.
    fn await_probes(&mut self) -> Result<(), RemoteError> {
        let Some(ready) = &mut self.ready else { return Err(out_of_turn("an assignment", "none")) };
        let clock = ShiftedClock::new(ready.assignment.waiting(), &self.shift_ns);
        for (connection, requester) in ready.assignment.connections.iter().zip(&mut ready.requesters) {
            let mut sink = ProbeSink { run: ready.options.run, connection: *connection as u16, came: false };
            let deadline = clock.now_ns().saturating_add(PROBE_TIMEOUT_NS);
            while !sink.came {
                requester.receive(&clock, &mut sink).map_err(BenchError::from)?;
                let now = clock.now_ns();
                if self.shared.stop.load(Ordering::Relaxed) {
                    return Err(out_of_turn("time to listen", "the end"));
                }
                if now >= deadline {
                    let timeout = RequesterError::Timeout {
                        address: "the system".to_owned(),
                        timeout_ms: PROBE_TIMEOUT_NS / 1_000_000,
                        doing: "one message was tried from another agent before the run",
                    };
                    return Err(BenchError::from(timeout).into());
                }
                if !sink.came {
                    wait(requester.readiness(), &clock, deadline.min(now + CHECK_INTERVAL_NS));
                }
            }
        }
        self.say(ToCoordinator::ProbesCame);
        Ok(())
    }

    fn run(&mut self, start: &Start) -> Result<(), RemoteError> {
        let Some(mut ready) = self.ready.take() else { return Err(out_of_turn("an assignment", "none")) };
        let clock = self.clock(&ready.assignment);
        let sampler = Sampler::start(None);
        let requesters = std::mem::take(&mut ready.requesters);
        let mut counts = Counts::default();
        let mut observer = |interval: &Interval<'_>| {
            counts.add(&interval.recorder.counts);
            self.say(ToCoordinator::Interval(Box::new(IntervalForm {
                index: interval.begin_ns / interval.length_ns.max(1),
                recorder: RecorderForm::new(interval.recorder),
                in_flight: interval.in_flight,
            })));
        };
        let (outcome, requesters) = if ready.assignment.role == Role::Subscriber {
            let listening = self.listening(&ready.assignment, start, requesters)?;
            engine::listen(
                &ready.options,
                start.begin_ns,
                listening,
                &self.shared.sent,
                &clock,
                &mut observer,
            )?
        } else {
            let Assignment { connections, of, .. } = ready.assignment.clone();
            let part = Part { connections, of, begin_ns: start.begin_ns };
            engine::run_part(&ready.options, &part, requesters, &clock, &self.shared.stop, &mut observer)?
        };
        let resources = sampler.finish().generator;
        let complaint = tear_down(requesters).filter(|_| outcome.failures.is_empty());
        let ended = Final { counts, resources, complaint, ..summed_up(outcome) };
        self.say(ToCoordinator::Final(Box::new(ended)));
        Ok(())
    }

    /// Subscribers with the clocks of their publishers.
    fn listening(
        &self,
        assignment: &Assignment,
        start: &Start,
        requesters: Vec<Box<dyn Requester>>,
    ) -> Result<Vec<Listening>, RemoteError> {
        let offsets = self.shared.offsets(&start.offsets_ns);
        let mut listening = Vec::new();
        for ((connection, publisher), requester) in
            assignment.connections.iter().zip(&assignment.publishers).zip(requesters)
        {
            let (Some(begin), Some(offset)) = (start.begins_ns.get(*publisher), offsets.get(*publisher))
            else {
                return Err(out_of_turn("the clock of each publisher", "fewer"));
            };
            listening.push(Listening {
                requester,
                connection: *connection,
                publisher_begin_ns: *begin,
                offset_ns: Arc::clone(offset),
            });
        }
        Ok(listening)
    }

    /// Tears down connections that were prepared and never run.
    fn take_down(&mut self) {
        if let Some(ready) = self.ready.take() {
            tear_down(ready.requesters);
        }
    }
}

fn summed_up(outcome: PartOutcome) -> Final {
    Final {
        interrupted: outcome.interrupted,
        neglected: outcome.neglected,
        failures: outcome.failures,
        breaks: outcome.breaks,
        refusals: outcome.refusals,
        sent: outcome.sent.into_iter().collect::<BTreeMap<_, _>>(),
        stopped_ns: outcome.stopped_ns,
        receipt_is_reply: outcome.payload == Some(PayloadBack::Reply),
        expects_payload: outcome.payload.is_some(),
        counts: Counts::default(),
        resources: Vec::new(),
        complaint: None,
    }
}

/// Tears everything down. Returns the first error.
fn tear_down(requesters: Vec<Box<dyn Requester>>) -> Option<String> {
    let mut complaint = None;
    for mut requester in requesters {
        let failed = requester.tear_down().err().map(|error| error.to_string());
        complaint = complaint.or(failed);
    }
    complaint
}

fn out_of_turn(expected: &'static str, found: &str) -> RemoteError {
    RemoteError::Protocol { expected, found: found.to_owned() }
}

/// Receives the probe before a run.
struct ProbeSink {
    run: u16,
    connection: u16,
    came: bool,
}

impl Sink for ProbeSink {
    fn acknowledged(&mut self, _at_ns: u64, _sequence: u64) {}

    fn refused(&mut self, _at_ns: u64, _sequence: u64, _reason: &str) {}

    fn payload(&mut self, _at_ns: u64, bytes: &[u8]) {
        let header = payload::verify(bytes, bytes.len());
        self.came |= header.is_ok_and(|header| is_probe(&header, self.run, self.connection));
    }
}
