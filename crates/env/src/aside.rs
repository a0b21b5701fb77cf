//! What may take longer than a turn of an event loop: it is cut into turns ([`Turn`]), or done on threads of its own ([`Aside`]).
//!
//! An event loop that decides one request keeps all its other connections waiting. What every client asks all the time is bounded by
//! itself; what names many things, or is answered with much, goes here, whole: decoding, deciding, encoding. The operating system
//! shares the processors between these threads and the event loops.
//!
//! What such requests take in memory beyond their frames, decoded and as answers that were not read yet, is charged to one budget. A
//! request whose turn it is waits until there is room. Who does not read answers while others wait for room is closed.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use crate::budget::{RequestBudget, Reservation};
use crate::task::{self, JoinHandle, Spawner};
use crate::time::{Duration, Instant};
use crate::world::current;

/// A turn of an event loop takes no longer, but for one item.
pub const TURN: Duration = Duration::from_millis(1);

/// Lets others have their turn where a request has many items.
#[derive(Debug)]
pub struct Turn(Instant);

impl Turn {
    /// One that begins now.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// To be called before each item.
    pub async fn rest(&mut self) {
        if self.0.elapsed() >= TURN {
            task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}

/// What requests that are decided aside may take beside their frames.
pub(crate) const ROOM_BYTES: usize = 64 << 20;

/// Threads that there are at least.
const THREADS_MIN: usize = 4;

/// Threads of their own, and memory.
pub struct Aside {
    /// They end with it.
    loops: Spawner,
    room: Arc<RequestBudget>,
}

impl Aside {
    /// Two threads for each processor, so that a request that takes long does not keep the others waiting, and `blocking` for what may block. `memory` shows the bytes that requests take here.
    ///
    /// # Errors
    /// The operating system's, if it gives no threads.
    pub fn start(blocking: usize, memory: Gauge) -> std::io::Result<Self> {
        let processors = current().processors();
        let loops = Spawner::start("aside", (2 * processors).max(THREADS_MIN), blocking)?;
        let room = RequestBudget::new(ROOM_BYTES, memory);
        Ok(Self { loops, room })
    }

    /// Runs `work` there. It ends when this is dropped.
    ///
    /// # Panics
    /// If `work` does.
    pub async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let mut running = Running(self.loops.spawn(work));
        match (&mut running.0).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only whoever drops it cancels it, or the end of the server, where nobody is answered any more.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Waits until there is room.
    pub async fn reserve(&self, bytes: usize) -> Reservation {
        self.room.reserve(bytes).await
    }

    /// Takes room without waiting.
    pub fn take(&self, bytes: usize) -> Reservation {
        self.room.take(bytes)
    }

    /// Bytes of it that are taken.
    pub fn used(&self) -> usize {
        self.room.used()
    }

    /// The most that were taken since this was asked last.
    pub fn take_most(&self) -> usize {
        self.room.take_most()
    }

    /// True if somebody waits for room.
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
