//! Threads that run only during their turns.
//!
//! A whole run uses one thread of the operating system. A thread of a machine is a coroutine with its own
//! stack. Code that blocks is suspended in the middle and resumed later, without a system thread of its own.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tailrace_env::{Join, Park, Work, enter};

use super::fiber::{Fiber, suspend};
use super::here::set_here;
use super::turns::{Host, Resume, Runs, Universe, replace_among_tasks};

/// The panic payload that ends a thread when its machine loses its power.
struct PowerLost;

struct TurnsState {
    /// It was woken since it last waited.
    is_woken: bool,
    outcome: Option<Result<(), Box<dyn Any + Send>>>,
    /// Wakers of those who wait for its end.
    joining: Vec<Waker>,
}

/// The turns of one thread.
pub(super) struct Turns {
    host: Arc<Host>,
    universe: Universe,
    state: Mutex<TurnsState>,
    waker: OnceLock<Waker>,
    fiber: OnceLock<Fiber>,
}

thread_local! {
    /// The turns of the running thread, if it belongs to a machine.
    static OWN: RefCell<Option<Arc<Turns>>> = const { RefCell::new(None) };
}

/// Returns the turns of the calling thread, if it belongs to a machine.
pub(super) fn own() -> Option<Arc<Turns>> {
    OWN.with_borrow(Clone::clone)
}

impl Turns {
    /// Starts a thread. It first runs when it gets its first turn.
    pub(super) fn start(universe: &Universe, host: &Arc<Host>, work: Work) -> io::Result<Arc<Self>> {
        let state = TurnsState { is_woken: false, outcome: None, joining: Vec::new() };
        let turns = Arc::new(Self {
            host: Arc::clone(host),
            universe: universe.clone(),
            state: Mutex::new(state),
            waker: OnceLock::new(),
            fiber: OnceLock::new(),
        });
        let own = Arc::clone(&turns);
        let fiber = Fiber::new(move || own.run(work))?;
        turns.fiber.get_or_init(|| fiber);
        let id = universe.add(host, Runs::Thread(Arc::clone(&turns) as Arc<dyn Resume>));
        turns.waker.get_or_init(|| universe.waker(id).expect("the thread was just added"));
        Ok(turns)
    }

    fn run(self: Arc<Self>, work: Work) {
        OWN.set(Some(Arc::clone(&self)));
        let _inside = enter(self.host.world());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.begin_turn(false);
            work();
        }));
        let mut state = self.state.lock();
        state.outcome = Some(outcome);
        let joining = std::mem::take(&mut state.joining);
        drop(state);
        joining.into_iter().for_each(Waker::wake);
        OWN.set(None);
    }

    /// Starts a turn. With `unwinds`, the thread is unwinding and a destructor had to wait.
    fn begin_turn(&self, unwinds: bool) {
        set_here(self.universe.now(), self.host.number);
        if !self.host.is_on() && !unwinds {
            resume_unwind(Box::new(PowerLost));
        }
    }

    /// Lets others run until this thread is woken.
    fn wait(&self) {
        let unwinds = std::thread::panicking();
        let (own, among_tasks) = (OWN.take(), replace_among_tasks(false));
        suspend();
        OWN.set(own);
        replace_among_tasks(among_tasks);
        self.begin_turn(unwinds);
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

impl Resume for Turns {
    fn resume(&self) -> bool {
        self.fiber.get().is_some_and(Fiber::resume)
    }
}

impl Park for Turns {
    fn park(&self, until: Option<Duration>) {
        let timer = until.and_then(|age| {
            let at = self.host.when(age);
            self.waker.get().map(|waker| self.universe.set_timer(at, waker.clone()))
        });
        if !std::mem::take(&mut self.state.lock().is_woken) {
            self.wait();
            self.state.lock().is_woken = false;
        }
        if let Some(timer) = timer {
            self.universe.unset_timer(timer);
        }
    }

    fn unpark(&self) {
        self.state.lock().is_woken = true;
        self.wake();
    }
}

/// A thread of a machine, for joining it.
pub(super) struct Joins(pub(super) Arc<Turns>);

impl Join for Joins {
    fn is_finished(&self) -> bool {
        self.0.state.lock().outcome.is_some()
    }

    fn join(self: Box<Self>) -> Result<(), Box<dyn Any + Send>> {
        loop {
            let mut state = self.0.state.lock();
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
