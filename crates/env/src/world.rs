//! The interface of a world, and the current world.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::net::{Listen, Opening, Socket};

/// The body of a task.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The body of a thread.
pub type Work = Box<dyn FnOnce() + Send>;

/// A world to run in. A repeatable world gives the same answers to the same calls.
pub trait World: Send + Sync {
    /// The time since this world started. Never goes back.
    fn age(&self) -> Duration;

    /// The time of day: the time since the start of 1970 in UTC. It may jump.
    fn since_1970(&self) -> Duration;

    /// Returns a timer that ends when the world reaches this age.
    fn timer(&self, age: Duration) -> Pin<Box<dyn Timer>>;

    /// Returns a future that ends once the other ready tasks have had their turn.
    fn yield_now(&self) -> Task;

    /// Runs a task next to the caller's task. The task ends with its world.
    ///
    /// # Panics
    /// Outside of a task.
    fn spawn(&self, task: Task) -> Box<dyn Running>;

    /// Runs `work`, which may block, on a thread for blocking work. Work that has not started when the world
    /// ends is dropped.
    ///
    /// # Panics
    /// Outside of a task.
    fn spawn_blocking(&self, work: Work);

    /// Returns the spawner of the calling task. `None` outside of a task.
    fn spawner(&self) -> Option<Arc<dyn Spawn>>;

    /// Starts more threads that run tasks: `loops` of them, and up to `blocking` for work that may block.
    /// They and their tasks end when the returned spawner is dropped. The drop does not wait for that.
    ///
    /// # Errors
    /// The operating system's error if it cannot start the threads.
    fn start_loops(&self, name: &str, loops: usize, blocking: usize) -> io::Result<Arc<dyn Spawn>>;

    /// Returns how many threads can run at once.
    fn processors(&self) -> usize;

    /// Listens on HOST:PORT, on the first of the name's addresses that is available. Port 0 picks a free
    /// port.
    ///
    /// # Errors
    /// The name cannot be resolved, or no address is available.
    fn listen<'a>(&'a self, address: &'a str) -> Opening<'a, Box<dyn Listen>>;

    /// Connects to HOST:PORT. Tries every address of the host. Sets no timeout.
    ///
    /// # Errors
    /// The name cannot be resolved, or no address answers.
    fn connect<'a>(&'a self, address: &'a str) -> Opening<'a, Arc<dyn Socket>>;

    /// Fills `bytes` with unpredictable random bytes.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Starts a thread for long-running work that may block. The system's tools show `name`.
    ///
    /// # Errors
    /// The operating system's error if it cannot start a thread.
    fn spawn_thread(&self, name: String, work: Work) -> io::Result<Box<dyn Join>>;

    /// Returns a place where one thread at a time can park.
    fn parking(&self) -> Arc<dyn Park>;

    /// Runs `work` on `threads` threads at once and waits for all of them. Blocks.
    ///
    /// # Panics
    /// If `work` panics.
    fn on_threads(&self, threads: usize, work: &(dyn Fn() + Sync));
}

/// A timer. It is ready when its time has come.
pub trait Timer: Future<Output = ()> + Send {
    /// Sets another deadline, as an age of the world.
    fn reset(self: Pin<&mut Self>, age: Duration);
}

/// A set of threads that run tasks.
pub trait Spawn: Send + Sync {
    /// Like [`World::spawn`], from any thread.
    fn spawn(&self, task: Task) -> Box<dyn Running>;

    /// Like [`World::spawn_blocking`], from any thread.
    fn spawn_blocking(&self, work: Work);
}

/// A running task. Dropping this does not stop it.
pub trait Running: Send + Sync {
    /// Drops the task at its next await point.
    fn abort(&self);

    /// True once the task has ended.
    fn is_finished(&self) -> bool;
}

/// A place where one thread at a time parks. An early wake-up is not lost: the next park ends at once.
pub trait Park: Send + Sync {
    /// Blocks until [`Park::unpark`] is called, or until the world reaches the age `until` if one is given.
    /// It may return early.
    fn park(&self, until: Option<Duration>);

    /// Ends the current park, or the next one.
    fn unpark(&self);
}

/// A running thread.
pub trait Join: Send {
    /// True once the thread has ended.
    fn is_finished(&self) -> bool;

    /// Waits for the thread to end. Blocks.
    ///
    /// # Errors
    /// The payload of its panic.
    fn join(self: Box<Self>) -> Result<(), Box<dyn Any + Send>>;
}

/// The world of the process.
static INSTALLED: OnceLock<&'static dyn World> = OnceLock::new();

thread_local! {
    static ENTERED: Cell<Option<&'static dyn World>> = const { Cell::new(None) };
}

/// Sets the world of the process. Later calls change nothing.
pub fn install(world: &'static dyn World) {
    INSTALLED.get_or_init(|| world);
}

/// Sets the world of this thread until the returned guard is dropped.
pub fn enter(world: &'static dyn World) -> Entered {
    Entered { before: ENTERED.replace(Some(world)), thread: PhantomData }
}

/// The guard that [`enter`] returns.
#[derive(Debug)]
#[must_use = "the world is left when this is dropped"]
pub struct Entered {
    before: Option<&'static dyn World>,
    /// Keeps the guard on its thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.set(self.before);
    }
}

impl std::fmt::Debug for dyn World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

/// Returns the current world.
pub(crate) fn current() -> &'static dyn World {
    ENTERED.get().or_else(|| INSTALLED.get().copied()).expect("no world: tailrace_env::install comes first")
}
