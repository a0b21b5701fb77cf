//! Threads that run only while it is their turn.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tailrace_env::{Join, Park, Work, enter};

use super::entropy::seed_thread;
use super::place::set_here;
use super::turns::{Host, Resume, Runs, Universe};

/// What a thread is ended with when its machine loses its power.
struct PowerLost;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The others run.
    Others,
    /// The thread runs.
    Own,
    /// It has ended.
    Nobody,
}

struct TurnsState {
    whose: Whose,
    /// Somebody has woken it since it last waited.
    is_woken: bool,
    outcome: Option<Result<(), Box<dyn Any + Send>>>,
    /// Who waits for its end.
    joining: Vec<Waker>,
}

/// The turns of one thread.
pub(super) struct Turns {
    host: Arc<Host>,
    universe: Universe,
    state: Mutex<TurnsState>,
    changed: Condvar,
    waker: OnceLock<Waker>,
}

thread_local! {
    /// The turns of the calling thread, if it is one of a machine.
    static OWN: RefCell<Option<Arc<Turns>>> = const { RefCell::new(None) };
}

/// Those of the calling thread, if it is one of a machine.
pub(super) fn own() -> Option<Arc<Turns>> {
    OWN.with_borrow(Clone::clone)
}

impl Turns {
    /// Starts a thread. It runs when it has its first turn.
    pub(super) fn start(
        universe: &Universe,
        host: &Arc<Host>,
        name: String,
        work: Work,
    ) -> io::Result<Arc<Self>> {
        let state = TurnsState { whose: Whose::Others, is_woken: false, outcome: None, joining: Vec::new() };
        let turns = Arc::new(Self {
            host: Arc::clone(host),
            universe: universe.clone(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            waker: OnceLock::new(),
        });
        let (own, seed) = (Arc::clone(&turns), universe.fork().next_u64());
        std::thread::Builder::new().name(name).spawn(move || {
            seed_thread(seed);
            own.run(work);
        })?;
        let id = universe.add(host, Runs::Thread(Arc::clone(&turns) as Arc<dyn Resume>));
        turns.waker.get_or_init(|| universe.waker(id).expect("it was just added"));
        Ok(turns)
    }

    fn lock(&self) -> MutexGuard<'_, TurnsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(self: Arc<Self>, work: Work) {
        OWN.set(Some(Arc::clone(&self)));
        let _inside = enter(self.host.world());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.await_turn();
            work();
        }));
        let mut state = self.lock();
        state.outcome = Some(outcome);
        let joining = std::mem::take(&mut state.joining);
        drop(state);
        joining.into_iter().for_each(Waker::wake);
        self.lock().whose = Whose::Nobody;
        self.changed.notify_all();
    }

    fn await_turn(&self) {
        let mut state = self.lock();
        while state.whose != Whose::Own {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        set_here(self.universe.now(), self.host.number);
        if !self.host.is_on() && !std::thread::panicking() {
            resume_unwind(Box::new(PowerLost));
        }
    }

    /// Lets the others go on until somebody wakes this thread.
    fn wait(&self) {
        let mut state = self.lock();
        state.whose = Whose::Others;
        self.changed.notify_all();
        drop(state);
        self.await_turn();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

impl Resume for Turns {
    fn resume(&self) -> bool {
        let mut state = self.lock();
        if state.whose == Whose::Nobody {
            return false;
        }
        state.whose = Whose::Own;
        self.changed.notify_all();
        while state.whose == Whose::Own {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.whose == Whose::Others
    }
}

impl Park for Turns {
    fn park(&self, until: Option<Duration>) {
        let timer = until.and_then(|age| {
            let at = self.host.when(age);
            self.waker.get().map(|waker| self.universe.set_timer(at, waker.clone()))
        });
        if !std::mem::take(&mut self.lock().is_woken) {
            self.wait();
            self.lock().is_woken = false;
        }
        if let Some(timer) = timer {
            self.universe.unset_timer(timer);
        }
    }

    fn unpark(&self) {
        self.lock().is_woken = true;
        self.wake();
    }
}

/// A thread of a machine, for those who wait for its end.
pub(super) struct Joins(pub(super) Arc<Turns>);

impl Join for Joins {
    fn is_finished(&self) -> bool {
        self.0.lock().outcome.is_some()
    }

    fn join(self: Box<Self>) -> Result<(), Box<dyn Any + Send>> {
        loop {
            let mut state = self.0.lock();
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            let own = own().expect("only threads wait for threads");
            if let Some(waker) = own.waker.get() {
                state.joining.push(waker.clone());
            }
            drop(state);
            own.wait();
        }
    }
}
