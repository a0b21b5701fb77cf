//! Threads for what keeps a processor busy and waits for nothing, as expanding a batch.
//!
//! They are not those that may block on a disk: there such work would stand behind whoever reads what is cold.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::task::Spawner;
use crate::world::current;

/// What was done on a worker panicked. Its place and its reason are on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a worker panicked")]
pub struct Panicked;

/// As many threads as half of the processors, so that the others are left to the event loops.
#[derive(Debug)]
pub struct Workers {
    /// They end with it.
    threads: Spawner,
    /// One for each thread: nothing waits in the queue of the threads, where it could not be taken back.
    places: Arc<Semaphore>,
}

impl Workers {
    /// Starts them.
    ///
    /// # Errors
    /// The operating system's, if it gives no threads.
    ///
    /// # Panics
    /// If there is no world.
    pub fn start() -> std::io::Result<Self> {
        let places = (current().processors() / 2).max(1);
        let threads = Spawner::start("worker", 1, places)?;
        Ok(Self { threads, places: Arc::new(Semaphore::new(places)) })
    }

    /// Does `work` that cannot be cut, in the order in which it was asked for. Once it has begun it goes on to its end.
    ///
    /// # Errors
    /// It panicked.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        // It is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| Panicked)?;
        // It is kept to the end of the work, also if nobody waits for it any more.
        let work = move || (work(), place).0;
        self.threads.spawn_blocking(work).await.map_err(|_| Panicked)
    }
}
