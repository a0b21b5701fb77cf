//! Decides what runs next, and what time it is.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tailrace_env::{Task, World, enter};

use super::here::set_here;
use crate::Rng;

/// The age of a machine when it is switched on, so that it has a past.
const PAST: Duration = Duration::from_secs(86_400);

/// The next turn goes to one of this many that are ready, so it is not always the one that has waited
/// longest.
const CHOICES: u64 = 4;

/// The longest duration of a turn, in nanoseconds.
const TURN_NANOS: u64 = 20_000;

/// Nothing is ready and no timer is set, so the wait would never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("everything waits, and no timer is set")]
pub(crate) struct Stalled;

/// The machines, and the time they share.
#[derive(Clone)]
pub(crate) struct Universe(Arc<Mutex<State>>);

/// A task or thread that gets turns.
pub(super) enum Runs {
    Task(Task),
    Thread(Arc<dyn Resume>),
}

/// A thread that runs only during its turns.
pub(super) trait Resume: Send + Sync {
    /// Gives it a turn, and waits until the turn is over. Returns false once the thread has ended.
    fn resume(&self) -> bool;
}

/// The scheduler's view of a machine.
pub(super) struct Host {
    /// The world that its tasks and threads run in.
    pub(super) world: OnceLock<&'static dyn World>,
    pub(super) number: u8,
    /// The age of the universe when the machine was switched on.
    began: Duration,
    is_on: AtomicBool,
    /// The age of the universe at which the machine continues, in nanoseconds.
    paused_until: AtomicU64,
    /// The same for the starved part of the machine, and the choice of which part that is.
    starved_until: AtomicU64,
    starves: AtomicU64,
}

/// One task or thread of this many is starved.
const STARVED_OF: u64 = 4;

