//! What a world offers, and which one there is.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::net::{Listen, Opening, Socket};

/// What runs as a task.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What runs on a thread.
pub type Work = Box<dyn FnOnce() + Send>;

/// A world to run in. One that can be repeated gives the same answers to the same calls.
pub trait World: Send + Sync {
    /// How old it is. That never goes back.
    fn age(&self) -> Duration;

    /// The time of day: how long ago 1970 began, in UTC. It may jump.
    fn since_1970(&self) -> Duration;

    /// A timer that ends when the world is so old.
    fn timer(&self, age: Duration) -> Pin<Box<dyn Timer>>;

    /// Ends when the others that are ready have had their turn.
    fn yield_now(&self) -> Task;

    /// Runs a task among those around the caller. It ends with its world.
    ///
    /// # Panics
    /// Outside of a task.
    fn spawn(&self, task: Task) -> Box<dyn Running>;

    /// Runs what may block on a thread for it. Work that has not begun when the world ends is dropped.
    ///
    /// # Panics
    /// Outside of a task.
    fn spawn_blocking(&self, work: Work);

    /// The tasks among which the caller is; `None` outside of all.
    fn spawner(&self) -> Option<Arc<dyn Spawn>>;

    /// Starts more threads on which tasks run: `loops`, and up to `blocking` for what may block. They and their tasks end when what is
    /// returned is dropped, which does not wait for them.
    ///
    /// # Errors
    /// The operating system's, if it gives no threads.
    fn start_loops(&self, name: &str, loops: usize, blocking: usize) -> io::Result<Arc<dyn Spawn>>;

    /// How many threads can run at once.
    fn processors(&self) -> usize;

    /// Listens on HOST:PORT, on the first of the name's addresses that can be taken. Port 0 takes a free one.
    ///
    /// # Errors
    /// The name is not known, or no address can be taken.
    fn listen<'a>(&'a self, address: &'a str) -> Opening<'a, Box<dyn Listen>>;

    /// Connects to HOST:PORT; every address of the host is tried. Sets no time limit.
    ///
    /// # Errors
    /// The name is not known, or nobody answers at its addresses.
    fn connect<'a>(&'a self, address: &'a str) -> Opening<'a, Arc<dyn Socket>>;

    /// Fills `bytes` with random numbers that nobody can guess.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Starts a thread for work that may block, and that lasts. `name` is shown by the system's tools.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    fn spawn_thread(&self, name: String, work: Work) -> io::Result<Box<dyn Join>>;

    /// A place where one thread at a time waits to be woken.
    fn parking(&self) -> Arc<dyn Park>;

    /// Runs `work` on so many threads, and waits for all of them. Blocks.
    ///
    /// # Panics
    /// If `work` does.
    fn on_threads(&self, threads: usize, work: &(dyn Fn() + Sync));
}

/// A timer: ready when its time has come.
pub trait Timer: Future<Output = ()> + Send {
    /// Sets another age of the world.
    fn reset(self: Pin<&mut Self>, age: Duration);
}

/// Where tasks run.
pub trait Spawn: Send + Sync {
    /// As [`World::spawn`], from anywhere.
    fn spawn(&self, task: Task) -> Box<dyn Running>;

    /// As [`World::spawn_blocking`], from anywhere.
    fn spawn_blocking(&self, work: Work);
}

/// A task that runs. It goes on when this is dropped.
pub trait Running: Send + Sync {
    /// Drops the task at the next point where it waits.
    fn abort(&self);

    /// True once it has ended.
    fn is_finished(&self) -> bool;
}

/// A place where one thread at a time waits. A wake-up that comes first is not lost: the next wait ends at once.
pub trait Park: Send + Sync {
    /// Blocks until somebody wakes it, or the world is so old; without a time until somebody does. It may end early.
    fn park(&self, until: Option<Duration>);

    /// Ends the wait, or the next one.
    fn unpark(&self);
}

/// A thread that runs.
pub trait Join: Send {
    /// True once it has ended.
    fn is_finished(&self) -> bool;

    /// Waits for its end. Blocks.
    ///
    /// # Errors
    /// What it panicked with.
    fn join(self: Box<Self>) -> Result<(), Box<dyn Any + Send>>;
}

/// The world of the process.
static INSTALLED: OnceLock<&'static dyn World> = OnceLock::new();

thread_local! {
    static ENTERED: Cell<Option<&'static dyn World>> = const { Cell::new(None) };
}

/// Makes `world` that of the process. Later calls change nothing.
pub fn install(world: &'static dyn World) {
    INSTALLED.get_or_init(|| world);
}

/// Makes `world` that of this thread, until what is returned is dropped.
pub fn enter(world: &'static dyn World) -> Entered {
    Entered { before: ENTERED.replace(Some(world)), thread: PhantomData }
}

/// See [`enter`].
#[derive(Debug)]
#[must_use = "the world is left when this is dropped"]
pub struct Entered {
    before: Option<&'static dyn World>,
    /// It belongs to its thread.
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

/// The world around the caller.
pub(crate) fn current() -> &'static dyn World {
    ENTERED.get().or_else(|| INSTALLED.get().copied()).expect("no world: tailrace_env::install comes first")
}
