//! The coordinator's end of the connection to one agent: a thread that sends orders, passes on the agent's
//! messages, and compares clocks.

use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::RemoteError;
use super::link::Link;
use super::messages::{ToAgent, ToCoordinator, decode, encode};
use super::offset::{Estimator, Offset, Probe};
use super::report::ClockReport;
use crate::clock::Clock;

/// Time between comparisons of clocks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Probes per comparison while the load runs.
const PROBES: u64 = 4;

/// Probes per comparison before and after the load.
const PROBES_AROUND: u64 = 16;

/// Longest time for an agent to answer a probe.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Longest time before an order is sent.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// An order to the thread.
pub(super) enum Command {
    Say(ToAgent),
    /// Compare clocks thoroughly, and again every second. Each estimate is used until the next one.
    Measure,
    /// The run is over: compare clocks a last time, say goodbye, and end.
    End {
        begin_ns: u64,
    },
}

/// A report of the thread.
pub(super) enum Event {
    Said(ToCoordinator),
    /// The new estimate of the offset of the agent's clock.
    Clock(Offset),
    /// The agent is gone. No event follows.
    Lost(RemoteError, Option<ClockReport>),
    /// The agent said goodbye. No event follows.
    Ended(Option<ClockReport>),
}

/// A handle to the thread.
pub(super) struct Conversation {
    commands: Sender<Command>,
    _thread: JoinHandle<()>,
}

impl Conversation {
    /// Starts the thread. Its events carry this number.
    pub(super) fn start(
        number: usize,
        link: Link,
        clock: &Arc<dyn Clock>,
        events: SyncSender<(usize, Event)>,
    ) -> Result<Self, RemoteError> {
        let (commands, heard) = mpsc::channel();
        let begun_ns = clock.now_ns();
        let mut talk = Talk {
            link,
            clock: Arc::clone(clock),
            number,
            events,
            known: Estimator::default(),
            next_probe: 0,
            used: Vec::new(),
            begun_ns,
            deviation_ns: 0,
        };
        let body = move || {
            let ended = talk.converse(&heard);
            talk.link.close();
            let event = match ended {
                Ok(begin_ns) => Event::Ended(talk.report(begin_ns)),
                Err(error) => Event::Lost(error, talk.report(None)),
            };
            talk.tell(event);
        };
        let thread = thread::Builder::new().name(format!("agent-{number}")).spawn(body)?;
        Ok(Self { commands, _thread: thread })
    }

    /// Sends an order. A thread that has ended has reported that already.
    pub(super) fn command(&self, command: Command) {
        drop(self.commands.send(command));
    }
}

/// An offset in use, and since when.
#[derive(Clone, Copy)]
struct Used {
    offset_ns: i64,
    since_ns: u64,
}

struct Talk {
    link: Link,
    clock: Arc<dyn Clock>,
    number: usize,
    events: SyncSender<(usize, Event)>,
    known: Estimator,
    next_probe: u64,
    /// The offset in use, and the one before it, which may be in use until the agent has received the new
    /// one.
    used: Vec<Used>,
    begun_ns: u64,
    deviation_ns: u64,
}

impl Talk {
    /// Goes on until the run is over. Returns when the run started.
    fn converse(&mut self, commands: &Receiver<Command>) -> Result<Option<u64>, RemoteError> {
        self.compare(PROBES_AROUND)?;
        let mut next = Instant::now() + INTERVAL;
        loop {
            loop {
                match commands.try_recv() {
                    Ok(Command::Say(order)) => self.say(&order)?,
                    Ok(Command::Measure) => {
                        self.compare(PROBES_AROUND)?;
                        self.use_estimate();
                    }
                    Ok(Command::End { begin_ns }) => {
                        self.compare(PROBES_AROUND)?;
                        self.say(&ToAgent::Goodbye)?;
                        return Ok(Some(begin_ns));
                    }
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => {
                        self.say(&ToAgent::Goodbye)?;
                        return Ok(None);
                    }
                }
            }
            if Instant::now() >= next {
                self.compare(PROBES)?;
                if !self.used.is_empty() {
                    self.use_estimate();
                }
                next = Instant::now() + INTERVAL;
            }
            if let Some(frame) = self.link.receive(next.min(Instant::now() + POLL_INTERVAL))? {
                self.pass_on(&frame)?;
            }
        }
    }

    fn say(&mut self, order: &ToAgent) -> Result<(), RemoteError> {
        self.link.send(&encode(order)?)
    }

    fn tell(&self, event: Event) {
        // The receiver is gone only if the run was abandoned.
        let _ = self.events.send((self.number, event));
    }

    fn pass_on(&mut self, frame: &[u8]) -> Result<(), RemoteError> {
        match decode(frame)? {
            // An answer that came too late: its probe has timed out.
            ToCoordinator::Probed { .. } => {}
            said => self.tell(Event::Said(said)),
        }
        Ok(())
    }

    /// Sends probes one after the other, and records how wrong the offset in use may have been since the last
    /// comparison.
    fn compare(&mut self, probes: u64) -> Result<(), RemoteError> {
        let mut burst = Vec::new();
        for _ in 0..probes {
            burst.push(self.probe()?);
        }
        let (before, now) = (self.known.clone(), self.clock.now_ns());
        self.known.add(&burst);
        let stepped = before.steps() < self.known.steps();
        for used in &self.used {
            let of =
                |known: &Estimator, from_ns| known.deviation_ns(used.offset_ns, from_ns, now).unwrap_or(0);
            let deviation = if stepped {
                of(&before, used.since_ns).max(of(&self.known, now))
            } else {
                of(&self.known, used.since_ns)
            };
            self.deviation_ns = self.deviation_ns.max(deviation);
        }
        Ok(())
    }

    fn use_estimate(&mut self) {
        let now = self.clock.now_ns();
        let Some(found) = self.known.at(now) else { return };
        self.used.insert(0, Used { offset_ns: found.offset_ns, since_ns: now });
        self.used.truncate(2);
        self.tell(Event::Clock(found));
    }

    fn probe(&mut self) -> Result<Probe, RemoteError> {
        self.next_probe += 1;
        let wanted = self.next_probe;
        let question = encode(&ToAgent::Probe { number: wanted })?;
        let until = Instant::now() + SILENCE_MAX;
        let sent_ns = self.clock.now_ns();
        self.link.send(&question)?;
        loop {
            let silent = RemoteError::Silent { seconds: SILENCE_MAX.as_secs() };
            let frame = self.link.receive(until)?.ok_or(silent)?;
            let returned_ns = self.clock.now_ns();
            match decode(&frame)? {
                ToCoordinator::Probed { number, received_ns, answered_ns } => {
                    if number == wanted {
                        return Ok(Probe { sent_ns, received_ns, answered_ns, returned_ns });
                    }
                }
                said => self.tell(Event::Said(said)),
            }
        }
    }

    /// What is known of the clock, over the run or since the connection was made.
    fn report(&self, begin_ns: Option<u64>) -> Option<ClockReport> {
        let begin_ns = begin_ns.unwrap_or(self.begun_ns);
        ClockReport::new(&self.known, begin_ns, self.clock.now_ns(), self.deviation_ns)
    }
}

/// Connects to `HOST:PORT`.
pub(super) fn connect(address: &str, patience: Duration) -> Result<TcpStream, RemoteError> {
    use std::net::ToSocketAddrs as _;
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&candidate, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last.into())
}
