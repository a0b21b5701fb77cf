//! The scrubber: a thread that reads everything that lies on the disk, at a bounded rate, to find what is not as it was written before it
//! is needed.
//!
//! It takes no lock of a partition while it reads. An index that is damaged is built again, and so are small files; a damaged batch
//! is out of service from then on, and mended by its replica, if it is one of several. `due`: when rounds begin. `rounds`: what they
//! read. `repair`: what becomes of damage that is known.

mod due;
mod pace;
mod repair;
mod rounds;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tailrace_env::thread::{Bell, Thread};
use tailrace_env::time::{Duration, Instant};

use serde::Serialize;

/// How often the thread looks whether there is something to do, at least.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Damages of a round that are remembered for those who ask.
const FOUND_MAX: usize = 100;

/// The scrubber of one server.
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    shared: Arc<Shared>,
    threads: Mutex<Vec<Thread>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<ScrubberState>,
    stop: Bell,
}

#[derive(Debug, Default)]
struct ScrubberState {
    progress: Progress,
}

/// How far the present round is, or how the last one ended.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Progress {
    /// A round is under way.
    pub(crate) running: bool,
    /// What asked for it: the value of `tailrace.scrub.request`; empty if it was time.
    pub(crate) request: String,
    /// Rounds that have ended since the start.
    pub(crate) rounds: u64,
    pub(crate) partitions: usize,
    pub(crate) partitions_done: usize,
    /// Bytes of segments.
    pub(crate) bytes: u64,
    pub(crate) bytes_done: u64,
    /// What it may read; 0: as much as the disk gives.
    pub(crate) bytes_per_second: u64,
    /// Since it began; how long it took, once it has ended.
    pub(crate) elapsed_ms: u64,
    /// It has ended, and everything was read.
    pub(crate) complete: bool,
    /// What was found in this round, at most [`FOUND_MAX`].
    pub(crate) found: Vec<DamageFound>,
    /// How much was found, also beyond that.
    pub(crate) found_total: usize,
    /// Partitions that could not be read, or not to their end; at most [`FOUND_MAX`].
    pub(crate) not_read: Vec<NotRead>,
    #[serde(skip)]
    began: Option<Instant>,
}

/// A partition that a round knows nothing of.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NotRead {
    pub(crate) partition: String,
    pub(crate) reason: String,
}

impl Progress {
    fn elapsed_until_now(&self) -> u64 {
        self.began.map_or(0, |began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// Damage that was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DamageFound {
    pub(crate) partition: String,
    pub(crate) file: String,
    pub(crate) position: u64,
    pub(crate) reason: String,
}

impl Scrubber {
    /// Ends the threads, after one more read at most. Blocks.
    pub(crate) fn stop(&self) {
        self.shared.stop.ring();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the scrubber panicked");
            }
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        let mut progress = self.shared.lock().progress.clone();
        if progress.running {
            progress.elapsed_ms = progress.elapsed_until_now();
        }
        progress
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ScrubberState> {
        // Every critical section leaves the state consistent even if it were to panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
