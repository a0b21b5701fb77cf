//! Tasks, and work that may block.
//!
//! The future of each task is boxed separately. tokio aligns its task cell to one or two cache lines. When
//! such aligned blocks are freed, glibc before 2.38 leaves holes that no later block fits into (glibc bug
//! 14581). Small cells cost little. Without the boxing, a server whose requests held 35 MiB took 220 MiB.

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

/// Runs `work` as a task next to the caller's task.
///
/// # Panics
/// Outside of a task, or if there is no world.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    handle::spawn(|task| current().spawn(task), work)
}

/// Runs `work`, which may block, on a thread for blocking work.
///
/// # Panics
/// Outside of a task, or if there is no world.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    handle::spawn_blocking(|work| current().spawn_blocking(work), work)
}

/// Yields to the other tasks that are ready.
///
/// # Panics
/// If there is no world.
pub async fn yield_now() {
    current().yield_now().await;
}

/// A handle that spawns tasks from threads without a task context.
#[derive(Clone)]
pub struct Spawner(Arc<dyn Spawn>);

impl Spawner {
    /// Returns the spawner of the calling task.
    ///
    /// # Panics
    /// Outside of a task, or if there is no world.
    pub fn current() -> Self {
        Self::try_current().expect("no tasks here: a thread needs a Spawner")
    }

    /// Returns the spawner of the calling task. `None` outside of a task.
    ///
    /// # Panics
    /// If there is no world.
    pub fn try_current() -> Option<Self> {
        current().spawner().map(Self)
    }

    /// Starts more threads that run tasks: `loops` of them, and up to `blocking` for work that may block.
    /// They and their tasks end when this spawner and its clones are dropped. The drop does not wait for
    /// that.
    ///
    /// # Errors
    /// The operating system's error if it cannot start the threads.
    ///
    /// # Panics
    /// If there is no world.
    pub fn start(name: &str, loops: usize, blocking: usize) -> std::io::Result<Self> {
        current().start_loops(name, loops, blocking).map(Self)
    }

    /// Like [`spawn`], from any thread.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        handle::spawn(|task| self.0.spawn(task), work)
    }

    /// Like [`spawn_blocking`], from any thread.
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

/// Waits until the owner of `receiver` is stopping. Returns at once if it already is.
pub async fn stopped(receiver: &mut tokio::sync::watch::Receiver<bool>) {
    // An error means that the owner is gone.
    let _ = receiver.wait_for(|stopping| *stopping).await;
}
