//! Signals to the server under test at given times: stop it, let it go on, end it, kill it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

/// How exactly times are kept.
const LOOK: Duration = Duration::from_millis(1);

/// What can be sent.
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
}

/// A signal and when it is due, counted from the beginning of the load, warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedSignal {
    pub(super) at: Duration,
    pub(super) signal: ServerSignal,
}

/// A thread that sends signals until it is stopped.
#[derive(Debug)]
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Signals {
    /// Sends these, in order of time, to the process group of this server. Its time begins now.
    pub(super) fn start(server: u32, mut planned: Vec<PlannedSignal>) -> Self {
        planned.sort_by_key(|planned| planned.at);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let body = move || send(server, &planned, &flag);
        Self { stop, thread: thread::Builder::new().name("signals".to_owned()).spawn(body).ok() }
    }

    /// Ends it; says what was sent, and when.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        let lost = || vec!["no signal could be sent: no thread was to be had".to_owned()];
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_else(lost)
    }
}

fn send(server: u32, planned: &[PlannedSignal], stop: &AtomicBool) -> Vec<String> {
    let begun = Instant::now();
    let mut sent = Vec::new();
    for PlannedSignal { at, signal } in planned {
        while begun.elapsed() < *at {
            if stop.load(Ordering::Relaxed) {
                sent.push(format!("{} not sent: the run ended before", signal.name()));
                return sent;
            }
            thread::sleep(LOOK.min(at.saturating_sub(begun.elapsed())));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let group = i32::try_from(server).ok().and_then(Pid::from_raw);
        let failure = group.map_or(Some("no process".to_owned()), |group| {
            kill_process_group(group, signal.number()).err().map(|error| error.to_string())
        });
        let outcome = failure.map_or_else(String::new, |failure| format!(" failed: {failure}"));
        sent.push(format!("{} to the server at {seconds:.3} s{outcome}", signal.name()));
    }
    sent
}
