//! One machine: the world of what runs on it.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tailrace_env::{Join, Park, Running, Spawn, Task, Timer, Work, World, enter};

use super::thread::{self, Joins, Turns};
use super::turns::{Runs, Universe};
use crate::Rng;

/// How old a machine is when it is switched on, so that there are moments before.
const PAST: Duration = Duration::from_secs(86_400);

/// When the universe began, in seconds after 1970 began.
const BEGINNING: Duration = Duration::from_secs(1_700_000_000);

/// The number of what was never started.
const NOTHING: u64 = 0;

thread_local! {
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// One machine, from switching on to losing its power. It is the world of what runs on it.
pub struct Machine {
    /// Itself, for what lasts.
    own: OnceLock<&'static Self>,
    universe: Universe,
    /// How old the universe was.
    began: Duration,
    rng: Mutex<Rng>,
    /// How far its clock is wrong, in nanoseconds.
    clock_error: AtomicI64,
    is_on: AtomicBool,
}

impl Machine {
    /// A machine lasts as long as the process, as a world has to: a few hundred bytes for each start of one.
    pub(super) fn switch_on(universe: Universe, began: Duration, rng: Rng) -> &'static Self {
        let own: &'static Self = Box::leak(Box::new(Self {
            own: OnceLock::new(),
            universe,
            began,
            rng: Mutex::new(rng),
            clock_error: AtomicI64::new(0),
            is_on: AtomicBool::new(true),
        }));
        own.own.get_or_init(|| own)
    }

    /// Does something in the world of this machine, as its tasks do.
    pub fn enter<T>(&'static self, work: impl FnOnce() -> T) -> T {
        let _inside = enter(self);
        self.in_task(work)
    }

    /// It loses its power: nothing of what runs on it goes on.
    pub fn lose_power(&'static self) {
        self.is_on.store(false, Ordering::Release);
        self.universe.end_all(self);
    }

    /// Sets its clock of the day wrong by so many milliseconds.
    pub fn set_clock_error(&self, ms: i64) {
        self.clock_error.store(ms.saturating_mul(1_000_000), Ordering::Relaxed);
    }

    /// True until it has lost its power.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    pub(super) fn in_task<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = IN_TASK.replace(true);
        let outcome = work();
        IN_TASK.set(before);
        outcome
    }

    /// How old the universe is when the machine is so old.
    pub(super) fn when(&self, age: Duration) -> Duration {
        self.began + age.saturating_sub(PAST)
    }

    fn whole(&self) -> &'static Self {
        self.own.get().expect("it is set when it is switched on")
    }

    /// What is dropped with a machine starts nothing.
    fn start(&self, runs: Runs) -> u64 {
        if self.is_on() { self.universe.add(self.whole(), runs) } else { NOTHING }
    }
}

impl World for Machine {
    fn age(&self) -> Duration {
        PAST + (self.universe.now() - self.began)
    }

    fn since_1970(&self) -> Duration {
        let right = i64::try_from((BEGINNING + self.universe.now()).as_nanos()).expect("it is young");
        let shown = right.saturating_add(self.clock_error.load(Ordering::Relaxed));
        Duration::from_nanos(u64::try_from(shown).unwrap_or(0))
    }

    fn timer(&self, age: Duration) -> Pin<Box<dyn Timer>> {
        Box::pin(MachineTimer { machine: self.whole(), at: self.when(age), set: None })
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
        assert!(IN_TASK.get(), "there is no task around");
        Spawn::spawn(&Loops(self.whole()), task)
    }

    fn spawn_blocking(&self, work: Work) {
        assert!(IN_TASK.get(), "there is no task around");
        Spawn::spawn_blocking(&Loops(self.whole()), work);
    }

    fn spawner(&self) -> Option<Arc<dyn Spawn>> {
        IN_TASK.get().then(|| Arc::new(Loops(self.whole())) as Arc<dyn Spawn>)
    }

    fn start_loops(&self, _: &str, _: usize, _: usize) -> io::Result<Arc<dyn Spawn>> {
        Ok(Arc::new(Loops(self.whole())))
    }

    fn processors(&self) -> usize {
        2
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.copy_from_slice(&rng.bytes(bytes.len()));
    }

    fn spawn_thread(&self, name: String, work: Work) -> io::Result<Box<dyn Join>> {
        Ok(Box::new(Joins(Turns::start(&self.universe, self.whole(), name, work)?)))
    }

    fn parking(&self) -> Arc<dyn Park> {
        thread::own().expect("only threads of a machine may block")
    }

    fn on_threads(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        (0..threads).for_each(|_| work());
    }
}

/// Where the tasks of a machine run.
struct Loops(&'static Machine);

impl Spawn for Loops {
    fn spawn(&self, task: Task) -> Box<dyn Running> {
        let id = self.0.start(Runs::Task(task));
        Box::new(Runner { universe: self.0.universe.clone(), id })
    }

    fn spawn_blocking(&self, work: Work) {
        if self.0.is_on() {
            let (machine, work) = (self.0, Box::new(move || machine_work(work)));
            let started = Turns::start(&machine.universe, machine, "blocking".to_owned(), work);
            drop(started.expect("the system gives a thread"));
        }
    }
}

/// Tasks are around work that may block, too.
fn machine_work(work: Work) {
    IN_TASK.set(true);
    work();
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
        self.at = self.machine.when(age);
    }
}

impl Drop for MachineTimer {
    fn drop(&mut self) {
        self.unset();
    }
}
