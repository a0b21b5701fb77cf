//! Time for the load generator: nanoseconds of one monotonic clock, and waiting.
//!
//! All measuring code takes a [`Clock`], so that tests can run on virtual time. The real clock reads the
//! system's monotonic clock as it is, without an origin of its own. So two processes on one machine share a
//! time line, and a due time in a payload means the same to both. Between machines it means nothing;
//! [`crate::remote::offset`] estimates the offset between two clocks.

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// A monotonic clock that can wait.
pub trait Clock: Send + Sync {
    /// The current time, in nanoseconds since an origin that stays fixed while the machine is up.
    fn now_ns(&self) -> u64;

    /// Returns at `until_ns`, or as soon as one of `watched` is ready. May return early.
    ///
    /// If `until_ns` has passed, it only checks which descriptors are ready.
    fn wait(&self, until_ns: u64, watched: &mut [PollFd<'_>]);
}

/// How a thread spends the time until the next message is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Waiting {
    /// In the kernel: costs no processor time, and wakes up about ten microseconds late.
    #[default]
    Sleep,
    /// In a busy loop: punctual, and takes a whole core.
    Spin,
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock {
    waiting: Waiting,
}

impl MonotonicClock {
    /// Creates a clock that waits in the given way.
    pub fn new(waiting: Waiting) -> Self {
        Self { waiting }
    }

    /// Asks the kernel to wake the calling thread as precisely as it can.
    ///
    /// By default Linux may delay every timer of a normal thread by 50 us. A failure is ignored, since the
    /// lateness of the schedule is recorded anyway.
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
