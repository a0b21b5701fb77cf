//! Time as the load generator sees it: nanoseconds of one monotonic clock, and waiting.
//!
//! Everything that measures takes a [`Clock`], so that tests run on virtual time. The real clock reads the system's
//! monotonic clock as it is, without an origin of its own: two processes of one machine then share one time line, and
//! a due time that travels in a payload means the same to both. Between machines it means nothing;
//! [`crate::remote::offset`] estimates the offset between two clocks.

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// A monotonic clock on which one can wait.
pub trait Clock: Send + Sync {
    /// The time now, in nanoseconds since an origin that is fixed for the life of the machine.
    fn now_ns(&self) -> u64;

    /// Returns at `until_ns`, or as soon as one of `watched` is ready, or earlier for no reason.
    ///
    /// With a time that has passed it only looks which descriptors are ready.
    fn wait(&self, until_ns: u64, watched: &mut [PollFd<'_>]);
}

/// How a thread spends the time until the next message is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Waiting {
    /// In the kernel: costs no processor time, wakes up some ten microseconds late.
    #[default]
    Sleep,
    /// In a loop that never leaves the processor: punctual, and takes a whole core.
    Spin,
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock {
    waiting: Waiting,
}

impl MonotonicClock {
    /// A clock that waits in the given way.
    pub fn new(waiting: Waiting) -> Self {
        Self { waiting }
    }

    /// Asks the kernel to wake the calling thread as exactly as it can.
    ///
    /// By default Linux may delay every timer of a normal thread by 50 us. That it cannot be changed is no failure:
    /// the lateness of the schedule is recorded anyway.
    pub(crate) fn sharpen_this_thread() {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        (time.tv_sec as u64) * SECOND_NS + time.tv_nsec as u64
    }

    fn wait(&self, until_ns: u64, watched: &mut [PollFd<'_>]) {
        let left_ns = until_ns.saturating_sub(self.now_ns());
        if left_ns == 0 && watched.is_empty() {
            return;
        }
        let kernel_ns = if self.waiting == Waiting::Spin { 0 } else { left_ns };
        if watched.is_empty() {
            match self.waiting {
                Waiting::Sleep => std::thread::sleep(Duration::from_nanos(kernel_ns)),
                Waiting::Spin => std::hint::spin_loop(),
            }
            return;
        }
        let timeout =
            Timespec { tv_sec: (kernel_ns / SECOND_NS) as i64, tv_nsec: (kernel_ns % SECOND_NS) as _ };
        // An interrupted wait is an early return, which callers expect.
        let _ = poll(watched, Some(&timeout));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_the_time_and_no_longer_than_needed() {
        let clock = MonotonicClock::new(Waiting::Sleep);
        let before = clock.now_ns();
        clock.wait(before + 2_000_000, &mut []);
        let after = clock.now_ns();
        assert!(after >= before + 2_000_000, "woke {} ns early", before + 2_000_000 - after);
        clock.wait(before, &mut []);
    }
}
