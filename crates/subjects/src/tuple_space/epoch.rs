//! Guards, and the freeing of memory when they have ended: `crossbeam-epoch`, or under `--cfg shuttle` a
//! model of it.
//!
//! The model frees as early as any such scheme may: as soon as the last guard has ended that existed when
//! something was retired. It keeps the memory of what it has freed until the run has ended, so that a use
//! that comes too late finds a [`Life`] that is over.
#![cfg_attr(shuttle, expect(unsafe_code, reason = "a model of memory reclamation frees memory"))]

#[cfg(not(shuttle))]
pub(crate) use self::real::{Guard, Life, free_box, pin};

#[cfg(shuttle)]
pub(crate) use self::modelled::{Guard, Life, bury, free_box, pin, run};

#[cfg(not(shuttle))]
mod real {
    pub(crate) use crossbeam_epoch::{Guard, pin};

    /// Empty: only models examine lives.
    pub(crate) struct Life;

    #[expect(clippy::unused_self, reason = "the model needs self")]
    impl Life {
        pub(crate) fn begin() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn is_reached(&self, _guard: &Guard) {}

        #[inline(always)]
        pub(crate) fn is_used(&self) {}

        #[inline(always)]
        pub(crate) fn is_retired(&self) {}
    }

    pub(crate) fn free_box<T>(value: Box<T>) {
        drop(value);
    }
}

#[cfg(shuttle)]
mod modelled {
    use std::cell::{Cell, RefCell};
    use std::collections::{BTreeSet, VecDeque};
    use std::mem::MaybeUninit;

    use super::super::sync::{choose, seen};

    type Task = Box<dyn FnOnce()>;

    // A run of a model has one system thread, however many threads it models.
    thread_local! {
        /// The number of the next guard or retirement.
        static NEXT: Cell<u64> = const { Cell::new(1) };
        /// Live guards.
        static GUARDS: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
        /// Tasks that wait for guards older than their number.
        static DEFERRED: RefCell<VecDeque<(u64, Task)>> = const { RefCell::new(VecDeque::new()) };
        /// Memory to be freed when the run has ended.
        static GRAVES: RefCell<Vec<Task>> = const { RefCell::new(Vec::new()) };
        /// Lives that are not over.
        static LIVES: Cell<usize> = const { Cell::new(0) };
    }

    fn number() -> u64 {
        NEXT.replace(NEXT.get() + 1)
    }

    pub(crate) struct Guard(u64);

    pub(crate) fn pin() -> Guard {
        choose();
        let own = number();
        GUARDS.with_borrow_mut(|guards| guards.insert(own));
        Guard(own)
    }

    impl Guard {
        /// # Safety
        /// Same as for `crossbeam-epoch`.
        pub(crate) unsafe fn defer_unchecked<R>(&self, task: impl FnOnce() -> R + 'static) {
            let task = Box::new(|| drop(task()));
            DEFERRED.with_borrow_mut(|deferred| deferred.push_back((number(), task)));
        }

        #[expect(clippy::unused_self, reason = "the same signature as in `crossbeam-epoch`")]
        pub(crate) fn flush(&self) {}
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                choose();
            }
            GUARDS.with_borrow_mut(|guards| guards.remove(&self.0));
            while let Some(task) = due() {
                task();
            }
        }
    }

    fn due() -> Option<Task> {
        let oldest = GUARDS.with_borrow(|guards| guards.first().copied().unwrap_or(u64::MAX));
        DEFERRED.with_borrow_mut(|deferred| {
            let due = deferred.front().is_some_and(|(number, _)| *number < oldest);
            due.then(|| deferred.pop_front()).flatten().map(|(_, task)| task)
        })
    }

    /// Tracks whether a piece of shared memory is in use, retired or freed, and panics if it is used when it
    /// must not be.
    pub(crate) struct Life {
        retired: Cell<u64>,
        over: Cell<bool>,
    }

    const NEVER: u64 = u64::MAX;

    impl Life {
        pub(crate) fn begin() -> Self {
            LIVES.set(LIVES.get() + 1);
            Self { retired: Cell::new(NEVER), over: Cell::new(false) }
        }

        /// It was reached through shared memory.
        pub(crate) fn is_reached(&self, guard: &Guard) {
            self.is_used();
            let before = guard.0 < self.retired.get();
            assert!(std::thread::panicking() || before, "retired memory is reached by a later guard");
        }

        pub(crate) fn is_used(&self) {
            // What a failure drops on its way out may be damaged: the first message is the one to read.
            assert!(std::thread::panicking() || !self.over.get(), "freed memory is used");
        }

        /// It is handed over to the reclamation scheme.
        pub(crate) fn is_retired(&self) {
            self.is_used();
            let before = self.retired.replace(number());
            assert!(std::thread::panicking() || before == NEVER, "memory is retired twice");
        }
    }

    impl Drop for Life {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                assert!(!self.over.replace(true), "memory is freed twice");
                LIVES.set(LIVES.get() - 1);
            }
        }
    }

    /// Frees memory when the run has ended.
    pub(crate) fn bury(free: impl FnOnce() + 'static) {
        GRAVES.with_borrow_mut(|graves| graves.push(Box::new(free)));
    }

    /// Drops a value, and keeps its memory until the run has ended.
    pub(crate) fn free_box<T: 'static>(value: Box<T>) {
        let value = Box::into_raw(value);
        // SAFETY: it came from a box just now; what is left of it is memory that needs no drop.
        unsafe {
            value.drop_in_place();
            bury(move || drop(Box::from_raw(value.cast::<MaybeUninit<T>>())));
        }
    }

    /// One run of a model. Everything that it has made must have been freed by its end.
    pub(crate) fn run(model: impl FnOnce()) {
        // Leftovers of a failed run.
        let _ = (GUARDS.take(), DEFERRED.take(), LIVES.take());
        GRAVES.take().into_iter().for_each(|free| free());
        seen::begin_run();
        model();
        seen::end_run();
        assert_eq!(GUARDS.with_borrow(BTreeSet::len), 0, "guards at the end of a run");
        assert_eq!(DEFERRED.with_borrow(VecDeque::len), 0, "what is retired is freed");
        assert_eq!(LIVES.get(), 0, "pieces of memory are left at the end of a run");
    }
}
