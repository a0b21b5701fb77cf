//! What a plan does to the server under test at given times: suspend, resume, terminate, kill, or restart it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Deserialize;

use super::server::Server;

/// Precision of the times.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A signal that a plan can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum ServerSignal {
    #[serde(rename = "SIGSTOP")]
    Stop,
    #[serde(rename = "SIGCONT")]
    Continue,
    #[serde(rename = "SIGTERM")]
    Terminate,
    #[serde(rename = "SIGKILL")]
    Kill,
}

impl ServerSignal {
    fn name(self) -> &'static str {
        match self {
            Self::Stop => "SIGSTOP",
            Self::Continue => "SIGCONT",
            Self::Terminate => "SIGTERM",
            Self::Kill => "SIGKILL",
        }
    }

    fn number(self) -> Signal {
        match self {
            Self::Stop => Signal::STOP,
            Self::Continue => Signal::CONT,
            Self::Terminate => Signal::TERM,
            Self::Kill => Signal::KILL,
        }
    }

    /// Reports whether the server ends after it.
    pub(super) fn ends(self) -> bool {
        matches!(self, Self::Terminate | Self::Kill)
    }
}

/// An action on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Signal(ServerSignal),
    /// Starts it again, after it was ended.
    Start,
}

/// An action and its time, counted from the start of the load, warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedDeed {
    pub(super) at: Duration,
    pub(super) deed: Deed,
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// What was done and when, or why not.
    pub(super) told: String,
    /// Whether it was done.
    pub(super) made: bool,
}

impl Done {
    fn made(told: String) -> Self {
        Self { told, made: true }
    }

    fn not_made(told: String) -> Self {
        Self { told, made: false }
    }
}

/// A thread that carries out the planned actions until it is stopped.
#[derive(Debug)]
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Done>>>,
}

impl Signals {
    /// Carries out the actions in order of time. Time starts `lead` from now.
    pub(super) fn start(server: Arc<Server>, mut planned: Vec<PlannedDeed>, lead: Duration) -> Self {
        planned.sort_by_key(|planned| planned.at);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let begun = Instant::now() + lead;
        let body = move || work(&server, &planned, begun, &flag);
        Self { stop, thread: thread::Builder::new().name("signals".to_owned()).spawn(body).ok() }
    }

    /// Ends the thread. Returns what was done, and when.
    pub(super) fn finish(mut self) -> Vec<Done> {
        self.stop.store(true, Ordering::Relaxed);
        let lost = || vec![Done::not_made("no signal could be sent: cannot start a thread".to_owned())];
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_else(lost)
    }
}

fn work(server: &Server, planned: &[PlannedDeed], begun: Instant, stop: &AtomicBool) -> Vec<Done> {
    planned
        .iter()
        .map(|PlannedDeed { at, deed }| {
            while begun.elapsed() < *at && !stop.load(Ordering::Relaxed) {
                thread::sleep(POLL_INTERVAL);
            }
            if begun.elapsed() < *at {
                return Done::not_made(match deed {
                    Deed::Signal(signal) => format!("{} not sent: the run ended before", signal.name()),
                    Deed::Start => "server not started again: the run ended before".to_owned(),
                });
            }
            match deed {
                Deed::Signal(signal) => send(server, *signal, begun),
                Deed::Start => start(server, begun, stop),
            }
        })
        .collect()
}

fn send(server: &Server, signal: ServerSignal, begun: Instant) -> Done {
    let told = format!("{} to the server at {:.3} s", signal.name(), begun.elapsed().as_secs_f64());
    match server.signal(signal.number()) {
        Ok(()) => Done::made(told),
        Err(error) => Done::not_made(format!("{told} failed: {error}")),
    }
}

fn start(server: &Server, begun: Instant, stop: &AtomicBool) -> Done {
    let told = format!("server started again at {:.3} s", begun.elapsed().as_secs_f64());
    match server.start_again(stop) {
        Ok(()) => Done::made(format!("{told}, ready at {:.3} s", begun.elapsed().as_secs_f64())),
        Err(error) => Done::not_made(format!("{told}, but it was not ready: {error}")),
    }
}
