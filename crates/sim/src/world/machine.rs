//! One machine, which is the world of the code that runs on it.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tailrace_env::net::{Listen, Opening, Socket};
use tailrace_env::{Join, Park, Running, Spawn, Task, Timer, Work, World, enter, time};

use super::network::Network;
use super::thread::{self, Joins, Turns};
use super::turns::{Host, Runs, Stalled, Universe, among_tasks, is_among_tasks};
use crate::Rng;

/// The time at which the universe starts, since 1970.
const BEGINNING: Duration = Duration::from_secs(1_700_000_000);

/// Time until the next attempt if nobody answers.
const DIAL_AGAIN: Duration = Duration::from_millis(200);

/// The number of a task or thread that was never started.
const NOTHING: u64 = 0;

/// One machine, from being switched on to losing its power. It is the world of the code that runs on it.
pub(crate) struct Machine {
    /// A reference to itself, for everything that outlives a call.
    own: OnceLock<&'static Self>,
    universe: Universe,
    host: Arc<Host>,
    network: Network,
    number: u8,
    rng: Mutex<Rng>,
    /// The error of its clock, in nanoseconds.
    clock_error: AtomicI64,
}

impl Machine {
    /// Runs `work` in the world of this machine, as its tasks run.
    pub(crate) fn enter<T>(&'static self, work: impl FnOnce() -> T) -> T {
        let _inside = enter(self);
        among_tasks(work)
    }

    /// Ends everything that runs on it. With `is_heard`, its processes were killed, so the other ends of its
    /// connections notice. A machine that loses its power says nothing.
    pub(crate) fn stop(&self, is_heard: bool) {
        self.network.switched_off(self.number, is_heard);
        self.universe.end_all(&self.host);
    }

    /// Gives nothing on this machine a turn for this long.
    pub(crate) fn pause(&self, time: Duration) {
        self.host.pause(self.universe.now() + time);
    }

    /// Gives some of its tasks and threads no turn for this long. `choice` decides which.
    pub(crate) fn starve(&self, time: Duration, choice: u64) {
        self.host.starve(self.universe.now() + time, choice);
    }

    /// Makes its wall clock wrong by this many milliseconds.
    pub(crate) fn set_clock_error(&self, ms: i64) {
        self.clock_error.store(ms.saturating_mul(1_000_000), Ordering::Relaxed);
    }

    fn whole(&self) -> &'static Self {
        self.own.get().expect("it is set when the machine is switched on")
    }

    /// Starts a task or thread and returns its number. Starts nothing for destructors that run once the
    /// machine is off.
    fn start(&self, runs: Runs) -> u64 {
        if self.host.is_on() { self.universe.add(&self.host, runs) } else { NOTHING }
    }
}

impl Network {
    /// Switches on a machine with the address 10.0.0.`number`. It lives as long as the process, as a world
    /// must, and takes a few hundred bytes.
    pub(crate) fn switch_on(&self, number: u8) -> &'static Machine {
        let universe = self.universe();
        let machine: &'static Machine = Box::leak(Box::new(Machine {
            own: OnceLock::new(),
            host: Host::new(universe, number),
            rng: Mutex::new(universe.fork()),
            universe: universe.clone(),
            network: self.clone(),
            number,
            clock_error: AtomicI64::new(0),
        }));
        self.switched_on(number);
        machine.host.world.get_or_init(|| machine);
        machine.own.get_or_init(|| machine)
    }
}

impl Universe {
    /// Runs a task on `machine` until it ends.
    ///
    /// # Errors
    /// [`Stalled`].
    ///
    /// # Panics
    /// If the task panics, or if the machine loses its power meanwhile.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        machine: &'static Machine,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Stalled> {
        let mut running = machine.enter(|| tailrace_env::task::spawn(task));
        self.run_until(|| running.is_finished())?;
        match std::pin::pin!(&mut running).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Ok(outcome.expect("the task does not panic")),
            Poll::Pending => unreachable!("the task has ended"),
        }
    }
}

impl World for Machine {
    fn age(&self) -> Duration {
        self.host.age(self.universe.now())
    }

