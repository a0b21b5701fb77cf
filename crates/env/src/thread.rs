//! Threads for long-running work that may block.

use std::any::Any;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

use crate::time::{Duration, Instant};
use crate::world::{Join, Park, current};

/// A thread. Dropping this does not stop it.
pub struct Thread {
    name: String,
    running: Box<dyn Join>,
}

/// Starts a thread. The system's tools show the first 15 bytes of `name`.
///
/// # Errors
/// The operating system's error if it cannot start a thread.
///
/// # Panics
/// If there is no world.
pub fn spawn(name: impl Into<String>, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let name = name.into();
    let running = current().spawn_thread(name.clone(), Box::new(work))?;
    Ok(Thread { name, running })
}

/// Runs `work` on `threads` threads at once and waits for all of them. Blocks.
///
/// # Panics
/// If `work` panics, or if there is no world.
pub fn run_on(threads: usize, work: impl Fn() + Sync) {
    current().on_threads(threads, &work);
}

/// Returns how many threads can run at once.
///
/// # Panics
/// If there is no world.
pub fn processors() -> usize {
    current().processors()
}

/// Waits for a future outside of a task. Blocks.
///
/// # Panics
/// If there is no world, or if the calling thread may not block.
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
    /// The thread's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True once the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.running.is_finished()
    }

    /// Waits for the thread to end. Blocks.
    ///
    /// # Errors
    /// The payload of its panic.
    pub fn join(self) -> Result<(), Box<dyn Any + Send>> {
        self.running.join()
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A bell that ends all pauses of threads once it has rung.
#[derive(Debug, Default)]
pub struct Bell(Mutex<BellState>);

#[derive(Debug, Default)]
struct BellState {
    rung: bool,
    waiting: Waiting,
}

impl Bell {
    /// Ends all current pauses. Later pauses return at once.
    pub fn ring(&self) {
        let mut state = self.0.lock();
        state.rung = true;
        state.waiting.wake_all();
    }

    /// True once it has rung.
    pub fn has_rung(&self) -> bool {
        self.0.lock().rung
    }

    /// Blocks for `duration` or until the bell rings. True if it has rung.
    ///
    /// # Panics
    /// If there is no world.
    pub fn pause(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        let mut state = self.0.lock();
        while !state.rung && Instant::now() < end {
            let place = state.waiting.add();
            drop(state);
            place.park(Some(end.age()));
            state = self.0.lock();
            state.waiting.remove(&place);
        }
        state.rung
    }
}

/// Threads that wait for something. The last to come is first to be woken, because its memory is the warmest.
/// Kept next to what the threads wait for, under the same lock.
#[derive(Default)]
pub struct Waiting(Vec<Arc<dyn Park>>);

impl Waiting {
    /// Adds the calling thread and returns the place where it parks. It parks after it has released the lock.
    ///
    /// # Panics
    /// If there is no world.
    pub fn add(&mut self) -> Arc<dyn Park> {
        let place = current().parking();
        self.0.push(Arc::clone(&place));
        place
    }

    /// Removes a thread that no longer waits.
    pub fn remove(&mut self, place: &Arc<dyn Park>) {
        self.0.retain(|other| !Arc::ptr_eq(other, place));
    }

    /// Removes one of the waiting threads, to be woken. Wake it after releasing the lock, because it takes
    /// the lock at once.
    pub fn take(&mut self) -> Option<Arc<dyn Park>> {
        self.0.pop()
    }

    /// Wakes all waiting threads.
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
