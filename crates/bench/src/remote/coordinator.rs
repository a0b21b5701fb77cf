//! The coordinator: assigns each agent its share, starts them together, adds up their measurements, and
//! survives the loss of one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::RemoteError;
use super::assignment::Assignment;
use super::conversation::{Command, Conversation, Event, connect};
use super::handshake::{Version, with_agent};
use super::load::RemoteLoad;
use super::messages::{Start, ToAgent, ToCoordinator};
use super::offset::Offset;
use super::outcome::{RemoteOutcome, put_together};
use super::peer::Peer;
use super::placement::{Placement, Share};
use crate::clock::{Clock, SECOND_NS};
use crate::engine::{Collector, LoadOptions, Observer, Span};
use crate::recorder::Counts;
use crate::systems::Role;

/// Longest time to connect to an agent.
const CONNECTING_MAX: Duration = Duration::from_secs(5);

/// Longest time for all agents to connect to the system: a base, plus this much per connection.
const PREPARING_MAX: Duration = Duration::from_secs(60);
const PREPARING_EACH_MAX: Duration = Duration::from_secs(1);

/// Longest time for agents to clean up after the wait for answers.
const ENDING_MAX: Duration = Duration::from_secs(60);

/// Longest time for the last comparison of clocks.
const GOODBYE_MAX: Duration = Duration::from_secs(15);

/// Time between the order to start and the first due message.
const LEAD_NS: u64 = 3 * SECOND_NS / 10;

/// Most events in the queue. While it is full, the coordinator does not read from agents.
const EVENTS_MAX: usize = 1024;

/// How soon Ctrl-C is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Agents that are connected to the system and wait for the start. Dropping it releases them.
pub struct Coordinator {
    peers: Vec<Peer>,
    events: Receiver<(usize, Event)>,
    placement: Placement,
    options: LoadOptions,
    connections: u32,
    clock: Arc<dyn Clock>,
    stop: Arc<AtomicBool>,
}

