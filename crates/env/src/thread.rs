//! Threads for work that lasts and may block.

use std::any::Any;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::time::Duration;
use crate::world::{Join, current};

/// A thread. It goes on when this is dropped.
pub struct Thread {
    name: String,
    running: Box<dyn Join>,
}

/// Starts a thread. `name` is shown by the system's tools, which cut it after 15 bytes.
///
/// # Errors
/// The operating system's, if it gives no thread.
///
/// # Panics
/// If there is no world.
pub fn spawn(name: impl Into<String>, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let name = name.into();
    let running = current().spawn_thread(name.clone(), Box::new(work))?;
    Ok(Thread { name, running })
}

/// Runs `work` on so many threads at once, and waits for all of them. Blocks.
///
/// # Panics
/// If `work` does, or if there is no world.
pub fn run_on(threads: usize, work: impl Fn() + Sync) {
    current().on_threads(threads, &work);
}

/// How many threads can run at once.
///
/// # Panics
/// If there is no world.
pub fn processors() -> usize {
    current().processors()
}

impl Thread {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True once it has ended.
    pub fn is_finished(&self) -> bool {
        self.running.is_finished()
    }

    /// Waits for its end. Blocks.
    ///
    /// # Errors
    /// What it panicked with.
    pub fn join(self) -> Result<(), Box<dyn Any + Send>> {
        self.running.join()
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What ends the pauses of threads, once and for all.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<bool>,
    wake: Condvar,
}

impl Bell {
    /// Ends the pauses, and all later ones at once.
    pub fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }

    /// True once it has rung.
    pub fn has_rung(&self) -> bool {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks for so long, or until it rings. True if it has rung.
    pub fn pause(&self, duration: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_timeout_while(rung, duration, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
