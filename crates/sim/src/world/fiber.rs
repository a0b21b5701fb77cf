//! Code with a stack of its own, that stops in the middle and is gone on with later.

use std::cell::{Cell, RefCell};
use std::io;
use std::ptr;
use std::thread::ThreadId;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// As much as std gives a thread. What is not touched takes no memory.
const STACK_BYTES: usize = 2 << 20;

/// Stacks that are kept for the next fibers.
const STACKS_KEPT: usize = 64;

type Suspend = Yielder<(), ()>;

thread_local! {
    /// How the fiber that runs is left; null outside of fibers.
    static RUNNING: Cell<*const Suspend> = const { Cell::new(ptr::null()) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Code that runs while it is resumed. It belongs to the thread that made it.
pub(super) struct Fiber {
    home: ThreadId,
    /// `None` while it runs, and when it has ended.
    coroutine: RefCell<Option<Coroutine<(), (), ()>>>,
}

#[expect(unsafe_code, reason = "what a universe keeps has to be Send, and a universe stays in its thread")]
// SAFETY: `resume` and `drop` refuse to touch the coroutine in any other thread than the one that made it.
unsafe impl Send for Fiber {}

#[expect(unsafe_code, reason = "what a universe keeps has to be Sync, and a universe stays in its thread")]
// SAFETY: as for `Send`.
unsafe impl Sync for Fiber {}

impl Fiber {
    /// Nothing of `work` is done before the fiber is resumed for the first time. `work` must not panic.
    pub(super) fn new(work: impl FnOnce() + 'static) -> io::Result<Self> {
        let stack = STACKS.with_borrow_mut(Vec::pop);
        let stack = stack.map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)?;
        let coroutine = Coroutine::with_stack(stack, move |suspend: &Suspend, ()| {
            RUNNING.set(suspend);
            work();
        });
        Ok(Self { home: std::thread::current().id(), coroutine: RefCell::new(Some(coroutine)) })
    }

    /// Goes on until it suspends itself. False once it has ended.
    ///
    /// # Panics
    /// In another thread than its own.
    pub(super) fn resume(&self) -> bool {
        assert_eq!(std::thread::current().id(), self.home, "a fiber stays in its thread");
        let Some(mut coroutine) = self.coroutine.take() else { return false };
        let before = RUNNING.get();
        let resumed = coroutine.resume(());
        RUNNING.set(before);
        match resumed {
            CoroutineResult::Yield(()) => {
                self.coroutine.replace(Some(coroutine));
                true
            }
            CoroutineResult::Return(()) => {
                STACKS.with_borrow_mut(|stacks| {
                    if stacks.len() < STACKS_KEPT {
                        stacks.push(coroutine.into_stack());
                    }
                });
                false
            }
        }
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        let left = self.coroutine.take();
        if std::thread::current().id() != self.home {
            // Its stack can be unwound at home only.
            std::mem::forget(left);
        }
    }
}

/// Leaves the fiber that runs until it is resumed.
///
/// # Panics
/// Outside of fibers.
pub(super) fn suspend() {
    let own = RUNNING.get();
    assert!(!own.is_null(), "only a fiber can be suspended");
    #[expect(unsafe_code, reason = "nobody hands it to the code that blocks")]
    // SAFETY: it is set when the fiber begins and after each resumption, and lives on the fiber's stack, which runs.
    let suspend = unsafe { &*own };
    suspend.suspend(());
    RUNNING.set(own);
}
