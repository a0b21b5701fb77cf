//! hyper's timer, driven by the clock of `tailrace_env`.

use std::pin::Pin;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tailrace_env::time::{Duration, Instant, Sleep, sleep, sleep_until};

/// Converts between hyper's `std::time::Instant` and the world's: `origin` corresponds to `began`. The value
/// of `origin` itself has no meaning.
#[derive(Debug)]
pub(crate) struct WorldTimer {
    origin: std::time::Instant,
    began: Instant,
}

impl WorldTimer {
    pub(crate) fn new() -> Self {
        Self { origin: std::time::Instant::now(), began: Instant::now() }
    }
}

impl hyper::rt::Timer for WorldTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(WorldSleep(Mutex::new(sleep(duration))))
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        let deadline = self.began + deadline.saturating_duration_since(self.origin);
        Box::pin(WorldSleep(Mutex::new(sleep_until(deadline))))
    }

    fn now(&self) -> std::time::Instant {
        self.origin + self.began.elapsed()
    }
}

/// hyper requires sleeps to be `Sync`, though it only polls them.
struct WorldSleep(Mutex<Sleep>);

impl Future for WorldSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.get_mut().0.get_mut();
        Pin::new(sleep).poll(cx)
    }
}

impl hyper::rt::Sleep for WorldSleep {}
