//! Work that may take longer than one turn of an event loop. It is either cut into turns ([`Turn`]) or run on
//! separate threads ([`Aside`]).
//!
//! While an event loop decides one request, all its other connections wait. Frequent requests are bounded by
//! their nature. Requests that name many things, or that have large answers, run here from start to end:
//! decoding, deciding, encoding. The operating system shares the processors between these threads and the
//! event loops.
//!
//! One budget is charged for the memory that such requests take beyond their frames: the decoded requests,
//! and answers that the client has not read yet. The next request in the queue waits until there is room. A
//! connection that does not read its answers while others wait for room is closed.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use crate::budget::{RequestBudget, Reservation};
use crate::task::{self, JoinHandle, Spawner};
use crate::time::{Duration, Instant};
use crate::world::current;

/// The longest turn of an event loop. A turn may exceed it by one item.
pub const TURN: Duration = Duration::from_millis(1);

/// Yields to other tasks during a request that has many items.
#[derive(Debug)]
pub struct Turn(Instant);

impl Turn {
    /// Starts a turn now.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Yields if the turn is over. Call it before each item.
    pub async fn rest(&mut self) {
        if self.0.elapsed() >= TURN {
            task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}

/// The memory budget of requests that run aside, beyond their frames.
pub(crate) const ROOM_BYTES: usize = 64 << 20;

/// The least number of threads.
const THREADS_MIN: usize = 4;

/// Separate threads for long requests, with a memory budget.
pub struct Aside {
    /// The threads end when this is dropped.
    loops: Spawner,
    room: Arc<RequestBudget>,
}

impl Aside {
    /// Starts two threads per processor, so that one long request does not keep the others waiting, and up to
    /// `blocking` threads for work that may block. `memory` shows the bytes that requests take here.
    ///
    /// # Errors
    /// The operating system's error if it cannot start the threads.
    pub fn start(blocking: usize, memory: Gauge) -> std::io::Result<Self> {
        let processors = current().processors();
        let loops = Spawner::start("aside", (2 * processors).max(THREADS_MIN), blocking)?;
        let room = RequestBudget::new(ROOM_BYTES, memory);
        Ok(Self { loops, room })
    }

    /// Runs `work` on these threads. Dropping `self` ends it.
    ///
    /// # Panics
    /// If `work` panics.
    pub async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let mut running = Running(self.loops.spawn(work));
        match (&mut running.0).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The work was cancelled: either the caller dropped it, or the server is ending and no one is
                // answered.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Reserves `bytes`. Waits until there is room.
    pub async fn reserve(&self, bytes: usize) -> Reservation {
        self.room.reserve(bytes).await
    }

    /// Reserves `bytes` without waiting, even beyond the budget.
    pub fn take(&self, bytes: usize) -> Reservation {
        self.room.take(bytes)
    }

    /// Bytes reserved now.
    pub fn used(&self) -> usize {
        self.room.used()
    }

    /// Returns the largest number of bytes reserved since the previous call.
    pub fn take_most(&self) -> usize {
        self.room.take_most()
    }

    /// True if a request waits for room.
    pub fn is_short_of_room(&self) -> bool {
        self.room.has_line()
    }
}

struct Running<T>(JoinHandle<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
