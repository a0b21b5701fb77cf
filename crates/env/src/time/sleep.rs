//! Waiting for a moment.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Duration, Instant};
use crate::world::{Timer, current};

/// Ends at its moment. A timer is taken only once somebody waits for it.
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    at: Instant,
    timer: Option<Pin<Box<dyn Timer>>>,
}

/// Waits for so long.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// Waits for that moment.
pub fn sleep_until(at: Instant) -> Sleep {
    Sleep { at, timer: None }
}

impl Sleep {
    /// Its moment.
    pub fn deadline(&self) -> Instant {
        self.at
    }

    /// Sets another moment. Who waits must look again.
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
