//! Code with its own stack that can be suspended in the middle and resumed later.

use std::cell::{Cell, RefCell};
use std::io;
use std::ptr;
use std::thread::ThreadId;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// The default stack size of std's threads. Pages that are not touched take no memory.
const STACK_BYTES: usize = 2 << 20;

/// The number of stacks kept for later fibers.
const STACKS_KEPT: usize = 64;

type Suspend = Yielder<(), ()>;

thread_local! {
    /// Suspends the running fiber. Null outside of fibers.
    static RUNNING: Cell<*const Suspend> = const { Cell::new(ptr::null()) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Code that runs while it is resumed. It belongs to the thread that created it.
pub(super) struct Fiber {
    home: ThreadId,
    /// `None` while it runs, and after it has ended.
    coroutine: RefCell<Option<Coroutine<(), (), ()>>>,
}

#[expect(unsafe_code, reason = "what a universe keeps has to be Send, and a universe stays in its thread")]
// SAFETY: `resume` and `drop` refuse to touch the coroutine in any thread but the one that created it.
unsafe impl Send for Fiber {}

#[expect(unsafe_code, reason = "what a universe keeps has to be Sync, and a universe stays in its thread")]
// SAFETY: as for `Send`.
unsafe impl Sync for Fiber {}

impl Fiber {
    /// Creates a fiber. `work` starts when the fiber is resumed for the first time. It must not panic.
    pub(super) fn new(work: impl FnOnce() + 'static) -> io::Result<Self> {
        let stack = STACKS.with_borrow_mut(Vec::pop);
        let stack = stack.map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)?;
        let coroutine = Coroutine::with_stack(stack, move |suspend: &Suspend, ()| {
            RUNNING.set(suspend);
            work();
        });
        Ok(Self { home: std::thread::current().id(), coroutine: RefCell::new(Some(coroutine)) })
    }

    /// Runs the fiber until it suspends itself. Returns false once it has ended.
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
            // The stack can only be unwound in its own thread.
            std::mem::forget(left);
        }
    }
}

/// Suspends the running fiber until it is resumed.
///
/// # Panics
/// Outside of fibers.
pub(super) fn suspend() {
    let own = RUNNING.get();
    assert!(!own.is_null(), "only a fiber can be suspended");
    #[expect(unsafe_code, reason = "blocking code has no reference to it")]
    // SAFETY: it is set when the fiber starts and after each resumption. It is on the stack of the fiber,
    // which is running.
    let suspend = unsafe { &*own };
    suspend.suspend(());
    RUNNING.set(own);
}