impl Host {
    pub(super) fn new(universe: &Universe, number: u8) -> Arc<Self> {
        Arc::new(Self {
            number,
            world: OnceLock::new(),
            began: universe.now(),
            is_on: AtomicBool::new(true),
            paused_until: AtomicU64::new(0),
            starved_until: AtomicU64::new(0),
            starves: AtomicU64::new(0),
        })
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Gives nothing on the machine a turn until then.
    pub(super) fn pause(&self, until: Duration) {
        self.paused_until.store(nanos(until), Ordering::Relaxed);
    }

    /// Gives some tasks and threads of the machine no turn until then. `choice` decides which.
    pub(super) fn starve(&self, until: Duration, choice: u64) {
        self.starved_until.store(nanos(until), Ordering::Relaxed);
        self.starves.store(choice, Ordering::Relaxed);
    }

    /// Returns when the task or thread with this number may have a turn again.
    fn held_until(&self, id: u64) -> Duration {
        let mixed = (id ^ self.starves.load(Ordering::Relaxed)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let starved = match mixed.is_multiple_of(STARVED_OF) {
            true => self.starved_until.load(Ordering::Relaxed),
            false => 0,
        };
        Duration::from_nanos(self.paused_until.load(Ordering::Relaxed).max(starved))
    }

    pub(super) fn world(&self) -> &'static dyn World {
        *self.world.get().expect("it is set when the machine is switched on")
    }

    /// Converts the age of the universe to the age of the machine.
    pub(super) fn age(&self, now: Duration) -> Duration {
        PAST + (now - self.began)
    }

    /// Converts the age of the machine to the age of the universe.
    pub(super) fn when(&self, age: Duration) -> Duration {
        self.began + age.saturating_sub(PAST)
    }
}

fn nanos(age: Duration) -> u64 {
    u64::try_from(age.as_nanos()).expect("the time fits into 64 bits")
}

thread_local! {
    static AMONG_TASKS: Cell<bool> = const { Cell::new(false) };
}

/// Reports whether the caller is in the context of tasks, and so may spawn some.
pub(super) fn is_among_tasks() -> bool {
    AMONG_TASKS.get()
}

/// Sets whether the caller is in the context of tasks. Returns the previous value.
pub(super) fn replace_among_tasks(are_around: bool) -> bool {
    AMONG_TASKS.replace(are_around)
}

/// Runs `work` in the context of tasks.
pub(super) fn among_tasks<T>(work: impl FnOnce() -> T) -> T {
    let before = AMONG_TASKS.replace(true);
    let outcome = work();
    AMONG_TASKS.set(before);
    outcome
}

struct Entry {
    host: Arc<Host>,
    /// `None` during its turn.
    runs: Option<Runs>,
    waker: Waker,
    is_ready: bool,
    is_aborted: bool,
}

impl Entry {
    /// Ends an entry that gets no more turns.
    fn end(self) {
        // Destructors still run in the entry's world.
        let _inside = enter(self.host.world());
        match self.runs {
            // Resume it until it has unwound.
            Some(Runs::Thread(thread)) => while thread.resume() {},
            others => among_tasks(|| drop(others)),
        }
    }
}

struct State {
    rng: Rng,
    now: Duration,
    next_id: u64,
    entries: BTreeMap<u64, Entry>,
    ready: Vec<u64>,
    /// Entries that became ready during this turn. They are queued in the order of their numbers: a tokio
    /// channel that wakes several picks their order at random, without a seed.
    woken: Vec<u64>,
    timers: BTreeMap<(Duration, u64), Waker>,
    turns: u64,
    /// Digest of all choices, times and bytes sent so far. Two runs of one seed have the same.
    digest: u64,
}

fn mixed(digest: u64, with: u64) -> u64 {
    (digest ^ with).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

impl Universe {
    /// Returns a universe without machines, whose course follows from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: Rng::new(seed),
            now: Duration::ZERO,
            next_id: 0,
            entries: BTreeMap::new(),
            ready: Vec::new(),
            woken: Vec::new(),
            timers: BTreeMap::new(),
            turns: 0,
            digest: seed,
        })))
    }

    /// Returns the age of the universe.
    pub(crate) fn now(&self) -> Duration {
        self.lock().now
    }

    /// Returns how many turns there were.
    pub(crate) fn turns(&self) -> u64 {
        self.lock().turns
    }

    /// Returns a number that distinguishes two courses: which turns there were, when, and what was sent.
    pub(crate) fn digest(&self) -> u64 {
        self.lock().digest
    }

    /// Adds the checksum of something that was sent.
    pub(super) fn sent(&self, checksum: u32) {
        let mut state = self.lock();
        state.digest = mixed(state.digest, checksum.into());
    }

    /// Gives turns until `is_done`, which is checked before each turn.
    ///
    /// # Errors
    /// [`Stalled`].
    pub(crate) fn run_until(&self, mut is_done: impl FnMut() -> bool) -> Result<(), Stalled> {
        while !is_done() {
            self.turn()?;
        }
        Ok(())
    }

    /// Lets time pass.
    pub(crate) fn run_for(&self, time: Duration) {
        let end = self.now() + time;
        // It is fine if nothing has anything to do.
        let _ = self.run_until(|| self.now() >= end);
        let mut state = self.lock();
        state.now = state.now.max(end);
    }

    /// Returns an independent source of random numbers.
    pub(super) fn fork(&self) -> Rng {
        self.lock().rng.fork()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    fn turn(&self) -> Result<(), Stalled> {
        for waker in self.due_timers()? {
            waker.wake();
        }
        let Some((id, host, waker, runs)) = self.next() else { return Ok(()) };
        let _inside = enter(host.world());
        set_here(self.now(), host.number);
        let left = match runs {
            Runs::Task(mut task) => {
                let polled = among_tasks(|| task.as_mut().poll(&mut Context::from_waker(&waker)));
                polled.is_pending().then_some(Runs::Task(task))
            }
            Runs::Thread(thread) => thread.resume().then_some(Runs::Thread(thread)),
        };
        self.put_back(id, host, waker, left);
        Ok(())
    }

    /// Returns the timers that are due. If nothing is ready, time jumps to the next timer.
    fn due_timers(&self) -> Result<Vec<Waker>, Stalled> {
        let mut state = self.lock();
        state.line_up();
        if state.ready.is_empty() {
            let Some(((next, _), _)) = state.timers.first_key_value() else { return Err(Stalled) };
            state.now = state.now.max(*next);
        }
        let now = state.now;
        let later = state.timers.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut state.timers, later);
        Ok(due.into_values().collect())
    }

    fn next(&self) -> Option<(u64, Arc<Host>, Waker, Runs)> {
        let mut state = self.lock();
        state.line_up();
        if state.ready.is_empty() {
            return None;
        }
        let choices = CHOICES.min(state.ready.len() as u64);
        let chosen = usize::try_from(state.rng.below(choices)).expect("a small number");
        let id = state.ready.remove(chosen);
        let took = state.rng.below(TURN_NANOS);
        state.now += Duration::from_nanos(took);
        state.turns += 1;
        state.digest = mixed(state.digest, id ^ took << 20);
        let now = state.now;
        let entry = state.entries.get_mut(&id)?;
        entry.is_ready = false;
        let held = entry.host.held_until(id);
        if held > now {
            let waker = entry.waker.clone();
            state.next_id += 1;
            let timer = (held, state.next_id);
            state.timers.insert(timer, waker);
            return None;
        }
        Some((id, Arc::clone(&entry.host), entry.waker.clone(), entry.runs.take()?))
    }

    fn put_back(&self, id: u64, host: Arc<Host>, waker: Waker, runs: Option<Runs>) {
        let mut state = self.lock();
        match state.entries.get_mut(&id) {
            Some(entry) if runs.is_some() && !entry.is_aborted => entry.runs = runs,
            _ => {
                state.entries.remove(&id);
                drop(state);
                Entry { host, runs, waker, is_ready: false, is_aborted: true }.end();
            }
        }
    }

    pub(super) fn waker(&self, id: u64) -> Option<Waker> {
        self.lock().entries.get(&id).map(|entry| entry.waker.clone())
    }

    /// Adds something that is ready to run.
    pub(super) fn add(&self, host: &Arc<Host>, runs: Runs) -> u64 {
        let mut state = self.lock();
        state.next_id += 1;
        let id = state.next_id;
        let waker = Waker::from(Arc::new(Ready { id, universe: self.clone() }));
        let entry =
            Entry { host: Arc::clone(host), runs: Some(runs), waker, is_ready: true, is_aborted: false };
        state.entries.insert(id, entry);
        state.ready.push(id);
        id
    }

    pub(super) fn is_there(&self, id: u64) -> bool {
        self.lock().entries.contains_key(&id)
    }

    /// Drops a task: at once, or after its turn.
    pub(super) fn abort(&self, id: u64) {
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(&id) else { return };
        entry.is_aborted = true;
        if entry.runs.is_none() {
            return;
        }
        let ended = state.entries.remove(&id);
        drop(state);
        ended.into_iter().for_each(Entry::end);
    }

    /// Ends everything that runs on a machine.
    pub(super) fn end_all(&self, host: &Arc<Host>) {
        host.is_on.store(false, Ordering::Release);
        loop {
            let next = {
                let mut state = self.lock();
                let mine = state.entries.iter().find(|(_, entry)| Arc::ptr_eq(&entry.host, host));
                let id = mine.map(|(id, _)| *id);
                id.and_then(|id| state.entries.remove(&id))
            };
            let Some(entry) = next else { return };
            entry.end();
        }
    }

    pub(super) fn set_timer(&self, age: Duration, waker: Waker) -> (Duration, u64) {
        let mut state = self.lock();
        state.next_id += 1;
        let timer = (age, state.next_id);
        state.timers.insert(timer, waker);
        timer
    }

    pub(super) fn unset_timer(&self, timer: (Duration, u64)) {
        let waker = self.lock().timers.remove(&timer);
        drop(waker);
    }
}

impl State {
    fn line_up(&mut self) {
        self.woken.sort_unstable();
        self.ready.append(&mut self.woken);
    }
}

/// Makes an entry ready when woken.
struct Ready {
    id: u64,
    universe: Universe,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.universe.lock();
        if let Some(entry) = state.entries.get_mut(&self.id)
            && !std::mem::replace(&mut entry.is_ready, true)
        {
            state.woken.push(self.id);
        }
    }
}