impl Coordinator {
    /// Connects to all agents, and makes them connect to the system. `stop` ends this and the run.
    ///
    /// # Errors
    /// An agent cannot be reached, has a different key or version, is busy, or cannot reach the system.
    pub(crate) fn prepare(
        load: &RemoteLoad<'_>,
        clock: &Arc<dyn Clock>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, RemoteError> {
        let shares = load.shares()?;
        let (told, events) = mpsc::sync_channel(EVENTS_MAX);
        let mut peers = Vec::new();
        for (number, (address, share)) in load.agents.iter().zip(shares).enumerate() {
            let link = connect(address, CONNECTING_MAX)
                .and_then(|stream| with_agent(stream, load.key, &Version::own()))
                .map_err(|error| of_agent(address, &error.to_string()))?;
            peers.push(Peer {
                address: address.clone(),
                share,
                conversation: Conversation::start(number, link, clock, told.clone())?,
                clock: None,
                machine: None,
                counts: Counts::default(),
                ended: None,
                lost: None,
                report: None,
                said_goodbye: false,
            });
        }
        let mut coordinator = Self {
            peers,
            events,
            placement: load.placement,
            options: load.options.clone(),
            connections: load.target.connections,
            clock: Arc::clone(clock),
            stop: Arc::clone(stop),
        };
        coordinator.assign(&Assignment::new(load.target, load.options, load.waiting))?;
        Ok(coordinator)
    }

    /// Assigns the shares, subscribers first: messages published before they are ready would be lost.
    fn assign(&mut self, whole: &Assignment) -> Result<(), RemoteError> {
        let until = Instant::now() + PREPARING_MAX + PREPARING_EACH_MAX * self.connections;
        for listening in [true, false] {
            let chosen = self.numbers(|share| (share.role == Role::Subscriber) == listening);
            for number in &chosen {
                let assignment = whole.share(&self.peers[*number].share);
                self.say(*number, ToAgent::Prepare(Box::new(assignment)));
            }
            self.await_all(&chosen, until, |peer, event| {
                let Event::Said(ToCoordinator::Prepared { machine }) = event else { return false };
                peer.machine = Some(machine);
                true
            })?;
        }
        let listening = self.numbers(|share| share.role == Role::Subscriber);
        listening.iter().for_each(|number| self.say(*number, ToAgent::AwaitProbes));
        self.await_all(&listening, until, |_, event| matches!(event, Event::Said(ToCoordinator::ProbesCame)))
    }

    fn numbers(&self, is_chosen: impl Fn(&Share) -> bool) -> Vec<usize> {
        (0..self.peers.len()).filter(|number| is_chosen(&self.peers[*number].share)).collect()
    }

    fn say(&self, number: usize, order: ToAgent) {
        self.peers[number].conversation.command(Command::Say(order));
    }

    /// Waits until all of these agents have sent what `is_it` looks for. Any failure before the start is an
    /// error.
    fn await_all(
        &mut self,
        numbers: &[usize],
        until: Instant,
        mut is_it: impl FnMut(&mut Peer, Event) -> bool,
    ) -> Result<(), RemoteError> {
        let mut missing: Vec<usize> = numbers.to_vec();
        while let Some(first) = missing.first() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(RemoteError::Unsupported("interrupted before the start".to_owned()));
            }
            if Instant::now() > until {
                let reason = "it was not ready in time";
                return Err(of_agent(&self.peers[*first].address, reason));
            }
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok((number, Event::Lost(error, _))) => {
                    return Err(of_agent(&self.peers[number].address, &error.to_string()));
                }
                Ok((number, Event::Said(ToCoordinator::Failed { reason }))) => {
                    return Err(of_agent(&self.peers[number].address, &reason));
                }
                Ok((number, event)) => {
                    if is_it(&mut self.peers[number], event) {
                        missing.retain(|other| *other != number);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RemoteError::Unsupported("all agents are gone".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Runs the load. Measurements made before a failure are kept.
    ///
    /// # Errors
    /// An agent is lost before the start.
    pub fn run(mut self, observer: &mut dyn Observer) -> Result<RemoteOutcome, RemoteError> {
        let begin_ns = self.start()?;
        let span = Span::new(begin_ns, &self.options);
        let mut collector = Collector::new(self.peers.len(), self.options.interval_ns);
        let limit_ns = span.drained_ns.saturating_add(ENDING_MAX.as_nanos() as u64);
        let (mut told_to_stop, mut told_sent) = (false, false);
        while !self.peers.iter().all(Peer::is_done) {
            if self.stop.load(Ordering::Relaxed) && !std::mem::replace(&mut told_to_stop, true) {
                (0..self.peers.len()).for_each(|number| self.say(number, ToAgent::Stop));
            }
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok((number, event)) => self.note(number, event, &mut collector, observer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.lose_all("its conversation has ended", &mut collector)
                }
            }
            if self.clock.now_ns() > limit_ns {
                self.lose_all("it did not end in time", &mut collector);
            }
            let published = |peer: &Peer| !peer.share.role.publishes() || peer.is_done();
            if self.peers.iter().all(published) && !std::mem::replace(&mut told_sent, true) {
                self.tell_sent();
            }
        }
        collector.show(observer);
        let stopped_ns = self.stopped_ns();
        self.part(begin_ns);
        let Self { peers, placement, options, .. } = self;
        Ok(put_together(peers, placement, &options, collector.into_total(), span, stopped_ns))
    }

    /// Agrees on a start, on each agent's own clock. Returns it on this one.
    fn start(&mut self) -> Result<u64, RemoteError> {
        let all = self.numbers(|_| true);
        all.iter().for_each(|number| self.peers[*number].conversation.command(Command::Measure));
        self.await_all(&all, Instant::now() + PREPARING_MAX, |peer, event| {
            let Event::Clock(offset) = event else { return false };
            peer.clock = Some(offset);
            true
        })?;
        let begin_ns = self.clock.now_ns() + LEAD_NS.max(self.options.lead_ns);
        let begins_ns: Vec<u64> =
            all.iter().map(|number| begin_ns.saturating_add_signed(self.offset_ns(*number))).collect();
        for number in all {
            let start = Start {
                begin_ns: begins_ns[number],
                begins_ns: begins_ns.clone(),
                offsets_ns: self.offsets_from(number),
            };
            self.say(number, ToAgent::Start(start));
        }
        Ok(begin_ns)
    }

    fn offset_ns(&self, number: usize) -> i64 {
        self.peers[number].clock.map_or(0, |clock| clock.offset_ns)
    }

    /// The offsets of this agent's clock from each of the others.
    fn offsets_from(&self, number: usize) -> Vec<i64> {
        let own = self.offset_ns(number);
        (0..self.peers.len()).map(|other| own.saturating_sub(self.offset_ns(other))).collect()
    }

    fn note(&mut self, number: usize, event: Event, collector: &mut Collector, observer: &mut dyn Observer) {
        match event {
            Event::Said(ToCoordinator::Interval(interval)) => {
                // Ignores an agent that is no longer trusted.
                if self.peers[number].is_done() {
                    return;
                }
                match interval.recorder.recorder() {
                    Ok(recorder) if interval.index < self.intervals_max() => {
                        self.peers[number].counts.add(&recorder.counts);
                        collector.add(number, interval.index, &recorder, interval.in_flight);
                    }
                    Ok(_) => self.lose(number, "it reported an interval beyond the end", collector),
                    Err(error) => self.lose(number, &error.to_string(), collector),
                }
            }
            Event::Said(ToCoordinator::Final(ended)) => {
                if ended.counts == self.peers[number].counts {
                    self.peers[number].ended = Some(ended);
                    collector.end(number);
                } else {
                    self.lose(number, "what it counted is not the sum of what it reported", collector);
                }
            }
            Event::Said(ToCoordinator::Failed { reason }) => self.lose(number, &reason, collector),
            Event::Said(_) => {}
            Event::Clock(offset) => self.use_clock(number, offset),
            Event::Lost(error, report) => {
                self.peers[number].report = report;
                self.peers[number].said_goodbye = true;
                self.lose(number, &error.to_string(), collector);
            }
            Event::Ended(report) => {
                self.peers[number].report = report;
                self.peers[number].said_goodbye = true;
            }
        }
        collector.show(observer);
    }

    fn intervals_max(&self) -> u64 {
        let options = &self.options;
        let whole = options.warm_up_ns.saturating_add(options.duration_ns).saturating_add(options.drain_ns);
        whole.saturating_add(ENDING_MAX.as_nanos() as u64) / options.interval_ns + 2
    }

    fn use_clock(&mut self, number: usize, offset: Offset) {
        self.peers[number].clock = Some(offset);
        for listening in self.numbers(|share| share.role == Role::Subscriber) {
            self.say(listening, ToAgent::Offsets(self.offsets_from(listening)));
        }
    }

    fn lose(&mut self, number: usize, reason: &str, collector: &mut Collector) {
        let peer = &mut self.peers[number];
        if !peer.is_done() {
            peer.lost = Some(reason.to_owned());
            collector.end(number);
        }
    }

    fn lose_all(&mut self, reason: &str, collector: &mut Collector) {
        (0..self.peers.len()).for_each(|number| self.lose(number, reason, collector));
    }

    /// Tells subscribers how many messages to expect. That number is unknown for agents that were lost.
    fn tell_sent(&self) {
        let ended = self.peers.iter().filter_map(|peer| peer.ended.as_ref());
        let sent: BTreeMap<u32, u64> = ended.flat_map(|ended| ended.sent.clone()).collect();
        for number in self.numbers(|share| share.role == Role::Subscriber) {
            self.say(number, ToAgent::Sent(sent.clone()));
        }
    }

    /// When the last agent ended, on this clock.
    fn stopped_ns(&self) -> u64 {
        let ended = |(number, peer): (usize, &Peer)| {
            let stopped_ns = peer.ended.as_ref()?.stopped_ns;
            Some(stopped_ns.saturating_sub_signed(self.offset_ns(number)))
        };
        self.peers.iter().enumerate().filter_map(ended).max().unwrap_or_else(|| self.clock.now_ns())
    }

    /// Compares clocks a last time, and releases all agents.
    fn part(&mut self, begin_ns: u64) {
        for peer in &self.peers {
            peer.conversation.command(Command::End { begin_ns });
        }
        let until = Instant::now() + GOODBYE_MAX;
        let waits = |peer: &Peer| !peer.said_goodbye && peer.lost.is_none();
        while self.peers.iter().any(waits) && Instant::now() < until {
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok((number, Event::Ended(report) | Event::Lost(_, report))) => {
                    self.peers[number].report = report;
                    self.peers[number].said_goodbye = true;
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
}

fn of_agent(address: &str, reason: &str) -> RemoteError {
    RemoteError::Agent { agent: address.to_owned(), reason: reason.to_owned() }
}
