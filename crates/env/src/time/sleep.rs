//! Waiting for a point in time.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Duration, Instant};
use crate::world::{Timer, current};

/// A future that ends at its deadline. It takes a timer only once it is polled.
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    at: Instant,
    timer: Option<Pin<Box<dyn Timer>>>,
}

/// Waits for `duration`.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// Waits until `at`.
pub fn sleep_until(at: Instant) -> Sleep {
    Sleep { at, timer: None }
}

impl Sleep {
    /// The deadline.
    pub fn deadline(&self) -> Instant {
        self.at
    }

    /// Sets another deadline. A task that waits must poll again.
    pub fn reset(&mut self, at: Instant) {
        self.at = at;
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(at.age());
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        self.timer.get_or_insert_with(|| current().timer(at.age())).as_mut().poll(cx)
    }
}

impl std::fmt::Debug for Sleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sleep").field("at", &self.at).finish_non_exhaustive()
    }
}
