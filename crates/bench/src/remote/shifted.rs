//! A clock that is wrong by a known amount, to see that it is found out.

use rustix::event::PollFd;

use crate::clock::{Clock, MonotonicClock, Waiting};

/// The machine's clock and a fixed number of nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShiftedClock {
    clock: MonotonicClock,
    shift_ns: i64,
}

impl ShiftedClock {
    pub(super) fn new(waiting: Waiting, shift_ns: i64) -> Self {
        Self { clock: MonotonicClock::new(waiting), shift_ns }
    }
}

impl Clock for ShiftedClock {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_add_signed(self.shift_ns)
    }

    fn wait(&self, until_ns: u64, watched: &mut [PollFd<'_>]) {
        self.clock.wait(until_ns.saturating_sub_signed(self.shift_ns), watched);
    }
}
