//! Threads for work that lasts and may block.

use std::any::Any;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::time::{Duration, Instant};
use crate::world::{Join, Park, current};

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

/// Waits for what a task would await. Blocks.
///
/// # Panics
/// If there is no world, or if the caller may not block there.
pub fn wait_for<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let place = current().parking();
    let waker = Waker::from(Arc::new(Unpark(Arc::clone(&place))));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => place.park(None),
        }
    }
}

struct Unpark(Arc<dyn Park>);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
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
pub struct Bell(Mutex<BellState>);

#[derive(Debug, Default)]
struct BellState {
    rung: bool,
    waiting: Waiting,
}

impl Bell {
    /// Ends the pauses, and all later ones at once.
    pub fn ring(&self) {
        let mut state = self.lock();
        state.rung = true;
        state.waiting.wake_all();
    }

    /// True once it has rung.
    pub fn has_rung(&self) -> bool {
        self.lock().rung
    }

    /// Blocks for so long, or until it rings. True if it has rung.
    ///
    /// # Panics
    /// If there is no world.
    pub fn pause(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        let mut state = self.lock();
        while !state.rung && Instant::now() < end {
            let place = state.waiting.add();
            drop(state);
            place.park(Some(end.age()));
            state = self.lock();
            state.waiting.remove(&place);
        }
        state.rung
    }

    fn lock(&self) -> MutexGuard<'_, BellState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads that wait for something, the one that came last in front: its memory is the warmest. It lies beside what they wait for, under
/// the same lock.
#[derive(Default)]
pub struct Waiting(Vec<Arc<dyn Park>>);

impl Waiting {
    /// A place for the calling thread. It waits there once it has given up the lock.
    ///
    /// # Panics
    /// If there is no world.
    pub fn add(&mut self) -> Arc<dyn Park> {
        let place = current().parking();
        self.0.push(Arc::clone(&place));
        place
    }

    /// The thread waits no longer.
    pub fn remove(&mut self, place: &Arc<dyn Park>) {
        self.0.retain(|other| !Arc::ptr_eq(other, place));
    }

    /// One of those that wait. It is to be woken, best without the lock, which it takes at once.
    pub fn take(&mut self) -> Option<Arc<dyn Park>> {
        self.0.pop()
    }

    /// Wakes all that wait.
    pub fn wake_all(&mut self) {
        while let Some(place) = self.take() {
            place.unpark();
        }
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} threads", self.0.len())
    }
}
