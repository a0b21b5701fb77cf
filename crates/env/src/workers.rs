//! Threads for work that keeps a processor busy and never waits, such as decompressing a batch.
//!
//! They are separate from the threads that may block on a disk, because there such work would queue behind
//! cold reads.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::task::Spawner;
use crate::world::current;

/// The error of work that panicked. The location and the message of the panic are on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a worker panicked")]
pub struct Panicked;

/// A pool with half as many threads as processors. The event loops get the rest.
#[derive(Debug)]
pub struct Workers {
    /// The threads end when this is dropped.
    threads: Spawner,
    /// One permit per thread. Without it, work would wait in the threads' own queue, where it cannot be
    /// cancelled.
    places: Arc<Semaphore>,
}

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The operating system's error if it cannot start the threads.
    ///
    /// # Panics
    /// If there is no world.
    pub fn start() -> std::io::Result<Self> {
        let places = (current().processors() / 2).max(1);
        let threads = Spawner::start("worker", 1, places)?;
        Ok(Self { threads, places: Arc::new(Semaphore::new(places)) })
    }

    /// Runs `work` to its end without interruption. Work starts in the order of the calls.
    ///
    /// # Errors
    /// The work panicked.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        // The semaphore is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| Panicked)?;
        // The permit is held until the work ends, even if the caller no longer waits.
        let work = move || (work(), place).0;
        self.threads.spawn_blocking(work).await.map_err(|_| Panicked)
    }
}
