//! Waiting with a deadline.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{Duration, Instant, Sleep, sleep_until};

/// The error of a wait that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the deadline has passed")
    }
}

impl std::error::Error for Elapsed {}

pin_project! {
    /// See [`timeout`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

/// Waits for `future` for at most `duration`.
///
/// # Errors
/// [`Elapsed`]. Dropping the returned future drops `future`.
///
/// # Panics
/// If there is no world.
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    timeout_at(Instant::now() + duration, future)
}

/// Waits for `future` until `deadline` at most. A future that is ready when first polled succeeds even after
/// the deadline.
///
/// # Errors
/// [`Elapsed`]. Dropping the returned future drops `future`.
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: sleep_until(deadline) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.future.poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(this.sleep).poll(cx).map(|()| Err(Elapsed)),
        }
    }
}
