//! A clock that is wrong by a known amount, which may change, to test that this is detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::event::PollFd;

use crate::clock::{Clock, MonotonicClock, Waiting};

/// The machine's clock plus a number of nanoseconds. Another holder of the number can make the clock drift or
/// jump.
#[derive(Clone, Debug)]
pub(super) struct ShiftedClock {
    clock: MonotonicClock,
    shift_ns: Arc<AtomicI64>,
}

impl ShiftedClock {
    pub(super) fn new(waiting: Waiting, shift_ns: &Arc<AtomicI64>) -> Self {
        Self { clock: MonotonicClock::new(waiting), shift_ns: Arc::clone(shift_ns) }
    }

    fn shift_ns(&self) -> i64 {
        self.shift_ns.load(Ordering::Relaxed)
    }
}

impl Clock for ShiftedClock {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_add_signed(self.shift_ns())
    }

    fn wait(&self, until_ns: u64, watched: &mut [PollFd<'_>]) {
        self.clock.wait(until_ns.saturating_sub_signed(self.shift_ns()), watched);
    }
}