    fn since_1970(&self) -> Duration {
        let right =
            i64::try_from((BEGINNING + self.universe.now()).as_nanos()).expect("the time fits into 64 bits");
        let shown = right.saturating_add(self.clock_error.load(Ordering::Relaxed));
        Duration::from_nanos(u64::try_from(shown).unwrap_or(0))
    }

    fn timer(&self, age: Duration) -> Pin<Box<dyn Timer>> {
        Box::pin(MachineTimer { machine: self.whole(), at: self.host.when(age), set: None })
    }

    fn yield_now(&self) -> Task {
        let mut yielded = false;
        Box::pin(std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    fn spawn(&self, task: Task) -> Box<dyn Running> {
        assert!(is_among_tasks(), "not in a task");
        Spawn::spawn(&Loops(self.whole()), task)
    }

    fn spawn_blocking(&self, work: Work) {
        assert!(is_among_tasks(), "not in a task");
        Spawn::spawn_blocking(&Loops(self.whole()), work);
    }

    fn spawner(&self) -> Option<Arc<dyn Spawn>> {
        is_among_tasks().then(|| Arc::new(Loops(self.whole())) as Arc<dyn Spawn>)
    }

    fn start_loops(&self, _: &str, _: usize, _: usize) -> io::Result<Arc<dyn Spawn>> {
        Ok(Arc::new(Loops(self.whole())))
    }

    fn processors(&self) -> usize {
        2
    }

    fn listen<'a>(&'a self, address: &'a str) -> Opening<'a, Box<dyn Listen>> {
        Box::pin(async move { self.network.listen(self.number, address) })
    }

    fn connect<'a>(&'a self, address: &'a str) -> Opening<'a, Arc<dyn Socket>> {
        Box::pin(async move {
            loop {
                time::sleep(self.network.latency()).await;
                if let Some(socket) = self.network.dial(self.number, address)? {
                    return Ok(socket);
                }
                time::sleep(DIAL_AGAIN).await;
            }
        })
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let mut rng = self.rng.lock();
        bytes.copy_from_slice(&rng.bytes(bytes.len()));
    }

    fn spawn_thread(&self, _: String, work: Work) -> io::Result<Box<dyn Join>> {
        Ok(Box::new(Joins(Turns::start(&self.universe, &self.host, work)?)))
    }

    fn parking(&self) -> Arc<dyn Park> {
        thread::own().expect("only threads of a machine may block")
    }

    fn on_threads(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        (0..threads).for_each(|_| work());
    }
}

/// Runs the tasks of a machine.
struct Loops(&'static Machine);

impl Spawn for Loops {
    fn spawn(&self, task: Task) -> Box<dyn Running> {
        let id = self.0.start(Runs::Task(task));
        Box::new(Runner { universe: self.0.universe.clone(), id })
    }

    fn spawn_blocking(&self, work: Work) {
        let machine = self.0;
        if machine.host.is_on() {
            // Blocking work also runs in the context of tasks.
            let work = Box::new(|| among_tasks(work));
            let started = Turns::start(&machine.universe, &machine.host, work);
            drop(started.expect("the system can start a thread"));
        }
    }
}

struct Runner {
    universe: Universe,
    id: u64,
}

impl Running for Runner {
    fn abort(&self) {
        self.universe.abort(self.id);
    }

    fn is_finished(&self) -> bool {
        !self.universe.is_there(self.id)
    }
}

struct MachineTimer {
    machine: &'static Machine,
    at: Duration,
    set: Option<(Duration, u64)>,
}

impl MachineTimer {
    fn unset(&mut self) {
        if let Some(timer) = self.set.take() {
            self.machine.universe.unset_timer(timer);
        }
    }
}

impl Future for MachineTimer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.unset();
        if self.machine.universe.now() >= self.at {
            return Poll::Ready(());
        }
        let waker: Waker = cx.waker().clone();
        self.set = Some(self.machine.universe.set_timer(self.at, waker));
        Poll::Pending
    }
}

impl Timer for MachineTimer {
    fn reset(mut self: Pin<&mut Self>, age: Duration) {
        self.unset();
        self.at = self.machine.host.when(age);
    }
}

impl Drop for MachineTimer {
    fn drop(&mut self) {
        self.unset();
    }
}
