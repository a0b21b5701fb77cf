//! The scrubber: a thread that reads everything on the disk, at a bounded rate, to find damage before the
//! data are needed.
//!
//! It takes no lock of a partition while it reads. Damaged indexes and small files are rebuilt. A damaged
//! batch is out of service from then on. If the partition has several replicas, this one repairs it. `due`:
//! when rounds start. `rounds`: what they read. `repair`: what happens to known damage.

mod due;
mod pace;
mod repair;
mod rounds;

use std::sync::Arc;
use tailrace_env::thread::{Bell, Thread};
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

/// Maximum interval between two checks for something to do.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Damage of a round that is kept for status requests.
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

/// Progress of the current round, or the result of the last one.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Progress {
    /// A round is running.
    pub(crate) running: bool,
    /// The request for the round: the value of `tailrace.scrub.request`. Empty for a scheduled round.
    pub(crate) request: String,
    /// Rounds completed since the start.
    pub(crate) rounds: u64,
    pub(crate) partitions: usize,
    pub(crate) partitions_done: usize,
    /// Bytes of segments.
    pub(crate) bytes: u64,
    pub(crate) bytes_done: u64,
    /// Its rate limit. 0: as fast as the disk allows.
    pub(crate) bytes_per_second: u64,
    /// Time since it started, or its duration once it has ended.
    pub(crate) elapsed_ms: u64,
    /// It has ended, and everything was read.
    pub(crate) complete: bool,
    /// Damage found in this round, at most [`FOUND_MAX`].
    pub(crate) found: Vec<DamageFound>,
    /// Total damage found, including what exceeds that limit.
    pub(crate) found_total: usize,
    /// Partitions that were not read, or not to the end. At most [`FOUND_MAX`].
    pub(crate) not_read: Vec<NotRead>,
    #[serde(skip)]
    began: Option<Instant>,
}

/// A partition that a round could not read.
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
    /// Ends the threads, after at most one more read. Blocks.
    pub(crate) fn stop(&self) {
        self.shared.stop.ring();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the scrubber panicked");
            }
        }
    }

    /// Returns the progress.
    pub(crate) fn progress(&self) -> Progress {
        let mut progress = self.shared.state.lock().progress.clone();
        if progress.running {
            progress.elapsed_ms = progress.elapsed_until_now();
        }
        progress
    }
}
