//! Tasks, and work that may block.
//!
//! The content of each task lies in a piece of memory of its own. tokio aligns its own piece to a cache line or two, and what
//! glibc before 2.38 frees of aligned pieces leaves holes into which no further one fits (its bug 14581). Small ones cost
//! little. A server whose requests held 35 MiB took 220 MiB without this.

mod catch;
mod handle;
mod join_error;
mod next_turn;
mod set;

use std::sync::Arc;

use crate::world::{Spawn, current};

pub use handle::JoinHandle;
pub use join_error::JoinError;
pub use next_turn::NextTurn;
pub use set::JoinSet;

/// Runs `work` as a task among those around the caller.
///
/// # Panics
/// Outside of a task, or if there is no world.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    handle::spawn(|task| current().spawn(task), work)
}

/// Runs what may block, on a thread for it.
///
/// # Panics
/// Outside of a task, or if there is no world.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    handle::spawn_blocking(|work| current().spawn_blocking(work), work)
}

/// Lets the other tasks that are ready have their turn.
///
/// # Panics
/// If there is no world.
pub async fn yield_now() {
    current().yield_now().await;
}

/// The tasks around somebody, for threads that start some.
#[derive(Clone)]
pub struct Spawner(Arc<dyn Spawn>);

impl Spawner {
    /// Those around the caller.
    ///
    /// # Panics
    /// Outside of a task, or if there is no world.
    pub fn current() -> Self {
        Self::try_current().expect("no tasks here: a thread takes a Spawner along")
    }

    /// Those around the caller; `None` outside of all.
    ///
    /// # Panics
    /// If there is no world.
    pub fn try_current() -> Option<Self> {
        current().spawner().map(Self)
    }

    /// Starts more threads on which tasks run: `loops`, and up to `blocking` for what may block. They and their tasks end when this
    /// and its clones are dropped; nobody waits for that.
    ///
    /// # Errors
    /// The operating system's, if it gives no threads.
    ///
    /// # Panics
    /// If there is no world.
    pub(crate) fn start(name: &str, loops: usize, blocking: usize) -> std::io::Result<Self> {
        current().start_loops(name, loops, blocking).map(Self)
    }

    /// As [`spawn`].
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        handle::spawn(|task| self.0.spawn(task), work)
    }

    /// As [`spawn_blocking`].
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        handle::spawn_blocking(|work| self.0.spawn_blocking(work), work)
    }
}

impl std::fmt::Debug for Spawner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spawner")
    }
}

/// Ends when the owner of `receiver` is stopping, also if that was before somebody subscribed.
pub async fn stopped(receiver: &mut tokio::sync::watch::Receiver<bool>) {
    // An error means that the owner is gone.
    let _ = receiver.wait_for(|stopping| *stopping).await;
}
