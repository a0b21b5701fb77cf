//! The real world: clocks and random numbers of the operating system, and the tasks, timers and sockets of
//! tokio.

use std::any::Any;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pin_project_lite::pin_project;
use rustix::rand::{GetRandomFlags, getrandom};
use tailrace_env::net::{Listen, Opening, Socket};
use tailrace_env::{Join, Park, Running, Spawn, Task, Timer, Work, World};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

use crate::net;

/// The real world.
#[derive(Debug)]
struct RealWorld;

/// Installs the real world for this process. Later calls change nothing.
pub fn install() {
    tailrace_env::install(&RealWorld);
}

/// Returns the real world, for worlds that wrap it and change a part.
pub fn world() -> &'static dyn World {
    &RealWorld
}

/// How many task polls an event loop runs before it asks the system for new events, even while more tasks are
/// ready. One poll may take `tailrace_env::aside::TURN`, a millisecond. With tokio's default of 61, two
/// connections that wake each other all the time keep all others waiting for 60 to 200 ms.
pub(crate) const TURNS_BETWEEN_EVENTS: u32 = 8;

/// The age of the world when this process first reads the clock, so that earlier moments exist.
const PAST: Duration = Duration::from_secs(86_400);

/// When this process first read the clock.
fn beginning() -> tokio::time::Instant {
    static BEGINNING: OnceLock<tokio::time::Instant> = OnceLock::new();
    *BEGINNING.get_or_init(tokio::time::Instant::now)
}

/// Converts a moment to tokio's. A moment beyond the range of its clock becomes one 30 years away.
fn to_tokio(age: Duration) -> tokio::time::Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    let after = age.saturating_sub(PAST);
    beginning().checked_add(after).unwrap_or_else(|| beginning() + FAR)
}

impl World for RealWorld {
    fn age(&self) -> Duration {
        PAST + (std::time::Instant::now() - beginning().into_std())
    }

    fn since_1970(&self) -> Duration {
        // `None` if the system's clock is before 1970.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn timer(&self, age: Duration) -> Pin<Box<dyn Timer>> {
        Box::pin(TokioTimer { sleep: tokio::time::sleep_until(to_tokio(age)) })
    }

    fn yield_now(&self) -> Task {
        Box::pin(tokio::task::yield_now())
    }

    fn spawn(&self, task: Task) -> Box<dyn Running> {
        Box::new(TokioTask(tokio::spawn(task).abort_handle()))
    }

    fn spawn_blocking(&self, work: Work) {
        drop(tokio::task::spawn_blocking(work));
    }

    fn spawner(&self) -> Option<Arc<dyn Spawn>> {
        Handle::try_current().ok().map(|handle| Arc::new(TokioSpawn(handle)) as Arc<dyn Spawn>)
    }

    fn start_loops(&self, name: &str, loops: usize, blocking: usize) -> io::Result<Arc<dyn Spawn>> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(loops).max_blocking_threads(blocking);
        builder.event_interval(TURNS_BETWEEN_EVENTS).thread_name(name).enable_all();
        Ok(Arc::new(Loops(Some(builder.build()?))))
    }

    fn processors(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn listen<'a>(&'a self, address: &'a str) -> Opening<'a, Box<dyn Listen>> {
        Box::pin(net::listen(address))
    }

    fn connect<'a>(&'a self, address: &'a str) -> Opening<'a, Arc<dyn Socket>> {
        Box::pin(net::connect(address))
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            // Without random numbers no id can be allocated. Every Linux that runs this process provides
            // them.
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())
                .expect("the kernel provides random numbers");
        }
    }

    fn spawn_thread(&self, name: String, work: Work) -> io::Result<Box<dyn Join>> {
        let running = std::thread::Builder::new().name(name).spawn(work)?;
        Ok(Box::new(Thread(running)))
    }

    fn parking(&self) -> Arc<dyn Park> {
        PARKING.with(|own| Arc::clone(own) as Arc<dyn Park>)
    }

    fn on_threads(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
    }
}

thread_local! {
    static PARKING: Arc<Parking> = Arc::new(Parking(std::thread::current()));
}

/// The thread to unpark.
struct Parking(std::thread::Thread);

impl Park for Parking {
    fn park(&self, until: Option<Duration>) {
        match until {
            None => std::thread::park(),
            Some(until) => std::thread::park_timeout(until.saturating_sub(RealWorld.age())),
        }
    }

    fn unpark(&self) {
        self.0.unpark();
    }
}

pin_project! {
    struct TokioTimer {
        #[pin]
        sleep: tokio::time::Sleep,
    }
}

impl Future for TokioTimer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().sleep.poll(cx)
    }
}

impl Timer for TokioTimer {
    fn reset(self: Pin<&mut Self>, age: Duration) {
        self.project().sleep.reset(to_tokio(age));
    }
}

/// A tokio runtime.
struct TokioSpawn(Handle);

impl Spawn for TokioSpawn {
    fn spawn(&self, task: Task) -> Box<dyn Running> {
        Box::new(TokioTask(self.0.spawn(task).abort_handle()))
    }

    fn spawn_blocking(&self, work: Work) {
        drop(self.0.spawn_blocking(work));
    }
}

/// Event loops of a tokio runtime of their own, beside those of the process.
struct Loops(
    /// `None` once it is dropped.
    Option<Runtime>,
);

impl Loops {
    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("the runtime exists until it is dropped")
    }
}

impl Spawn for Loops {
    fn spawn(&self, task: Task) -> Box<dyn Running> {
        Box::new(TokioTask(self.runtime().spawn(task).abort_handle()))
    }

    fn spawn_blocking(&self, work: Work) {
        drop(self.runtime().spawn_blocking(work));
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        // The last owner may be a task of this runtime, which must not wait for the others.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

struct TokioTask(AbortHandle);

impl Running for TokioTask {
    fn abort(&self) {
        self.0.abort();
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

struct Thread(JoinHandle<()>);

impl Join for Thread {
    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn join(self: Box<Self>) -> Result<(), Box<dyn Any + Send>> {
        self.0.join()
    }
}
